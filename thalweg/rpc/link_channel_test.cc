// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/link_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/rpc/rpc_client.h"
#include "thalweg/rpc/rpc_server.h"
#include "thalweg/rpc/same_host_target.h"
#include "thalweg/transport/link_testlib.h"
#include "thalweg/transport/same_host_link.h"
#include "thalweg/transport/same_host_listener.h"

namespace thalweg {
namespace {

constexpr absl::Duration kChannelTimeout = absl::Seconds(30);

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Text(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& s : slices) text.append(reinterpret_cast<const char*>(s.begin()), s.size());
  return text;
}

std::string Numbered(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 % 251);
  return text;
}

LinkChannel::Connect SameHost(SocketLoop* loop, SameHostTarget target) {
  return [loop, target = std::move(target)](Link::Handlers handlers) {
    return ConnectToSameHost(target, loop, std::move(handlers));
  };
}

// A server with a method that gives back what it gets, one that waits until it is
// cancelled, and one that fails.
class LinkChannelTest : public testing::Test {
 protected:
  LinkChannelTest() {
    methods_.push_back({"/test/Echo", [](ServerCall& call) {
                          const grpc::ByteBuffer request = call.request();
                          call.Reply(absl::OkStatus(), request);
                        }});
    methods_.push_back({"/test/Wait", [this](ServerCall& call) {
                          const auto id = call.cancellation().Register([this, &call](const absl::Status& why) {
                            cancelled_.Notify();
                            call.Reply(why, {});
                          });
                          if (id.has_value()) return waiting_.Notify();
                          cancelled_.Notify();
                          call.Reply(call.cancellation().status(), {});
                        }});
    // The same, any number of times.
    methods_.push_back({"/test/Hold", [](ServerCall& call) {
                          const auto reply = [&call](const absl::Status& why) { call.Reply(why, {}); };
                          if (!call.cancellation().Register(reply).has_value()) reply(call.cancellation().status());
                        }});
    methods_.push_back(
        {"/test/Fail", [](ServerCall& call) { call.Reply(FailedPrecondition("it is ", Text(call.request())), {}); }});
    Restart();
  }

  void Restart(int port = 0) {
    absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start({.port = port}, methods_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::shared_ptr<LinkChannel> Connect() {
    return std::make_shared<LinkChannel>(
        &loop_, &timer_, SameHost(&loop_, {server_->port(), {""}}),
        [](const char*, const grpc::ByteBuffer&, const CallOptions&, RpcChannel::Done done) {
          grpc::ByteBuffer nothing;
          done(Aborted("the link was refused"), nothing);
        });
  }

  static absl::StatusOr<std::string> Call(LinkChannel& channel, const char* method, const std::string& text,
                                          const CallOptions& options = {}) {
    absl::StatusOr<std::string> result;
    Notification ended;
    RpcChannel::Done done = [&](const absl::Status& status, grpc::ByteBuffer& body) {
      if (status.ok()) result = Text(body);
      if (!status.ok()) result = status;
      ended.Notify();
    };
    if (!channel.Call(method, Bytes(text), options, done)) return Aborted("no link");
    if (!ended.WaitForNotificationWithTimeout(kChannelTimeout)) return Internal("no answer");
    return result;
  }

  std::vector<RpcMethod> methods_;
  Notification waiting_, cancelled_;
  SocketLoop loop_{"test"};
  Timer timer_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(LinkChannelTest, BodiesOfAnySize) {
  const auto channel = Connect();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{4097}, size_t{3} << 20, size_t{80} << 20}) {
    const std::string text = Numbered(bytes);
    const auto answer = Call(*channel, "/test/Echo", text);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(*answer == text) << bytes << " bytes have come as " << answer->size();
  }
  channel->Close();
}

// A server that reads when it is told to, and then answers with the size of the request. The link holds 1 MB.
class SlowServerTest : public testing::Test {
 protected:
  ~SlowServerTest() override {
    Read();
    channel_->Close();
    server_->Close();
  }
  void Read() {
    MutexLock lock(&mutex_);
    reads_ = true;
    changed_.SignalAll();
  }
  absl::StatusOr<std::shared_ptr<Link>> Connect(Link::Handlers client) {
    const Link::Handlers server = {
        .receive = [this](const LinkMessage& message, const LinkBody& body) -> Link::Work {
          {
            MutexLock lock(&mutex_);
            while (!reads_) changed_.Wait(&mutex_);
          }
          if (message.kind != LinkMessage::kCall) return nullptr;
          return [this, id = message.call, size = body.size()] {
            const std::string text = absl::StrCat(size);
            // The client may be gone.
            server_->Send({.kind = LinkMessage::kReply, .call = id}, {absl::string_view(text)}, nullptr).IgnoreError();
          };
        },
        .lost = [](const absl::Status&) {}};
    ASSIGN_OR_RETURN(LinkPair pair,
                     MakeLinkPair(LinkKind::kTcp, &loop_, std::move(client), server, {.max_unsent = 1 << 20}));
    server_ = pair.server;
    return pair.client;
  }

  Mutex mutex_;
  CondVar changed_;
  bool reads_ ABSL_GUARDED_BY(mutex_) = false;
  SocketLoop loop_{"test"};
  Timer timer_;
  std::shared_ptr<Link> server_;
  std::atomic<int> elsewhere_{0};
  const std::shared_ptr<LinkChannel> channel_ = std::make_shared<LinkChannel>(
      &loop_, &timer_, [this](Link::Handlers client) { return Connect(std::move(client)); },
      [this](const char*, const grpc::ByteBuffer&, const CallOptions&, RpcChannel::Done done) {
        ++elsewhere_;
        grpc::ByteBuffer nothing;
        done(Aborted("the call went elsewhere"), nothing);
      });
};

TEST_F(SlowServerTest, CallsWaitUntilTheServerReads) {
  constexpr int kCalls = 60;
  constexpr size_t kBytes = 1 << 20;
  absl::BlockingCounter ended(kCalls);
  std::atomic<int> right = 0;
  const std::string text = Numbered(kBytes);
  for (int i = 0; i < kCalls; ++i) {
    RpcChannel::Done done = [&](const absl::Status& status, grpc::ByteBuffer& body) {
      if (status.ok() && Text(body) == absl::StrCat(kBytes)) ++right;
      ended.DecrementCount();
    };
    ASSERT_TRUE(channel_->Call("/test/Size", Bytes(text), {}, done)) << i;
  }
  EXPECT_EQ(right, 0);
  Read();
  ended.Wait();
  EXPECT_EQ(right, kCalls);
  EXPECT_EQ(elsewhere_, 0);
}

TEST_F(SlowServerTest, CallsThatWaitEndAtTheirDeadlineAndWhenTheyAreCancelled) {
  constexpr int kCalls = 60;
  absl::BlockingCounter ended(kCalls);
  std::atomic<int> late = 0, cancelled = 0;
  Cancellation cancellation;
  const std::string text = Numbered(1 << 20);
  for (int i = 0; i < kCalls; ++i) {
    RpcChannel::Done done = [&](const absl::Status& status, grpc::ByteBuffer&) {
      if (absl::IsDeadlineExceeded(status)) ++late;
      if (absl::IsCancelled(status)) ++cancelled;
      ended.DecrementCount();
    };
    CallOptions options{.timeout = absl::Milliseconds(200)};
    if (i % 2 == 1) options = {.cancellation = &cancellation};
    ASSERT_TRUE(channel_->Call("/test/Size", Bytes(text), options, done)) << i;
  }
  cancellation.Cancel(Cancelled("no longer needed"));
  ended.Wait();
  EXPECT_EQ(late, kCalls / 2);
  EXPECT_EQ(cancelled, kCalls / 2);
  EXPECT_EQ(elsewhere_, 0);
}

TEST_F(SlowServerTest, CallsThatWaitEndWithTheLink) {
  constexpr int kCalls = 60;
  absl::BlockingCounter ended(kCalls);
  std::atomic<int> unavailable = 0;
  const std::string text = Numbered(1 << 20);
  for (int i = 0; i < kCalls; ++i) {
    RpcChannel::Done done = [&](const absl::Status& status, grpc::ByteBuffer&) {
      if (absl::IsUnavailable(status)) ++unavailable;
      ended.DecrementCount();
    };
    ASSERT_TRUE(channel_->Call("/test/Size", Bytes(text), {}, done)) << i;
  }
  server_->Break();
  Read();
  ended.Wait();
  EXPECT_GT(unavailable, 0);
}

TEST_F(LinkChannelTest, ErrorsAndUnknownMethods) {
  const auto channel = Connect();
  EXPECT_THAT(Call(*channel, "/test/Fail", "so"), Fails(absl::StatusCode::kFailedPrecondition, "it is so"));
  EXPECT_THAT(Call(*channel, "/test/Fail", std::string(100'000, 'x')),
              Fails(absl::StatusCode::kFailedPrecondition, "it is xxx"));
  EXPECT_THAT(Call(*channel, "/test/Dance", ""), Fails(absl::StatusCode::kUnimplemented, "/test/Dance"));
  channel->Close();
}

TEST_F(LinkChannelTest, ACallEndsWhenItIsCancelledAndTheServerHearsOfIt) {
  const auto channel = Connect();
  Cancellation cancellation;
  std::thread canceller([&] {
    waiting_.WaitForNotification();
    cancellation.Cancel(Cancelled("enough"));
  });
  EXPECT_THAT(Call(*channel, "/test/Wait", "", {.cancellation = &cancellation}),
              Fails(absl::StatusCode::kCancelled, "The call was cancelled"));
  EXPECT_TRUE(cancelled_.WaitForNotificationWithTimeout(kChannelTimeout));
  canceller.join();
  EXPECT_THAT(Call(*channel, "/test/Echo", "", {.cancellation = &cancellation}),
              Fails(absl::StatusCode::kCancelled, "enough"));
  channel->Close();
}

TEST_F(LinkChannelTest, ACallEndsAtItsDeadline) {
  const auto channel = Connect();
  EXPECT_THAT(Call(*channel, "/test/Wait", "", {.timeout = absl::Milliseconds(20)}),
              Fails(absl::StatusCode::kDeadlineExceeded, ""));
  EXPECT_TRUE(cancelled_.WaitForNotificationWithTimeout(kChannelTimeout));
  EXPECT_TRUE(Call(*channel, "/test/Echo", "", {.timeout = kChannelTimeout}).ok());
  channel->Close();
}

// Also a deadline that passes while the call is being made: the call is not made.
TEST_F(LinkChannelTest, ADeadlineMayBeOverAtOnce) {
  const auto channel = Connect();
  for (int i = 0; i < 500; ++i) {
    const absl::Status status = Call(*channel, "/test/Hold", "", {.timeout = absl::Nanoseconds(200 * i)}).status();
    ASSERT_TRUE(absl::IsDeadlineExceeded(status) || absl::IsAborted(status)) << status;
  }
  channel->Close();
}

TEST_F(LinkChannelTest, AClientThatGoesCancelsItsCalls) {
  const auto channel = Connect();
  std::thread closer([&] {
    waiting_.WaitForNotification();
    channel->Close();
  });
  EXPECT_THAT(Call(*channel, "/test/Wait", ""), Fails(absl::StatusCode::kCancelled, "closing"));
  EXPECT_TRUE(cancelled_.WaitForNotificationWithTimeout(kChannelTimeout));
  closer.join();
  EXPECT_THAT(Call(*channel, "/test/Echo", ""), Fails(absl::StatusCode::kAborted, "no link"));
}

TEST_F(LinkChannelTest, AnAbandonedChannelEndsWithItsLastCall) {
  auto channel = Connect();
  const std::weak_ptr<LinkChannel> alive = channel;
  Notification ended;
  RpcChannel::Done done = [&](const absl::Status&, grpc::ByteBuffer&) { ended.Notify(); };
  Cancellation cancellation;
  ASSERT_TRUE(channel->Call("/test/Wait", Bytes(""), {.cancellation = &cancellation}, done));
  waiting_.WaitForNotification();
  channel->Abandon();
  channel.reset();
  EXPECT_FALSE(alive.expired());
  EXPECT_FALSE(ended.HasBeenNotified());
  cancellation.Cancel(Cancelled("enough"));
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(kChannelTimeout));
  while (!alive.expired()) std::this_thread::yield();  // the thread that ended it releases it
}

TEST_F(LinkChannelTest, AServerThatStopsAnswersAndComesBack) {
  const auto channel = Connect();
  const int port = server_->port();
  EXPECT_TRUE(Call(*channel, "/test/Echo", "").ok());
  server_.reset();
  EXPECT_FALSE(Call(*channel, "/test/Echo", "").ok());
  Restart(port);
  absl::StatusOr<std::string> answer;
  const absl::Time limit = absl::Now() + kChannelTimeout;
  while (!(answer = Call(*channel, "/test/Echo", "again")).ok() && absl::Now() < limit) std::this_thread::yield();
  EXPECT_THAT(answer.value_or(""), "again");
  channel->Close();
}

TEST_F(LinkChannelTest, ManyCallsAtOnce) {
  const auto channel = Connect();
  constexpr int kThreads = 8, kCalls = 200;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const std::string text = Numbered(static_cast<size_t>(1 + t * 7919 * i % 300'000));
        const auto answer = Call(*channel, "/test/Echo", text);
        if (answer.ok() && *answer == text) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kCalls);
  channel->Close();
}

// More answers than the socket holds for a client that does not read yet.
TEST_F(LinkChannelTest, NothingIsLostForAClientThatReadsLate) {
  constexpr int kCalls = 3000;
  absl::BlockingCounter answers(kCalls);
  Notification hold, held;
  SocketLoop slow("slow");
  ASSERT_OK_AND_ASSIGN(FileHandle socket, ConnectLocally(server_->port()));
  std::atomic<bool> first = true;
  ASSERT_OK_AND_ASSIGN(const auto link,
                       SameHostLink::Create(&slow, std::move(socket),
                                            {.receive = [&](LinkMessage, const LinkBody& body) -> Link::Work {
                                               if (first.exchange(false)) {
                                                 held.Notify();
                                                 hold.WaitForNotification();
                                               }
                                               EXPECT_EQ(body.size(), 2000);
                                               answers.DecrementCount();
                                               return nullptr;
                                             },
                                             .lost = [](const absl::Status&) {}}));
  ASSERT_OK(link->Start(Link::Side::kConnected));
  const std::string body = Numbered(2000);
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_OK(link->Send({.kind = LinkMessage::kCall, .call = static_cast<uint64_t>(i), .text = "/test/Echo"},
                         {absl::string_view(body)}, nullptr));
    if (i == 0) held.WaitForNotification();
  }
  hold.Notify();
  answers.Wait();
  link->Close();
}

TEST_F(LinkChannelTest, WhatIsNoMessageEndsTheLinkAndNothingElse) {
  const auto channel = Connect();
  for (const size_t bytes : {size_t{1}, size_t{47}, size_t{48}, size_t{200}, size_t{60'000}}) {
    ASSERT_OK_AND_ASSIGN(const FileHandle socket, ConnectLocally(server_->port()));
    const std::string noise = Numbered(bytes);
    ASSERT_EQ(send(socket.get(), noise.data(), noise.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    // It hangs up, after its own greeting.
    char c[128];
    ssize_t n = 1;
    while (n != 0) {
      n = recv(socket.get(), c, sizeof(c), MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN) break;
    }
    EXPECT_LE(n, 0);
    EXPECT_TRUE(Call(*channel, "/test/Echo", "still here").ok());
  }
  channel->Close();
}

int OpenDescriptors() {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) n += entry.path().empty() ? 0 : 1;
  return n;
}

// Sends a packet with more descriptors than any message has.
void SendDescriptors(int socket, int count) {
  const std::string noise(64, 'x');
  iovec part{.iov_base = const_cast<char*>(noise.data()), .iov_len = noise.size()};
  std::vector<char> control(CMSG_SPACE(static_cast<size_t>(count) * sizeof(int)));
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(static_cast<size_t>(count) * sizeof(int));
  const int fd = STDERR_FILENO;
  for (int i = 0; i < count; ++i) memcpy(CMSG_DATA(rights) + static_cast<size_t>(i) * sizeof(int), &fd, sizeof(int));
  ASSERT_GT(sendmsg(socket, &header, MSG_NOSIGNAL), 0) << strerror(errno);
}

TEST_F(LinkChannelTest, DescriptorsThatNobodyExpectsAreClosed) {
  const auto channel = Connect();
  ASSERT_TRUE(Call(*channel, "/test/Echo", "linked").ok());
  const int before = OpenDescriptors();
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK_AND_ASSIGN(const FileHandle socket, ConnectLocally(server_->port()));
    SendDescriptors(socket.get(), 1 + i % 4);
    pollfd wait{.fd = socket.get(), .events = POLLRDHUP, .revents = 0};
    ASSERT_EQ(poll(&wait, 1, 30'000), 1);  // it hangs up
  }
  ASSERT_TRUE(Call(*channel, "/test/Echo", "still here").ok());
  // Lost links may take a moment to be released.
  const absl::Time deadline = absl::Now() + kChannelTimeout;
  while (OpenDescriptors() > before + 10 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_LE(OpenDescriptors(), before + 10);
  channel->Close();
}

TEST_F(LinkChannelTest, OtherUsersAreNotLinked) {
  if (geteuid() != 0) return;  // only root can become somebody else
  ASSERT_EQ(seteuid(65534), 0);
  const auto socket = ConnectLocally(server_->port());
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_THAT(socket, Fails(absl::StatusCode::kUnavailable, "for this user"));
}

// Uses up the file descriptors of this process, except one.
class FewFileDescriptors {
 public:
  FewFileDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    FileHandle next(dup(STDERR_FILENO));
    const rlimit few{.rlim_cur = static_cast<rlim_t>(next.get()) + 20, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    while (next.valid()) {
      used_.push_back(std::move(next));
      next = FileHandle(dup(STDERR_FILENO));
    }
    used_.pop_back();
  }
  ~FewFileDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<FileHandle> used_;
};

absl::Duration ProcessorTime() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return absl::DurationFromTimespec(used);
}

TEST_F(LinkChannelTest, AServerWithoutFileDescriptorsPausesAndTakesTheClientLater) {
  FileHandle client;
  {
    const FewFileDescriptors few;
    ASSERT_OK_AND_ASSIGN(client, ConnectLocally(server_->port()));  // takes the last one
    const absl::Duration used = ProcessorTime();
    absl::SleepFor(absl::Milliseconds(300));
    EXPECT_LT(ProcessorTime() - used, absl::Milliseconds(100));
  }
  // The server notices it when it sends something, and hangs up.
  ASSERT_EQ(send(client.get(), "?", 1, MSG_NOSIGNAL), 1);
  pollfd hung_up{.fd = client.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&hung_up, 1, static_cast<int>(absl::ToInt64Milliseconds(kChannelTimeout))), 1);
  char c = 0;
  EXPECT_EQ(recv(client.get(), &c, 1, 0), 0);
}

// A server that accepts and can go no further, as without memory for the link.
TEST_F(LinkChannelTest, CallsOverALinkThatIsRefusedGoOverGrpc) {
  ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({.links = false}, methods_));
  ASSERT_OK_AND_ASSIGN(const FileHandle listener, ListenLocally(server->port()));
  std::atomic<int> refused = 0;
  std::atomic<bool> stop = false;
  std::thread refuser([&] {
    while (!stop) {
      const auto socket = AcceptLocally(listener.get());
      if (socket.ok() && socket->has_value()) ++refused;
      std::this_thread::yield();
    }
  });
  RpcClient client;
  const auto channel = client.Connect(absl::StrCat("localhost:", server->port()));
  for (const CallOptions& options : {CallOptions{}, CallOptions{.timeout = kChannelTimeout}}) {
    absl::StatusOr<std::string> answer;
    const int before = refused;
    const absl::Time limit = absl::Now() + kChannelTimeout;
    // Links are not tried at every call.
    while (refused == before && absl::Now() < limit) {
      Notification ended;
      channel->Call("/test/Echo", Bytes("hello"), options, [&](const absl::Status& status, grpc::ByteBuffer& body) {
        if (status.ok()) answer = Text(body);
        if (!status.ok()) answer = status;
        ended.Notify();
      });
      ASSERT_TRUE(ended.WaitForNotificationWithTimeout(kChannelTimeout));
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(*answer, "hello");
    }
    EXPECT_GT(refused, before);
  }
  stop = true;
  refuser.join();
}

TEST(SameHostTargetTest, AddressesOfThisMachine) {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  for (const std::string& host :
       {std::string("localhost"), std::string("127.0.0.1"), std::string("127.0.0.9"), std::string(name)}) {
    const std::optional<SameHostTarget> target = FindSameHostTarget(host + ":2222");
    ASSERT_TRUE(target.has_value()) << host;
    EXPECT_EQ(target->port, 2222);
    EXPECT_EQ(target->hosts.back(), "") << "it may listen at all addresses";
  }
  for (const char* address : {"192.0.2.1:2222", "ps0.example.com:2222", "nonsense"}) {
    EXPECT_FALSE(FindSameHostTarget(address).has_value()) << address;
  }
}

// Links know which of two servers with the same port is meant.
TEST(SameHostTargetTest, ServersOfOneAddressEach) {
  const auto methods = [](const std::string& name) {
    return std::vector<RpcMethod>{
        {"/test/Name", [name](ServerCall& call) { call.Reply(absl::OkStatus(), Bytes(name)); }}};
  };
  ASSERT_OK_AND_ASSIGN(const auto first, RpcServer::Start({.hosts = {"127.0.0.1"}}, methods("first")));
  ASSERT_OK_AND_ASSIGN(const auto second,
                       RpcServer::Start({.hosts = {"127.0.0.2"}, .port = first->port()}, methods("second")));
  SocketLoop loop("test");
  Timer timer;
  const auto name_at = [&](const std::string& host) {
    const auto no_link = [](const char*, const grpc::ByteBuffer&, const CallOptions&, RpcChannel::Done) {
      ADD_FAILURE();
    };
    const auto channel = std::make_shared<LinkChannel>(
        &loop, &timer, SameHost(&loop, *FindSameHostTarget(absl::StrCat(host, ":", first->port()))), no_link);
    Notification ended;
    std::string name;
    RpcChannel::Done done = [&](const absl::Status& status, grpc::ByteBuffer& answer) {
      name = status.ok() ? Text(answer) : status.ToString();
      ended.Notify();
    };
    if (!channel->Call("/test/Name", Bytes(""), {}, done)) return std::string("no link");
    ended.WaitForNotification();
    channel->Close();
    return name;
  };
  EXPECT_EQ(name_at("127.0.0.1"), "first");
  EXPECT_EQ(name_at("127.0.0.2"), "second");
  EXPECT_EQ(name_at("127.0.0.3"), "no link");
}

}  // namespace
}  // namespace thalweg
