// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/rpc_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/sleeping_threads_testlib.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/rpc/call_gate.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {
namespace {

constexpr absl::Duration kTooLong = absl::Seconds(30);

// One call over gRPC.
class TestCall {
 public:
  TestCall(RpcChannel& channel, const char* method, const CallOptions& options = {}) {
    const grpc::Slice nothing;
    channel.Call(method, grpc::ByteBuffer(&nothing, 1), options, [this](const absl::Status& status, grpc::ByteBuffer&) {
      status_ = status;
      ended_.Notify();
    });
  }
  ~TestCall() { ended_.WaitForNotification(); }
  absl::Status Peek() const { return ended_.HasBeenNotified() ? status_ : absl::UnavailableError("not yet"); }
  absl::Status Wait() {
    if (!ended_.WaitForNotificationWithTimeout(kTooLong)) return Internal("no answer");
    return status_;
  }

 private:
  absl::Status status_;
  Notification ended_;
};

// Methods that were over soon run on the thread that waits for calls: it must not
// be the only one that does.
TEST(RpcServerTest, AMethodThatWasOverSoonMayBlock) {
  std::atomic<bool> block = false;
  Notification blocked, released;
  const std::vector<RpcMethod> methods = {{"/test/Work",
                                           [&](ServerCall& call) {
                                             absl::Status status;
                                             if (block) {
                                               blocked.Notify();
                                               if (!released.WaitForNotificationWithTimeout(kTooLong))
                                                 status = Internal("nobody could release it");
                                             }
                                             call.Reply(status, {});
                                           }},
                                          {"/test/Release", [&](ServerCall& call) {
                                             if (block) released.Notify();
                                             call.Reply(absl::OkStatus(), {});
                                           }}};
  ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({.links = false}, methods));
  RpcClient client({.local_links = false});
  const auto channel = client.Connect(absl::StrCat("localhost:", server->port()));
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(TestCall(*channel, "/test/Work").Wait());
    ASSERT_OK(TestCall(*channel, "/test/Release").Wait());
  }
  block = true;
  TestCall blocking(*channel, "/test/Work");
  ASSERT_TRUE(blocked.WaitForNotificationWithTimeout(kTooLong));
  EXPECT_THAT(TestCall(*channel, "/test/Release").Wait(), IsOk());
  EXPECT_THAT(blocking.Wait(), IsOk());
}

// A handler that runs out of memory or threads ends its call, and nothing else.
// The open connections to a port of this machine.
int ConnectionsTo(int port) {
  int connections = 0;
  for (const char* const path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(path);
    const std::string local = absl::StrCat(":", absl::AsciiStrToUpper(absl::StrCat(absl::Hex(port, absl::kZeroPad4))));
    for (std::string line; std::getline(file, line);) {
      const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
      constexpr char kEstablished[] = "01";
      connections += fields.size() > 3 && absl::EndsWith(fields[1], local) && fields[3] == kEstablished;
    }
  }
  return connections;
}

// The sockets of this process that are connected to `port`.
std::vector<int> SocketsTo(int port) {
  std::vector<int> sockets;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    const in_port_t its = peer.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(peer).sin6_port
                                                     : reinterpret_cast<sockaddr_in&>(peer).sin_port;
    if ((peer.ss_family == AF_INET || peer.ss_family == AF_INET6) && ntohs(its) == port) sockets.push_back(fd);
  }
  return sockets;
}

// A machine that disappears does not close its connections. What was sent to it stays without an acknowledgement.
TEST(RpcServerTest, AConnectionWithoutAcknowledgementsIsClosed) {
  const std::vector<RpcMethod> methods = {{"/test/Work", [](ServerCall& call) { call.Reply(absl::OkStatus(), {}); }}};
  ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({.links = false}, methods));
  RpcClient client({.local_links = false});
  const auto channel = client.Connect(absl::StrCat("localhost:", server->port()));
  ASSERT_OK(TestCall(*channel, "/test/Work").Wait());
  const std::vector<int> sockets = SocketsTo(server->port());
  ASSERT_EQ(sockets.size(), 1);
  int millis = 0;
  socklen_t size = sizeof(millis);
  ASSERT_EQ(getsockopt(sockets[0], IPPROTO_TCP, TCP_USER_TIMEOUT, &millis, &size), 0);
  EXPECT_EQ(millis, 10'000);
}

// Speaks HTTP/2, makes a call, and answers nothing any more, as a machine that has disappeared.
class SilentClient {
 public:
  explicit SilentClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(static_cast<in_port_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~SilentClient() { close(socket_); }

  // The bytes of a connection with one call.
  static std::string CallOf(const std::string& method) {
    const auto header = [](const std::string& name, const std::string& value) {
      return absl::StrCat(std::string(1, '\0'), std::string(1, static_cast<char>(name.size())), name,
                          std::string(1, static_cast<char>(value.size())), value);
    };
    const auto frame = [](char type, char flags, char stream, const std::string& payload) {
      const std::string zeros(3, '\0');
      return absl::StrCat(zeros.substr(1), std::string(1, static_cast<char>(payload.size())), std::string(1, type),
                          std::string(1, flags), zeros, std::string(1, stream), payload);
    };
    constexpr char kSettings = 4, kHeaders = 1, kData = 0, kEndHeaders = 4, kEndStream = 1;
    return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame(kSettings, 0, 0, ""),
                        frame(kHeaders, kEndHeaders, 1,
                              absl::StrCat(header(":method", "POST"), header(":scheme", "http"),
                                           header(":path", method), header(":authority", "x"),
                                           header("content-type", "application/grpc"), header("te", "trailers"))),
                        frame(kData, kEndStream, 1, std::string(5, '\0')));
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  // Reads until the server closes the connection; false if it does not within the time.
  bool WaitForEnd(absl::Duration longest) {
    const timeval limit = absl::ToTimeval(longest);
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    char bytes[1000];
    ssize_t n = 0;
    while ((n = recv(socket_, bytes, sizeof(bytes), 0)) > 0) {
    }
    return n == 0 || errno == ECONNRESET;
  }

 private:
  const int socket_;
};

TEST(RpcServerTest, AClientThatAnswersNoPingIsDisconnectedAndItsCallCancelled) {
  Notification begun, cancelled;
  const std::vector<RpcMethod> methods = {{"/test/Wait", [&](ServerCall& call) {
                                             const auto id = call.cancellation().Register([&](const absl::Status&) {
                                               cancelled.Notify();
                                               call.Reply(absl::CancelledError(), {});
                                             });
                                             EXPECT_TRUE(id.has_value());
                                             begun.Notify();
                                           }}};
  ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({.links = false}, methods));
  SilentClient client(server->port());
  client.Send(SilentClient::CallOf("/test/Wait"));
  ASSERT_TRUE(begun.WaitForNotificationWithTimeout(kTooLong));
  // A ping after 20 s, and 20 s for its answer.
  EXPECT_TRUE(client.WaitForEnd(absl::Seconds(120)));
  EXPECT_TRUE(cancelled.WaitForNotificationWithTimeout(kTooLong));
}

// The rest may come late, or never: a thread that looked for it again and again would keep a processor busy.
TEST(RpcServerTest, AThreadThatHasAPartOfACallSleeps) {
  Notification served;
  const std::vector<RpcMethod> methods = {{"/test/Work", [&](ServerCall& call) {
                                             call.Reply(absl::OkStatus(), {});
                                             served.Notify();
                                           }}};
  ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({.links = false}, methods));
  SilentClient client(server->port());
  const std::string call = SilentClient::CallOf("/test/Work");
  constexpr size_t kPreface = 24, kFrameHeader = 9, kLastFrame = kFrameHeader + 5;
  size_t at = 0;
  for (const size_t cut : {size_t{1}, kPreface - 1, kPreface, kPreface + 1, kPreface + kFrameHeader,
                           kPreface + kFrameHeader + 4, kPreface + 2 * kFrameHeader, kPreface + 2 * kFrameHeader + 1,
                           call.size() - kLastFrame, call.size() - kLastFrame + 4, call.size() - 5, call.size() - 1}) {
    client.Send(call.substr(at, cut - at));
    at = cut;
    EXPECT_TRUE(AwaitRest()) << "after " << cut << " of " << call.size() << " bytes";
  }
  client.Send(call.substr(at));
  EXPECT_TRUE(served.WaitForNotificationWithTimeout(kTooLong));
}

TEST(RpcServerTest, CallsApartHaveAConnectionOfTheirOwn) {
  const std::vector<RpcMethod> methods = {{"/test/Work", [](ServerCall& call) { call.Reply(absl::OkStatus(), {}); }}};
  ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({.links = false}, methods));
  RpcClient client({.local_links = false});
  const auto channel = client.Connect(absl::StrCat("localhost:", server->port()));
  ASSERT_OK(TestCall(*channel, "/test/Work").Wait());
  ASSERT_OK(TestCall(*channel, "/test/Work").Wait());
  EXPECT_EQ(ConnectionsTo(server->port()), 1);
  ASSERT_OK(TestCall(*channel, "/test/Work", {.apart = true}).Wait());
  EXPECT_EQ(ConnectionsTo(server->port()), 2);
}

TEST(RpcServerTest, AHandlerThatThrowsEndsItsCall) {
  ServerCall* kept = nullptr;
  const std::vector<RpcMethod> methods = {{"/test/Throw", [](ServerCall&) { throw std::bad_alloc(); }},
                                          {"/test/ReplyAndThrow",
                                           [](ServerCall& call) {
                                             call.Reply(absl::OkStatus(), {});
                                             throw std::bad_alloc();
                                           }},
                                          {"/test/KeepAndThrow",
                                           [&](ServerCall& call) {
                                             kept = &call;
                                             throw std::bad_alloc();
                                           }},
                                          {"/test/Work", [](ServerCall& call) { call.Reply(absl::OkStatus(), {}); }}};
  for (const bool links : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({.links = links}, methods));
    RpcClient client({.local_links = links});
    const auto channel = client.Connect(absl::StrCat("localhost:", server->port()));
    for (int i = 0; i < 50; ++i) {
      EXPECT_THAT(TestCall(*channel, "/test/Throw").Wait(), Fails(absl::StatusCode::kResourceExhausted, "memory"));
      EXPECT_THAT(TestCall(*channel, "/test/ReplyAndThrow").Wait(), IsOk());
      EXPECT_THAT(TestCall(*channel, "/test/KeepAndThrow").Wait(),
                  Fails(absl::StatusCode::kResourceExhausted, "memory"));
      EXPECT_EQ(kept->request().Length(), 0);  // what stays until the process ends is small
      kept->Reply(absl::OkStatus(), {});       // a late reply of a callback that the handler left behind
      EXPECT_THAT(TestCall(*channel, "/test/Work").Wait(), IsOk());
    }
  }
}

// A call that never left would keep the server from draining, and from being idle.
TEST(CallGateTest, ACallWhoseHandlerThrowsLeaves) {
  CallGate gate;
  ServerCall* kept = nullptr;
  const std::vector<RpcMethod> methods = gate.Guard({{"/test/RunStep",
                                                      [&](ServerCall& call) {
                                                        kept = &call;
                                                        throw std::bad_alloc();
                                                      }},
                                                     {"/test/RunGraph", [](ServerCall& call) {
                                                        call.Reply(absl::OkStatus(), {});
                                                        throw std::bad_alloc();
                                                      }}});
  ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({}, methods));
  RpcClient client;
  const auto channel = client.Connect(absl::StrCat("localhost:", server->port()));
  EXPECT_THAT(TestCall(*channel, "/test/RunStep").Wait(), Fails(absl::StatusCode::kResourceExhausted, "memory"));
  kept->Reply(absl::OkStatus(), {});  // a late reply of a callback that the handler left behind
  EXPECT_THAT(TestCall(*channel, "/test/RunGraph").Wait(), IsOk());
  EXPECT_TRUE(gate.Close(absl::UnavailableError("leaving"), absl::Minutes(1)));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need address space without end
// While it lives, only about `n` new threads can be created: there is no address space for more
// stacks. (A limit of the number of threads does not apply to root.)
class FewThreads {
 public:
  explicit FewThreads(int n) {
    pthread_attr_t attributes;
    size_t stack = 0;
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &stack);
    pthread_attr_destroy(&attributes);
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit few = before_;
    few.rlim_cur = pages * static_cast<rlim_t>(getpagesize()) + static_cast<rlim_t>(n) * stack;
    setrlimit(RLIMIT_AS, &few);
  }
  ~FewThreads() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

// Each blocking handler takes a thread. Without more threads, calls are refused and the server
// keeps serving.
TEST(RpcServerTest, CallsForWhichThereIsNoThreadAreRefused) {
  Notification release;
  const std::vector<RpcMethod> methods = {{"/test/Block",
                                           [&](ServerCall& call) {
                                             EXPECT_TRUE(release.WaitForNotificationWithTimeout(kTooLong));
                                             call.Reply(absl::OkStatus(), {});
                                           }},
                                          {"/test/Work", [](ServerCall& call) { call.Reply(absl::OkStatus(), {}); }}};
  ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({.links = false}, methods));
  RpcClient client({.local_links = false});
  const auto channel = client.Connect(absl::StrCat("localhost:", server->port()));
  ASSERT_OK(TestCall(*channel, "/test/Work").Wait());
  std::vector<std::unique_ptr<TestCall>> calls;
  int refused = 0;
  {
    const FewThreads few(20);
    for (int i = 0; i < 100; ++i) calls.push_back(std::make_unique<TestCall>(*channel, "/test/Block"));
    // A call that is served or refused in place is answered in between.
    while (refused == 0) {
      for (const auto& call : calls) refused += absl::IsResourceExhausted(call->Peek()) ? 1 : 0;
    }
  }
  release.Notify();
  for (const auto& call : calls) {
    const absl::Status status = call->Wait();
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
  }
  EXPECT_THAT(TestCall(*channel, "/test/Work").Wait(), IsOk());
}
#endif

}  // namespace
}  // namespace thalweg
