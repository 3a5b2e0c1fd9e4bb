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
using Outputs = ScriptResult;

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
    ReadWithFile(control_, &byte, 1);
    return std::exchange(received_, FileHandle());
  }
  // Reads `n` bytes, and the file that comes with them into received_, if there is one.
  bool ReadWithFile(const FileHandle& socket, void* to, size_t n) {
    iovec data{.iov_base = to, .iov_len = n};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const bool whole = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) == static_cast<ssize_t>(n);
    if (const cmsghdr* const rights = CMSG_FIRSTHDR(&message); rights != nullptr) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
      received_ = FileHandle(fd);
    }
    return whole;
  }
  // The next message that comes to the program, without its length.
  std::string Receive() {
    if (!program_.valid()) program_ = Accept();
    uint64_t size = 0;
    if (!ReadWithFile(program_, &size, sizeof(size))) return "";
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
  // that of the token, and whether the memory is in use in that of `repeat`.
  static std::string Record(ScriptCall call, SharedMemory* memory = nullptr, bool memory_used = false) {
    call.repeat = memory_used ? 1 : 0;
    return EncodeCall(call, memory);
  }
  static std::string Result(std::vector<Tensor> outputs) {
    return Record({.token = "", .eager = false, .inputs = std::move(outputs)});
  }
  void Call(std::vector<Tensor> inputs) {
    channel_->Call({.token = "pyfunc_7", .eager = false, .inputs = std::move(inputs)}, cancellation_,
                   [this](ScriptResults results) {
                     outputs_ = std::move(results.front());
                     results.erase(results.begin());
                     more_ = std::move(results);
                     done_.Notify();
                   });
  }

  FileHandle control_, program_;
  FileHandle received_;  // the last file that came over a connection
  std::shared_ptr<SharedMemory> memory_;
  std::shared_ptr<ScriptChannel> channel_;
  Cancellation cancellation_;
  Outputs outputs_ = absl::InternalError("not called");
  ScriptResults more_;
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
  const Tensor large = Tensor::Scalar(std::string(20000000, 'x'));  // strings do not go through memory
  Call({large});
  const std::string message = Receive();
  EXPECT_GT(message.size(), 20000000);
  Send(Result({large}));
  done_.WaitForNotification();
  ASSERT_TRUE(outputs_.ok()) << outputs_.status();
  EXPECT_EQ((*outputs_)[0].scalar<std::string>(), large.scalar<std::string>());
}

// Large tensors go through memory, which calls use again unless the program keeps it.
TEST_F(ScriptChannelTest, SharedMemory) {
  Tensor large = Tensor::Zeros(kFloat, {1 << 18});
  large.mutable_data<float>()[7] = 3;
  Tensor twice = Tensor::Zeros(kFloat, {1 << 18});
  twice.mutable_data<float>()[7] = 6;
  // The program's answer is in the memory too, over the input.
  const auto call = [&](bool memory_used) {
    Notification done;
    channel_->Call({.token = "f", .eager = false, .inputs = {large}}, cancellation_, [&](ScriptResults results) {
      outputs_ = std::move(results.front());
      done.Notify();
    });
    received_ = FileHandle();
    EXPECT_LT(Receive().size(), 1000);
    if (received_.valid()) {
      auto memory = SharedMemory::Map(std::move(received_));
      ASSERT_TRUE(memory.ok()) << memory.status();
      memory_ = *memory;
    }
    ASSERT_NE(memory_, nullptr);
    EXPECT_EQ(reinterpret_cast<const float*>(memory_->data())[7], 3);
    Send(Record({.token = "", .eager = false, .inputs = {twice}}, memory_.get(), memory_used));
    done.WaitForNotification();
    ASSERT_TRUE(outputs_.ok()) << outputs_.status();
    EXPECT_EQ((*outputs_)[0].data<float>()[7], 6);
  };
  call(/*memory_used=*/false);
  const std::shared_ptr<SharedMemory> first = memory_;
  call(/*memory_used=*/false);
  const std::shared_ptr<SharedMemory> second = memory_;
  EXPECT_GT(second->bytes(), first->bytes());  // it has room for results
  call(/*memory_used=*/true);
  EXPECT_EQ(memory_, second);
  call(/*memory_used=*/false);
  EXPECT_NE(memory_, second);
}

TEST_F(ScriptChannelTest, ResultsOfRepeatedCalls) {
  Call({});
  Receive();
  const auto body = [](const std::string& message) { return message.substr(sizeof(uint64_t)); };
  const std::string records = body(Result({Tensor::Scalar<float>(1)})) + body(Result({Tensor::Scalar<float>(2)})) +
                              body(Record({.token = "the end", .eager = true, .inputs = {}}));
  const uint64_t size = records.size();
  Send(std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + records);
  done_.WaitForNotification();
  ASSERT_TRUE(outputs_.ok()) << outputs_.status();
  EXPECT_EQ((*outputs_)[0].scalar<float>(), 1);
  ASSERT_EQ(more_.size(), 2);
  EXPECT_EQ((*more_[0])[0].scalar<float>(), 2);
  EXPECT_EQ(more_[1].status(), absl::CancelledError("the end"));
}

TEST_F(ScriptChannelTest, AnErrorOfTheFunction) {
  Call({});
  // Code 1 is CANCELLED.
  Receive();
  Send(Record({.token = "it says why", .eager = true, .inputs = {}}));
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
  channel_->Call({.token = "pyfunc_8", .eager = false, .inputs = {}}, other, [&](const ScriptResults& results) {
    EXPECT_TRUE(results[0].ok()) << results[0].status();
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
  channel_->Call({.token = "pyfunc_8", .eager = false, .inputs = {}}, cancellation_, [&](const ScriptResults& results) {
    EXPECT_TRUE(absl::IsUnavailable(results[0].status())) << results[0].status();
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
    channel_->Call({.token = "f", .eager = false, .inputs = {}}, cancellation, [&](const ScriptResults& results) {
      if (results[0].ok()) ++ended;
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
                   [&](const ScriptResults& results) {
                     EXPECT_TRUE(results[0].ok()) << results[0].status();
                     ended.DecrementCount();
                   });
  }
  for (int i = 0; i < kWaiting; ++i) {
    channel_->Call({.token = "last", .eager = false, .inputs = {}}, cancellation_, [&](const ScriptResults& results) {
      const absl::Status status = results[0].status();
      EXPECT_TRUE(absl::IsResourceExhausted(status));
      EXPECT_THAT(status.message(), HasSubstr("The Python function last waits for one of the 128 calls"));
      EXPECT_THAT(status.message(), HasSubstr("1 of first, 127 of others"));
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
  const std::string whole = EncodeCall(what, nullptr).substr(sizeof(uint64_t));
  ASSERT_TRUE(DecodeAnswer(whole, nullptr).ok());
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(DecodeAnswer(absl::string_view(whole).substr(0, n), nullptr).ok()) << n;
  }
}

TEST(ScriptMessage, AHugeShapeTakesNoMemory) {
  std::string message = EncodeCall({.token = "", .eager = false, .inputs = {Tensor::Vector<float>({1})}}, nullptr)
                            .substr(sizeof(uint64_t));
  const int64_t huge = int64_t{1} << 60;
  std::memcpy(message.data() + message.size() - sizeof(float) - sizeof(huge), &huge, sizeof(huge));
  EXPECT_FALSE(DecodeAnswer(message, nullptr).ok());
}

// Whatever the program says about the memory, the server reads nothing outside of it.
TEST(ScriptMessage, PlacesInMemoryAreChecked) {
  const auto memory = SharedMemory::Create(1 << 18);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const ScriptCall what{.token = "", .eager = false, .inputs = {Tensor::Zeros(kFloat, {1 << 15})}};
  ASSERT_EQ(MemoryOfInputs(what), 1 << 17);
  std::string message = EncodeCall(what, memory->get()).substr(sizeof(uint64_t));
  ASSERT_LT(message.size(), 100);
  EXPECT_TRUE(DecodeAnswer(message, memory->get()).ok());
  EXPECT_FALSE(DecodeAnswer(message, nullptr).ok());
  const auto small = SharedMemory::Create(1 << 16);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_FALSE(DecodeAnswer(message, small->get()).ok());
  for (const uint64_t offset : {uint64_t{(1 << 17) + 1}, uint64_t{1} << 18, UINT64_MAX, UINT64_MAX - 10}) {
    std::memcpy(message.data() + message.size() - sizeof(offset), &offset, sizeof(offset));
    EXPECT_FALSE(DecodeAnswer(message, memory->get()).ok()) << offset;
  }
}

TEST(ScriptChannel, NeedsASocket) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const FileHandle other(fds[1]);
  EXPECT_EQ(ScriptChannel::Create(FileHandle(fds[0])).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace thalweg
