// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/script_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/thread.h"
#include "thalweg/server/script_message.h"

namespace thalweg {
namespace {

using testing::HasSubstr;
using Outputs = absl::StatusOr<std::vector<Tensor>>;

// The program's side, by hand.
class ScriptChannelTest : public testing::Test {
 protected:
  void SetUp() override { Open(ScriptChannel::kStallLimit); }
  void Open(absl::Duration stall_limit) {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    control_ = FileHandle(fds[0]);
    auto channel = ScriptChannel::Create(FileHandle(fds[1]), stall_limit);
    ASSERT_TRUE(channel.ok()) << channel.status();
    channel_ = *channel;
  }

  // The end of a connection that the server hands over.
  FileHandle Accept() {
    char byte = 0;
    iovec data{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    int fd = -1;
    if (recvmsg(control_.get(), &message, MSG_CMSG_CLOEXEC) == 1) {
      std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    }
    return FileHandle(fd);
  }
  // The next message that comes to the program, without its length.
  std::string Receive() {
    if (!program_.valid()) program_ = Accept();
    uint64_t size = 0;
    if (!Read(&size, sizeof(size))) return "";
    std::string body(size, '\0');
    return Read(body.data(), size) ? body : "";
  }
  bool Read(void* to, size_t n) {
    for (size_t done = 0; done < n;) {
      const ssize_t got = read(program_.get(), static_cast<char*>(to) + done, n - done);
      if (got <= 0) return false;
      done += got;
    }
    return true;
  }
  void Send(const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t sent = send(program_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      ASSERT_GT(sent, 0);
      done += sent;
    }
  }
  // A result has the form of a call: the code in place of `eager`, the message in
  // that of the token.
  static std::string Result(std::vector<Tensor> outputs) {
    return *EncodeCall({.token = "", .eager = false, .inputs = std::move(outputs)});
  }
  void Call(std::vector<Tensor> inputs) {
    channel_->Call({.token = "pyfunc_7", .eager = false, .inputs = std::move(inputs)}, cancellation_,
                   [this](Outputs outputs) {
                     outputs_ = std::move(outputs);
                     done_.Notify();
                   });
  }

  FileHandle control_, program_;
  std::shared_ptr<ScriptChannel> channel_;
  Cancellation cancellation_;
  Outputs outputs_ = absl::InternalError("not called");
  Notification done_;
};

TEST_F(ScriptChannelTest, CallsAndResults) {
  Call({Tensor::Scalar<float>(2), Tensor::Of<std::string>({2}, {"a", std::string("\0b", 2)})});
  const std::string message = Receive();
  EXPECT_THAT(message, HasSubstr("pyfunc_7"));
  Send(Result({Tensor::Of<int64_t>({0, 3}, {}), Tensor::Scalar<std::string>("x")}));
  done_.WaitForNotification();
  ASSERT_TRUE(outputs_.ok()) << outputs_.status();
  ASSERT_EQ(outputs_->size(), 2);
  EXPECT_EQ((*outputs_)[0].shape(), Shape({0, 3}));
  EXPECT_EQ((*outputs_)[1].scalar<std::string>(), "x");
}

// More than a socket takes at once, in both directions.
TEST_F(ScriptChannelTest, LargeTensors) {
  Tensor large = Tensor::Zeros(kFloat, {5000000});
  large.mutable_data<float>()[4999999] = 3;
  Call({large});
  const std::string message = Receive();
  EXPECT_GT(message.size(), 20000000);
  Send(Result({large}));
  done_.WaitForNotification();
  ASSERT_TRUE(outputs_.ok()) << outputs_.status();
  EXPECT_EQ((*outputs_)[0].data<float>()[4999999], 3);
}

TEST_F(ScriptChannelTest, AnErrorOfTheFunction) {
  Call({});
  // Code 1 is CANCELLED.
  Receive();
  Send(*EncodeCall({.token = "it says why", .eager = true, .inputs = {}}));
  done_.WaitForNotification();
  EXPECT_EQ(outputs_.status(), absl::CancelledError("it says why"));
}

TEST_F(ScriptChannelTest, ACancelledCallEndsAtOnceAndItsResultIsDropped) {
  Call({});
  Receive();
  cancellation_.Cancel(absl::CancelledError("the step"));
  ASSERT_TRUE(done_.HasBeenNotified());
  EXPECT_TRUE(absl::IsCancelled(outputs_.status()));

  // Its thread is still busy: the next call goes to another.
  FileHandle busy = std::move(program_);
  Cancellation other;
  Notification called;
  channel_->Call({.token = "pyfunc_8", .eager = false, .inputs = {}}, other, [&](Outputs outputs) {
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    called.Notify();
  });
  EXPECT_THAT(Receive(), HasSubstr("pyfunc_8"));
  std::swap(program_, busy);
  Send(Result({Tensor::Scalar<float>(1)}));
  std::swap(program_, busy);
  Send(Result({}));
  called.WaitForNotification();
}

TEST_F(ScriptChannelTest, AStepThatIsCancelledAlreadyDoesNotCall) {
  cancellation_.Cancel(absl::CancelledError("the step"));
  Call({});
  ASSERT_TRUE(done_.HasBeenNotified());
  EXPECT_TRUE(absl::IsCancelled(outputs_.status()));
}

TEST_F(ScriptChannelTest, CallsEndWithTheProgram) {
  Call({});
  control_ = FileHandle();
  done_.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(outputs_.status())) << outputs_.status();
  Notification refused;
  channel_->Call({.token = "pyfunc_8", .eager = false, .inputs = {}}, cancellation_, [&](Outputs outputs) {
    EXPECT_TRUE(absl::IsUnavailable(outputs.status())) << outputs.status();
    refused.Notify();
  });
  refused.WaitForNotification();
}

TEST_F(ScriptChannelTest, AThreadOfTheProgramThatEndsIsTheEnd) {
  Call({});
  Receive();
  program_ = FileHandle();
  done_.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(outputs_.status())) << outputs_.status();
}

// More calls than connections: the others wait for a result, or until they are cancelled.
TEST_F(ScriptChannelTest, CallsThatWaitForAConnection) {
  constexpr int kCalls = ScriptChannel::kMaxConnections + 3;
  Cancellation cancelled;
  std::atomic<int> ended = 0;
  BlockingCounter all(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    Cancellation& cancellation = i == ScriptChannel::kMaxConnections ? cancelled : cancellation_;
    channel_->Call({.token = "f", .eager = false, .inputs = {}}, cancellation, [&](Outputs outputs) {
      if (outputs.ok()) ++ended;
      all.DecrementCount();
    });
  }
  cancelled.Cancel(absl::CancelledError("the step"));
  std::vector<FileHandle> connections;
  for (int i = 0; i < ScriptChannel::kMaxConnections; ++i) connections.push_back(Accept());
  for (int i = 0; i < 3; ++i) {  // the first connection has the two that are left
    program_ = std::move(connections[0]);
    EXPECT_THAT(Receive(), HasSubstr("f"));
    Send(Result({}));
    connections[0] = std::move(program_);
  }
  for (size_t i = 1; i < connections.size(); ++i) {
    program_ = std::move(connections[i]);
    Receive();
    Send(Result({}));
    connections[i] = std::move(program_);
  }
  all.Wait();
  EXPECT_EQ(ended, kCalls - 1);
}

// Functions that wait for each other, and are more than can run at a time.
TEST_F(ScriptChannelTest, CallsThatWaitWhileNoneEndsFail) {
  Open(absl::Milliseconds(20));
  constexpr int kWaiting = 3;
  BlockingCounter failed(kWaiting), ended(ScriptChannel::kMaxConnections);
  for (int i = 0; i < ScriptChannel::kMaxConnections; ++i) {
    channel_->Call({.token = i == 0 ? "first" : "others", .eager = false, .inputs = {}}, cancellation_,
                   [&](Outputs outputs) {
                     EXPECT_TRUE(outputs.ok()) << outputs.status();
                     ended.DecrementCount();
                   });
  }
  for (int i = 0; i < kWaiting; ++i) {
    channel_->Call({.token = "last", .eager = false, .inputs = {}}, cancellation_, [&](Outputs outputs) {
      EXPECT_TRUE(absl::IsResourceExhausted(outputs.status()));
      EXPECT_THAT(outputs.status().message(), HasSubstr("The Python function last waits for one of the 128 calls"));
      EXPECT_THAT(outputs.status().message(), HasSubstr("1 of first, 127 of others"));
      failed.DecrementCount();
    });
  }
  failed.Wait();
  for (int i = 0; i < ScriptChannel::kMaxConnections; ++i) {  // those that run may still end
    program_ = Accept();
    Receive();
    Send(Result({}));
  }
  ended.Wait();
}

TEST_F(ScriptChannelTest, CallsEndWithTheServer) {
  Call({});
  channel_.reset();
  done_.WaitForNotification();
  EXPECT_TRUE(absl::IsCancelled(outputs_.status())) << outputs_.status();
}

TEST_F(ScriptChannelTest, TensorsWithoutElementsInPythonAreRefused) {
  Call({Tensor(kVariant, Shape())});
  done_.WaitForNotification();
  EXPECT_EQ(outputs_.status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ScriptMessage, EveryShorterMessageIsRefused) {
  const ScriptCall what{
      .token = "", .eager = false, .inputs = {Tensor::Of<std::string>({2}, {"ab", "c"}), Tensor::Vector<float>({1})}};
  const std::string whole = EncodeCall(what)->substr(sizeof(uint64_t));
  ASSERT_TRUE(DecodeResult(whole).ok());
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(DecodeResult(absl::string_view(whole).substr(0, n)).ok()) << n;
  }
}

TEST(ScriptMessage, AHugeShapeTakesNoMemory) {
  std::string message =
      EncodeCall({.token = "", .eager = false, .inputs = {Tensor::Vector<float>({1})}})->substr(sizeof(uint64_t));
  const int64_t huge = int64_t{1} << 60;
  std::memcpy(message.data() + message.size() - sizeof(float) - sizeof(huge), &huge, sizeof(huge));
  EXPECT_FALSE(DecodeResult(message).ok());
}

TEST(ScriptChannel, NeedsASocket) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const FileHandle other(fds[1]);
  EXPECT_EQ(ScriptChannel::Create(FileHandle(fds[0])).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace thalweg
