// SPDX-License-Identifier: Apache-2.0
// Calls over shared memory, TCP and gRPC behave alike, also over links with faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/monitor/traffic.h"
#include "thalweg/rpc/link_channel.h"
#include "thalweg/rpc/link_server.h"
#include "thalweg/rpc/rpc_client.h"
#include "thalweg/rpc/rpc_server.h"
#include "thalweg/rpc/tcp_connector.h"
#include "thalweg/transport/link_testlib.h"
#include "thalweg/transport/same_host_link.h"
#include "thalweg/transport/same_host_listener.h"
#include "thalweg/transport/tcp_connect.h"

namespace thalweg {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(60);

grpc::ByteBuffer ToBuffer(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(!buffer.Valid() || buffer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& s : slices) text.append(reinterpret_cast<const char*>(s.begin()), s.size());
  return text;
}

std::string Patterned(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 37 % 253);
  return text;
}

// Counts what it serves.
struct TestService {
  std::atomic<int> echoes{0};
  Notification waiting, cancelled;

  std::vector<RpcMethod> Methods() {
    return {{"/test/Echo",
             [this](ServerCall& call) {
               ++echoes;
               const grpc::ByteBuffer request = call.request();
               call.Reply(absl::OkStatus(), request);
             }},
            {"/test/Wait",
             [this](ServerCall& call) {
               const auto id = call.cancellation().Register([this, &call](const absl::Status& why) {
                 cancelled.Notify();
                 call.Reply(why, {});
               });
               if (id.has_value()) return waiting.Notify();
               cancelled.Notify();
               call.Reply(call.cancellation().status(), {});
             }},
            {"/test/Fail", [](ServerCall& call) { call.Reply(FailedPrecondition("it is so"), {}); }}};
  }
};

absl::StatusOr<std::string> CallAndWait(RpcChannel& channel, const char* method, const std::string& text,
                                        const CallOptions& options = {}) {
  absl::StatusOr<std::string> result = Internal("no answer");
  Notification ended;
  channel.Call(method, ToBuffer(text), options, [&](const absl::Status& status, grpc::ByteBuffer& body) {
    if (status.ok()) result = ToString(body);
    if (!status.ok()) result = status;
    ended.Notify();
  });
  if (!ended.WaitForNotificationWithTimeout(kCallTimeout)) {
    ADD_FAILURE() << method << " hangs";
    ended.WaitForNotification();
  }
  return result;
}

class TransportTest : public testing::TestWithParam<Traffic::Path> {
 protected:
  TransportTest() { Restart(); }

  void Restart(int port = 0) {
    server_ =
        RpcServer::Start(
            {.port = port, .links = GetParam() == Traffic::kSharedMemory, .tcp_links = GetParam() == Traffic::kTcp},
            service_.Methods())
            .value();
    if (channel_ == nullptr) channel_ = client_.Connect(absl::StrCat("127.0.0.1:", server_->port()));
    WaitForPath();
  }
  // Calls until one goes over the path. A TCP link is opened while calls go over gRPC.
  void WaitForPath() {
    const absl::Time deadline = absl::Now() + kCallTimeout;
    const int64_t before = client_.traffic()[0]->calls(GetParam());
    while (client_.traffic()[0]->calls(GetParam()) == before && absl::Now() < deadline) {
      Call("/test/Echo", "").IgnoreError();
    }
    ASSERT_GT(client_.traffic()[0]->calls(GetParam()), before);
  }
  absl::Status Call(const char* method, const std::string& text) {
    return CallAndWait(*channel_, method, text).status();
  }

  TestService service_;
  std::unique_ptr<RpcServer> server_;
  RpcClient client_{{.local_links = GetParam() == Traffic::kSharedMemory, .tcp_links = GetParam() == Traffic::kTcp}};
  std::shared_ptr<RpcChannel> channel_;
};

INSTANTIATE_TEST_SUITE_P(Paths, TransportTest, testing::Values(Traffic::kSharedMemory, Traffic::kTcp, Traffic::kGrpc),
                         [](const auto& path) {
                           return path.param == Traffic::kSharedMemory ? "SharedMemory"
                                  : path.param == Traffic::kTcp        ? "Tcp"
                                                                       : "Grpc";
                         });

TEST_P(TransportTest, BodiesOfAnySize) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, size_t{65'537}, size_t{3} << 20, size_t{50} << 20}) {
    const std::string text = Patterned(bytes);
    const auto answer = CallAndWait(*channel_, "/test/Echo", text);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(*answer == text) << bytes;
  }
  EXPECT_EQ(client_.traffic()[0]->unsent(GetParam()), 0);
}

TEST_P(TransportTest, ErrorsAndUnknownMethods) {
  EXPECT_THAT(Call("/test/Fail", ""), Fails(absl::StatusCode::kFailedPrecondition, "it is so"));
  EXPECT_THAT(Call("/test/Dance", ""), Fails(absl::StatusCode::kUnimplemented, ""));
}

TEST_P(TransportTest, ACancelledCallEndsAndTheServerHearsOfIt) {
  Cancellation cancellation;
  std::thread canceller([&] {
    service_.waiting.WaitForNotification();
    cancellation.Cancel(Cancelled("enough"));
  });
  EXPECT_THAT(CallAndWait(*channel_, "/test/Wait", "", {.cancellation = &cancellation}).status(),
              Fails(absl::StatusCode::kCancelled, ""));
  EXPECT_TRUE(service_.cancelled.WaitForNotificationWithTimeout(kCallTimeout));
  canceller.join();
}

TEST_P(TransportTest, ACallEndsAtItsDeadline) {
  EXPECT_THAT(CallAndWait(*channel_, "/test/Wait", "", {.timeout = absl::Milliseconds(30)}).status(),
              Fails(absl::StatusCode::kDeadlineExceeded, ""));
  EXPECT_THAT(Call("/test/Echo", ""), IsOk());
}

TEST_P(TransportTest, ManyCallsAtOnce) {
  constexpr int kThreads = 6, kCalls = 100;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const std::string text = Patterned(static_cast<size_t>(1 + t * 7919 * i % 300'000));
        const auto answer = CallAndWait(*channel_, "/test/Echo", text);
        if (answer.ok() && *answer == text) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kCalls);
}

TEST_P(TransportTest, AServerThatStopsEndsItsCallsAndIsFoundAgain) {
  const int port = server_->port();
  std::thread stopper([&] {
    service_.waiting.WaitForNotification();
    server_.reset();
  });
  EXPECT_FALSE(Call("/test/Wait", "").ok());
  stopper.join();
  EXPECT_THAT(Call("/test/Echo", ""), Fails(absl::StatusCode::kUnavailable, ""));
  Restart(port);
  EXPECT_THAT(Call("/test/Echo", "again"), IsOk());
}

TEST_P(TransportTest, AClientThatGoesCancelsItsCalls) {
  {
    RpcClient client({.local_links = GetParam() == Traffic::kSharedMemory, .tcp_links = GetParam() == Traffic::kTcp});
    const auto channel = client.Connect(absl::StrCat("127.0.0.1:", server_->port()));
    const absl::Time deadline = absl::Now() + kCallTimeout;
    while (client.traffic()[0]->calls(GetParam()) == 0 && absl::Now() < deadline) {
      EXPECT_THAT(CallAndWait(*channel, "/test/Echo", "").status(), IsOk());
    }
    channel->Call("/test/Wait", ToBuffer(""), {}, [](const absl::Status&, grpc::ByteBuffer&) {});
    service_.waiting.WaitForNotification();
  }
  EXPECT_TRUE(service_.cancelled.WaitForNotificationWithTimeout(kCallTimeout));
}

// A server that offers a port which nobody serves, as behind a firewall, or that offers nonsense.
TEST(TcpFallbackTest, CallsGoOverGrpcIfTheLinkCannotBeOpened) {
  for (const std::string& offer : {std::string("\x08\x01"), std::string("\x08\xff\xff\xff\xff\x0f\x12\x01x"),
                                   std::string("\xff\xff"), std::string()}) {
    TestService service;
    std::atomic<int> asked = 0;
    std::vector<RpcMethod> methods = service.Methods();
    methods.push_back({kOpenLinkMethod, [&](ServerCall& call) {
                         ++asked;
                         call.Reply(absl::OkStatus(), ToBuffer(offer));
                       }});
    const auto server = RpcServer::Start({.links = false}, methods).value();
    RpcClient client({.local_links = false, .tcp_links = true});
    const auto channel = client.Connect(absl::StrCat("127.0.0.1:", server->port()));
    for (int i = 0; i < 50; ++i) ASSERT_OK(CallAndWait(*channel, "/test/Echo", "hello").status());
    EXPECT_EQ(client.traffic()[0]->calls(Traffic::kTcp), 0);
    EXPECT_EQ(asked, 1) << "it is not asked at every call";
  }
}

// TensorFlow's servers do not know the method, and clients that do not want links do not ask.
TEST(TcpFallbackTest, ServersWithoutLinksAreCalledOverGrpc) {
  TestService service;
  const auto server = RpcServer::Start({.links = false}, service.Methods()).value();
  for (const bool tcp : {false, true}) {
    RpcClient client({.local_links = false, .tcp_links = tcp});
    const auto channel = client.Connect(absl::StrCat("127.0.0.1:", server->port()));
    for (int i = 0; i < 20; ++i) ASSERT_OK(CallAndWait(*channel, "/test/Echo", "hello").status());
    EXPECT_EQ(client.traffic()[0]->calls(Traffic::kTcp), 0);
    EXPECT_EQ(client.traffic()[0]->calls(Traffic::kGrpc), tcp ? 21 : 20);
  }
}

// ---- Links with faults ----

enum class FaultySide { kClient, kServer };

class FaultyLinkTest : public testing::TestWithParam<std::tuple<LinkKind, LinkFault::Kind, FaultySide>> {
 protected:
  LinkKind kind() const { return std::get<0>(GetParam()); }
  LinkFault fault(int nth) const { return {.kind = std::get<1>(GetParam()), .nth = nth}; }
  bool on(FaultySide side) const { return std::get<2>(GetParam()) == side; }

  // A server with one listener.
  std::unique_ptr<LinkServer> Serve(const std::vector<RpcMethod>& methods, int nth) {
    token_ = NewTcpToken().value();
    std::unique_ptr<LinkListener> listener;
    if (kind() == LinkKind::kTcp) {
      FileHandle socket = ListenTcp("127.0.0.1", 0).value();
      port_ = TcpPort(socket.get()).value();
      listener =
          MakeTcpListener(std::move(socket), {.token = token_, .budget = std::make_shared<ReceiveBudget>(1 << 30)});
    } else {
      // A port of the network names the socket, so that no other test has it.
      FileHandle socket = ListenTcp("127.0.0.1", 0).value();
      port_ = TcpPort(socket.get()).value();
      listener = MakeSameHostListener(ListenLocally(port_, "faulty").value());
    }
    if (on(FaultySide::kServer)) listener = MakeFaultyListener(std::move(listener), fault(nth));
    std::vector<std::unique_ptr<LinkListener>> listeners;
    listeners.push_back(std::move(listener));
    return LinkServer::Start(std::move(listeners), methods).value();
  }
  absl::StatusOr<std::shared_ptr<Link>> Connect(Link::Handlers handlers, int nth) {
    std::shared_ptr<Link> link;
    if (kind() == LinkKind::kTcp) {
      const std::atomic<bool> cancelled = false;
      ASSIGN_OR_RETURN(FileHandle socket, DialTcp("127.0.0.1", port_, token_, absl::Now() + kCallTimeout, cancelled));
      link = TcpLink::Create(&loop_, std::move(socket), std::move(handlers));
    } else {
      ASSIGN_OR_RETURN(FileHandle socket, ConnectLocally(port_, "faulty"));
      ASSIGN_OR_RETURN(link, SameHostLink::Create(&loop_, std::move(socket), std::move(handlers)));
    }
    if (on(FaultySide::kClient)) link = MakeFaultyLink(std::move(link), fault(nth));
    RETURN_IF_ERROR(link->Start(Link::Side::kConnected));
    return link;
  }

  std::string token_;
  int port_ = 0;
  SocketLoop loop_{"test"};
  Timer timer_;
};

INSTANTIATE_TEST_SUITE_P(Faults, FaultyLinkTest,
                         testing::Combine(testing::Values(LinkKind::kSharedMemory, LinkKind::kTcp),
                                          testing::Values(LinkFault::kDrop, LinkFault::kDelay, LinkFault::kDuplicate,
                                                          LinkFault::kReorder, LinkFault::kTruncate, LinkFault::kFail),
                                          testing::Values(FaultySide::kClient, FaultySide::kServer)));

// Every call ends, is served once at most, and has its own answer. Only the call that is struck fails: when its message
// is lost at its deadline, and when the link is lost at once.
TEST_P(FaultyLinkTest, CallsEndWhateverHappensToTheNthMessage) {
  constexpr int kCalls = 6;
  for (int nth = 1; nth <= kCalls; nth += 2) {
    TestService service;
    const std::vector<RpcMethod> methods = service.Methods();
    const auto server = Serve(methods, nth);
    bool linked = false;  // the fault strikes the first link only
    const auto channel = std::make_shared<LinkChannel>(
        &loop_, &timer_,
        [&](Link::Handlers handlers) { return Connect(std::move(handlers), std::exchange(linked, true) ? 0 : nth); },
        [](const char*, const grpc::ByteBuffer&, const CallOptions&, RpcChannel::Done done) {
          grpc::ByteBuffer nothing;
          done(Aborted("the link was refused"), nothing);
        });
    const bool drops = fault(nth).kind == LinkFault::kDrop;
    const CallOptions options{.timeout = drops ? absl::Milliseconds(300) : kCallTimeout};
    int failed = 0;
    int made = 0;
    for (int i = 0; i < kCalls; ++i) {
      const std::string text = Patterned(static_cast<size_t>(1) << (2 * i + 4));
      absl::StatusOr<std::string> answer = Internal("no answer");
      Notification ended;
      RpcChannel::Done done = [&](const absl::Status& status, grpc::ByteBuffer& body) {
        if (status.ok()) answer = ToString(body);
        if (!status.ok()) answer = status;
        ended.Notify();
      };
      if (!channel->Call("/test/Echo", ToBuffer(text), options, done)) continue;  // gRPC would make it
      ++made;
      ASSERT_TRUE(ended.WaitForNotificationWithTimeout(kCallTimeout)) << "a call hangs";
      if (!answer.ok() && !drops) ++failed;  // on a busy machine other calls may miss the short deadline too
      const bool truncated = fault(nth).kind == LinkFault::kTruncate && i == nth - 1;
      if (answer.ok() && !truncated) {
        EXPECT_TRUE(*answer == text) << i << " has another body";
      }
    }
    // The server's fault strikes every link that it accepts.
    const bool fails = fault(nth).kind == LinkFault::kFail;
    EXPECT_LE(failed, !fails ? 0 : on(FaultySide::kClient) ? 1 : kCalls / nth) << "nth " << nth;
    EXPECT_LE(service.echoes, made) << "a call was served twice";
    channel->Close();
  }
}

}  // namespace
}  // namespace thalweg
