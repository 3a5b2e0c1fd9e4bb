// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/net_group.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <list>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/sleeping_threads_testlib.h"
#include "thalweg/transport/process_group_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

FileHandle Connect(int port) {
  FileHandle socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

bool ReadFully(int socket, char* into, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = recv(socket, into, bytes, 0);
    if (n <= 0) return false;
    into += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}
bool WriteFully(int socket, const char* from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = send(socket, from, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    from += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

enum class NetFault { kNone, kClose, kTruncate, kDelay, kDuplicate, kAbsurdLength, kFlippedHeader };

// Counts the messages of all connections of a group. The one with the chosen number meets the fault.
struct FaultPlan {
  NetFault fault = NetFault::kNone;
  int at = -1;
  std::atomic<int> messages = 0;
};

// Stands between the members and one endpoint, and passes on whole messages in both directions.
class FaultyRelay {
 public:
  FaultyRelay(NetAddress target, FaultPlan& plan)
      : target_(std::move(target)), plan_(plan), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 64), 0);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~FaultyRelay() {
    shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    for (Link& link : links_) {
      shutdown(link.client.get(), SHUT_RDWR);
      shutdown(link.server.get(), SHUT_RDWR);
      link.forward.join();
      link.backward.join();
    }
  }
  NetAddress address() const { return {.host = "127.0.0.1", .port = port_, .token = target_.token}; }

 private:
  struct Link {
    FileHandle client, server;
    std::atomic<int> channel = -1;
    std::thread forward, backward;
  };

  void Accept() {
    for (;;) {
      FileHandle client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) return;
      Link& link = links_.emplace_back();
      link.client = std::move(client);
      link.server = Connect(target_.port);
      link.forward = std::thread([this, &link] { Pass(link, link.client.get(), link.server.get(), true); });
      link.backward = std::thread([this, &link] { Pass(link, link.server.get(), link.client.get(), false); });
    }
  }

  // Reads one message and its size up to its body.
  static bool Read(int socket, int channel, bool first, bool forward, std::string* message) {
    const size_t header = first          ? (forward ? sizeof(NetHello) : sizeof(NetWelcome))
                          : channel == 0 ? sizeof(NetControlFrame)
                                         : sizeof(NetDataFrame);
    message->resize(header);
    if (!ReadFully(socket, message->data(), header)) return false;
    if (first) return true;
    size_t body = 0;
    if (channel == 0) {
      NetControlFrame frame;
      std::memcpy(&frame, message->data(), sizeof(frame));
      body = frame.bytes;
    } else {
      NetDataFrame frame;
      std::memcpy(&frame, message->data(), sizeof(frame));
      body = frame.bytes;
    }
    message->resize(header + body);
    return ReadFully(socket, message->data() + header, body);
  }

  void Pass(Link& link, int from, int to, bool forward) {
    std::string message;
    for (bool first = true;; first = false) {
      if (!Read(from, link.channel, first, forward, &message)) break;
      if (first && forward) {
        NetHello hello;
        std::memcpy(&hello, message.data(), sizeof(hello));
        link.channel = static_cast<int>(hello.channel);
      }
      const bool faulty = plan_.messages++ == plan_.at;
      const NetFault fault = faulty ? plan_.fault : NetFault::kNone;
      if (fault == NetFault::kClose) break;
      if (fault == NetFault::kTruncate) message.resize(message.size() / 2);
      if (fault == NetFault::kDelay) absl::SleepFor(absl::Milliseconds(50));
      if (fault == NetFault::kDuplicate && !WriteFully(to, message.data(), message.size())) break;
      // The last field of both headers is the length.
      const size_t length = first ? 4 : link.channel == 0 ? 4 : 16;
      if (fault == NetFault::kAbsurdLength) std::memset(message.data() + length, 0xff, 4);
      if (fault == NetFault::kFlippedHeader) message[0] = static_cast<char>(message[0] ^ 0x15);
      if (!WriteFully(to, message.data(), message.size()) || fault == NetFault::kTruncate) break;
    }
    shutdown(from, SHUT_RDWR);
    shutdown(to, SHUT_RDWR);
  }

  const NetAddress target_;
  FaultPlan& plan_;
  const FileHandle listener_;
  int port_ = 0;
  std::list<Link> links_;  // only the acceptor adds to it
  std::thread acceptor_;
};

struct FaultRun {
  HostOperation operation = HostOperation::kAllReduce;
  int64_t elements = 0;
  bool rank_order = false;
};

// Runs two operations with three members, all of whose connections go through relays. Returns the number of messages.
int RunWithFault(const FaultRun& run, NetFault fault, int at) {
  constexpr int kRanks = 3;
  FaultPlan plan{.fault = fault, .at = at};
  const bool harmless = fault == NetFault::kNone || fault == NetFault::kDelay;
  const Endpoints endpoints(kRanks);
  std::list<FaultyRelay> relays;
  std::vector<NetAddress> addresses;
  for (const NetAddress& address : endpoints.addresses)
    addresses.push_back(relays.emplace_back(address, plan).address());
  const std::string name = NewGroupName();
  std::vector<std::thread> threads;
  std::atomic<int> errors = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = NetGroup::Join(*endpoints.endpoints[rank],
                                        {.name = name,
                                         .rank = rank,
                                         .addresses = addresses,
                                         .timeout = harmless ? absl::Seconds(20) : absl::Milliseconds(300)});
      if (!group.ok()) {
        ++errors;
        return;
      }
      for (const uint64_t key : {1, 2}) {
        std::vector<double> x = ValuesOf(rank, run.elements);
        std::vector<double> results(run.elements);
        HostCall call = CallOf(run.operation, key, x);
        call.results = results.data();
        call.rank_order = run.rank_order;
        const absl::Status status = (*group)->Run(call);
        EXPECT_FALSE(absl::IsDeadlineExceeded(status)) << status;
        if (!status.ok()) {
          ++errors;
          EXPECT_FALSE((*group)->status().ok());
          return;
        }
        const int64_t each = run.elements / kRanks;
        for (int64_t i = 0; i < run.elements; ++i) {
          switch (run.operation) {
            case HostOperation::kAllReduce:
              ASSERT_EQ(x[i], SumOf(kRanks, i));
              break;
            case HostOperation::kReduceScatter:
              if (i / each == rank) {
                ASSERT_EQ(x[i], SumOf(kRanks, i));
              }
              break;
            case HostOperation::kAllGather:
              ASSERT_EQ(x[i], ValueOf(static_cast<int>(i / each), i));
              break;
            case HostOperation::kBroadcast:
              ASSERT_EQ(x[i], ValueOf(0, i));
              break;
            case HostOperation::kAllToAll:
              ASSERT_EQ(results[i], ValueOf(static_cast<int>(i / each), rank * each + i % each));
              break;
            case HostOperation::kBarrier:
              break;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (harmless) {
    EXPECT_EQ(errors, 0);
  }
  return plan.messages;
}

class NetFaults : public testing::TestWithParam<NetFault> {};
INSTANTIATE_TEST_SUITE_P(Fault, NetFaults,
                         testing::Values(NetFault::kClose, NetFault::kTruncate, NetFault::kDelay, NetFault::kDuplicate,
                                         NetFault::kAbsurdLength, NetFault::kFlippedHeader));

// A fault at every message of every operation ends in an error, or in the right values; never in a hang.
TEST_P(NetFaults, EndInAnErrorOrInTheRightValues) {
  const FaultRun runs[] = {{HostOperation::kAllReduce, 30},
                           {HostOperation::kAllReduce, 3000},
                           {HostOperation::kAllReduce, 30000},
                           {HostOperation::kAllReduce, 12000, true},
                           {HostOperation::kReduceScatter, 30000},
                           {HostOperation::kAllGather, 30000},
                           {HostOperation::kBroadcast, 30000},
                           {HostOperation::kAllToAll, 30000},
                           {HostOperation::kBarrier, 0}};
  for (const FaultRun& run : runs) {
    const int messages = RunWithFault(run, NetFault::kNone, -1);
    for (int at = 0; at < messages; ++at) {
      SCOPED_TRACE(absl::StrCat("operation ", static_cast<int>(run.operation), " of ", run.elements,
                                " elements, fault at message ", at, " of ", messages));
      RunWithFault(run, GetParam(), at);
      if (HasFailure()) return;
    }
  }
}

TEST(NetGroup, AProcessThatDiesEndsTheWaitOfTheOthersAtOnce) {
  Endpoints endpoints(3);
  const std::string name = NewGroupName();
  // Threads do not survive a fork: the child makes an endpoint of its own and reports its address.
  int pipes[2][2];
  ASSERT_EQ(pipe(pipes[0]), 0);
  ASSERT_EQ(pipe(pipes[1]), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto endpoint = NetEndpoint::Listen({"127.0.0.1"}, "127.0.0.1");
    endpoints.addresses[2] = (*endpoint)->address();
    std::string text = (*endpoint)->address().ToString();
    text.resize(100, ' ');
    if (write(pipes[0][1], text.data(), text.size()) != 100) _exit(1);
    auto group = NetGroup::Join(**endpoint, {.name = name, .rank = 2, .addresses = endpoints.addresses});
    std::vector<double> x = ValuesOf(2, 100000);
    if (group.ok() && (*group)->Run(CallOf(HostOperation::kAllReduce, 1, x)).ok()) kill(getpid(), SIGKILL);
    _exit(1);
  }
  std::string text(100, ' ');
  ASSERT_EQ(read(pipes[0][0], text.data(), 100), 100);
  const auto address = NetAddress::Parse(text.substr(0, text.find_last_not_of(' ') + 1));
  ASSERT_TRUE(address.ok()) << address.status();
  endpoints.addresses[2] = *address;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto group = NetGroup::Join(
          *endpoints.endpoints[rank],
          {.name = name, .rank = rank, .addresses = endpoints.addresses, .names = {"a", "b", "worker 2"}});
      ASSERT_TRUE(group.ok()) << group.status();
      std::vector<double> x = ValuesOf(rank, 100000);
      ASSERT_TRUE((*group)->Run(CallOf(HostOperation::kAllReduce, 1, x)).ok());
      EXPECT_EQ(x[3], SumOf(3, 3));
      const absl::Status status = (*group)->Run(CallOf(HostOperation::kAllReduce, 2, x));
      EXPECT_EQ(status, absl::UnavailableError("A member of the group has died, or has left it: rank 2 (worker 2)"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  int result = 0;
  waitpid(child, &result, 0);
  EXPECT_TRUE(WIFSIGNALED(result));
  for (const auto& ends : pipes) {
    close(ends[0]);
    close(ends[1]);
  }
}

// A step that fails in the middle of a large operation ends it for all; operations of other steps go on.
TEST(NetGroup, AFailedStepLeavesOthersAlone) {
  ForMembersOf(GroupKind::kTcp, 3, [](ProcessGroup& group) {
    std::vector<double> x = ValuesOf(group.rank(), 2000000), y = ValuesOf(group.rank(), 300000);
    HostCall failing = CallOf(HostOperation::kAllReduce, 1, x), other = CallOf(HostOperation::kAllReduce, 2, y);
    failing.step = 7;
    other.step = 8;
    absl::Status first, second;
    Notification first_over, second_over;
    group.Start(failing, [&](const absl::Status& status) {
      first = status;
      first_over.Notify();
    });
    group.Start(other, [&](const absl::Status& status) {
      second = status;
      second_over.Notify();
    });
    if (group.rank() == 1) group.Fail(absl::InternalError("enough"), 7);
    first_over.WaitForNotification();
    second_over.WaitForNotification();
    EXPECT_TRUE(first.ok() || first == absl::InternalError("enough")) << first;
    ASSERT_TRUE(second.ok()) << second;
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], SumOf(3, static_cast<int64_t>(i)));
    std::vector<double> z = ValuesOf(group.rank(), 100000);
    HostCall third = CallOf(HostOperation::kAllReduce, 3, z);
    third.step = 9;
    ASSERT_TRUE(group.Run(third).ok()) << "the group goes on";
    EXPECT_EQ(z[5], SumOf(3, 5));
    HostCall late = CallOf(HostOperation::kAllReduce, 4, z);
    late.step = 7;
    EXPECT_EQ(group.Run(late), absl::InternalError("enough")) << "the step is over";
    ASSERT_TRUE(group.Run({.key = 5, .step = 10}).ok());
  });
}

// The root receives nothing that would wake it while it sends.
TEST(NetGroup, ALargeBroadcastNeedsNoAnswers) {
  ForMembersOf(GroupKind::kTcp, 2, [](ProcessGroup& group) {
    std::vector<double> x = ValuesOf(group.rank(), 16 << 20);
    const absl::Status status = group.Run(CallOf(HostOperation::kBroadcast, 1, x));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(x.back(), ValueOf(0, (16 << 20) - 1));
  });
}

TEST(NetGroup, WhoDoesNotJoinIsNamed) {
  const Endpoints endpoints(3);
  const auto alone = NetGroup::Join(
      *endpoints.endpoints[1],
      {.name = "alone", .rank = 1, .addresses = endpoints.addresses, .timeout = absl::Milliseconds(100)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(alone.status()));
  EXPECT_THAT(alone.status().ToString(), HasSubstr("rank 0, rank 2 did not connect in time"));
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("enough"));
  const auto cancelled =
      NetGroup::Join(*endpoints.endpoints[1],
                     {.name = "alone", .rank = 1, .addresses = endpoints.addresses, .cancellation = &cancellation});
  EXPECT_EQ(cancelled.status(), absl::CancelledError("enough"));
}

// A member whose machine is gone, or that takes nothing, does not keep others for the system's 15 minutes.
TEST(NetGroup, ConnectionsHaveATimeout) {
  const Endpoints endpoints(2);
  std::vector<NetPeer> peers[2];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      peers[rank] = *JoinNetMembers(
          *endpoints.endpoints[rank],
          {.group = "t", .rank = rank, .addresses = endpoints.addresses, .deadline = absl::Now() + absl::Seconds(20)});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < 2; ++rank) {
    for (const FileHandle* socket : {&peers[rank][1 - rank].control, &peers[rank][1 - rank].values}) {
      int millis = 0;
      socklen_t size = sizeof(millis);
      ASSERT_EQ(getsockopt(socket->get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &millis, &size), 0);
      EXPECT_GT(millis, 0);
      EXPECT_LE(millis, 60'000);
    }
  }
}

TEST(NetGroup, MembersOfOtherGroupsAreRefused) {
  const Endpoints endpoints(3);
  absl::Status first, second;
  std::thread low([&] {
    first = NetGroup::Join(*endpoints.endpoints[0],
                           {.name = "x", .addresses = {endpoints.addresses[0], endpoints.addresses[1]}})
                .status();
  });
  second = NetGroup::Join(*endpoints.endpoints[1], {.name = "x", .rank = 1, .addresses = endpoints.addresses}).status();
  low.join();
  EXPECT_THAT(first.ToString(), HasSubstr("rank 1 expects a group of 3, but rank 0 one of 2"));
  EXPECT_THAT(second.ToString(), HasSubstr("rank 1 expects a group of 3, but rank 0 one of 2"));
}

// Strangers connect, say nothing, nonsense, or the wrong token, while members join and work.
TEST(NetGroup, StrangersDoNotDisturb) {
  const Endpoints endpoints(2);
  std::vector<FileHandle> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(Connect(endpoints.addresses[0].port));
    NetHello hello{.rank = 1, .ranks = 2};
    std::memcpy(hello.group, "g", 1);
    if (i % 3 == 1) WriteFully(strangers.back().get(), reinterpret_cast<char*>(&hello), sizeof(hello));
    if (i % 3 == 2) WriteFully(strangers.back().get(), std::string(500, 'x').data(), 500);
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group =
          NetGroup::Join(*endpoints.endpoints[rank], {.name = "g", .rank = rank, .addresses = endpoints.addresses});
      ASSERT_TRUE(group.ok()) << group.status();
      std::vector<double> x = ValuesOf(rank, 1000);
      ASSERT_TRUE((*group)->Run(CallOf(HostOperation::kAllReduce, 1, x)).ok());
      EXPECT_EQ(x[7], SumOf(2, 7));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NetGroup, BadAddressesAreRefused) {
  const std::string token(2 * kNetTokenBytes, 'a');
  EXPECT_TRUE(NetAddress::Parse(absl::StrCat("host 80 ", token)).ok());
  for (const std::string& bad : {std::string(), std::string("host"), absl::StrCat("host 0 ", token),
                                 absl::StrCat("host 65536 ", token), absl::StrCat("host 80 ", token, "a"),
                                 absl::StrCat("host 80 ", token.substr(1), "g"), absl::StrCat(" 80 ", token)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(NetAddress::Parse(bad).status())) << bad;
  }
  const NetAddress address{.host = "::1", .port = 99, .token = std::string(kNetTokenBytes, '\x07')};
  EXPECT_EQ(NetAddress::Parse(address.ToString())->token, address.token);
}

// Member 1 speaks the protocol itself and says absurd things.
TEST(NetGroup, AbsurdMessagesAreErrorsOfTheGroup) {
  const auto control = [](uint32_t type, uint32_t bytes, const std::string& body) {
    const NetControlFrame frame{.type = type, .bytes = bytes};
    return std::string(reinterpret_cast<const char*>(&frame), sizeof(frame)) + body;
  };
  const auto data = [](uint64_t key, uint64_t offset, uint64_t bytes) {
    const NetDataFrame frame{.key = key, .offset = offset, .bytes = bytes};
    return std::string(reinterpret_cast<const char*>(&frame), sizeof(frame)) + std::string(64, 'x');
  };
  const NetArrival agrees{.key = 1, .elements = 10000, .operation = 1, .element_bytes = 8};
  const std::string arrival(reinterpret_cast<const char*>(&agrees), sizeof(agrees));
  const std::string arrives = control(NetControlFrame::kArrive, arrival.size(), arrival);
  struct Case {
    std::string control, values, error;
  };
  const Case cases[] = {
      {control(9, 0, ""), "", "control message of type 9"},
      {control(NetControlFrame::kArrive, 0xffffffff, ""), "", "announces a control message of 4294967295 bytes"},
      {control(NetControlFrame::kArrive, 3, "abc"), "", "announces an operation in 3 bytes"},
      {control(NetControlFrame::kFail, 3, "abc"), "", "control message of type 2"},
      {arrives + arrives, "", "arrives twice at operation 1"},
      {control(NetControlFrame::kArrive, arrival.size() + 8, arrival + "12345678"), "", "has sent 8 bytes of values"},
      {"", data(77, 0, 64), "values of operation 77, which is not under way"},
      {"", data(1, 0, 0), "announces 0 bytes of values"},
      {"", data(1, 0, uint64_t{1} << 40), "announces 1099511627776 bytes of values"},
      {arrives, data(1, uint64_t{1} << 60, 64), "64 bytes of values at 1152921504606846976 of operation 1"},
      {arrives, data(1, 0, 63), "63 bytes of values"},
      {arrives, data(1, 0, 1 << 20), "1048576 bytes of values"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.error);
    const Endpoints endpoints(2);
    std::thread hostile([&] {
      const auto peers = JoinNetMembers(
          *endpoints.endpoints[1],
          {.group = "h", .rank = 1, .addresses = endpoints.addresses, .deadline = absl::Now() + absl::Seconds(20)});
      ASSERT_TRUE(peers.ok()) << peers.status();
      WriteFully((*peers)[0].control.get(), c.control.data(), c.control.size());
      // Values may be sent only after the other member has arrived.
      pollfd arrived{(*peers)[0].control.get(), POLLIN, 0};
      if (!c.values.empty()) poll(&arrived, 1, 20000);
      WriteFully((*peers)[0].values.get(), c.values.data(), c.values.size());
      // Until the other side closes the connection.
      for (char buffer[4096];;) {
        pollfd p{(*peers)[0].control.get(), POLLIN, 0};
        poll(&p, 1, 100);
        const ssize_t n = recv((*peers)[0].control.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) break;
      }
    });
    {
      const auto group = NetGroup::Join(*endpoints.endpoints[0], {.name = "h", .addresses = endpoints.addresses});
      EXPECT_TRUE(group.ok()) << group.status();
      std::vector<double> x = ValuesOf(0, 10000);
      const absl::Status status = (*group)->Run(CallOf(HostOperation::kAllReduce, 1, x));
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(c.error));
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
    }
    hostile.join();
  }
}

// A group of two members. The test itself speaks for member 1.
class NetGroupWithATest : public testing::Test {
 protected:
  NetGroupWithATest() : endpoints_(2) {
    std::thread join([this] {
      auto peers = JoinNetMembers(*endpoints_.endpoints[1], {.group = "with a test",
                                                             .rank = 1,
                                                             .addresses = endpoints_.addresses,
                                                             .deadline = absl::Now() + absl::Seconds(60)});
      EXPECT_TRUE(peers.ok()) << peers.status();
      if (peers.ok()) sockets_ = std::move((*peers)[0]);
    });
    auto group = NetGroup::Join(*endpoints_.endpoints[0], {.name = "with a test", .addresses = endpoints_.addresses});
    join.join();
    EXPECT_TRUE(group.ok()) << group.status();
    if (group.ok()) group_ = *std::move(group);
  }
  void SetUp() override { ASSERT_TRUE(group_ != nullptr && sockets_.control.valid()); }

  // Member 1 sends the values of a broadcast.
  static HostCall BroadcastOf(uint64_t key, std::vector<double>& values) {
    HostCall call = CallOf(HostOperation::kBroadcast, key, values);
    call.root = 1;
    call.step = static_cast<int64_t>(key);
    return call;
  }
  static std::string ArrivalAt(const HostCall& call) {
    const NetArrival arrival{.key = call.key,
                             .step = call.step,
                             .elements = static_cast<uint64_t>(call.elements),
                             .operation = static_cast<uint32_t>(call.operation),
                             .tag = call.tag,
                             .root = call.root,
                             .element_bytes = call.element_bytes,
                             .rank_order = call.rank_order};
    const NetControlFrame frame{.type = NetControlFrame::kArrive, .bytes = sizeof(arrival)};
    return Bytes(&frame, sizeof(frame)) + Bytes(&arrival, sizeof(arrival));
  }
  static std::string ValuesFor(const HostCall& call, const std::vector<double>& values) {
    const NetDataFrame frame{.key = call.key, .offset = 0, .bytes = values.size() * sizeof(double)};
    return Bytes(&frame, sizeof(frame)) + Bytes(values.data(), frame.bytes);
  }
  static std::string Bytes(const void* from, size_t bytes) { return {static_cast<const char*>(from), bytes}; }
  static void Write(const FileHandle& socket, const std::string& bytes) {
    ASSERT_TRUE(WriteFully(socket.get(), bytes.data(), bytes.size()));
  }
  // The type of the next control frame of member 0.
  uint32_t ReadFrame() const {
    NetControlFrame frame;
    const auto read = [&](void* into, size_t bytes) {
      for (size_t have = 0; have < bytes;) {  // the socket does not block
        pollfd p{sockets_.control.get(), POLLIN, 0};
        poll(&p, 1, -1);
        const ssize_t n = recv(sockets_.control.get(), static_cast<char*>(into) + have, bytes - have, 0);
        if (n <= 0) return false;
        have += static_cast<size_t>(n);
      }
      return true;
    };
    if (!read(&frame, sizeof(frame))) return 0;
    std::string body(frame.bytes, '\0');
    return read(body.data(), body.size()) ? frame.type : 0;
  }

  static constexpr int64_t kElements = 10'000;
  const Endpoints endpoints_;
  NetPeer sockets_;
  std::unique_ptr<NetGroup> group_;
};

// Member 1 has heard of all arrivals and sends its values, while the step fails here before it has heard of member 1's.
TEST_F(NetGroupWithATest, ValuesOfAStepThatHasFailedHereAreDropped) {
  std::vector<double> values = ValuesOf(1, kElements), x(kElements);
  const HostCall failing = BroadcastOf(7, x), next = BroadcastOf(8, x);
  absl::Status status;
  Notification over;
  group_->Start(failing, [&](const absl::Status& result) {
    status = result;
    over.Notify();
  });
  ASSERT_EQ(ReadFrame(), NetControlFrame::kArrive);
  group_->Fail(absl::InternalError("enough"), failing.step);
  over.WaitForNotification();
  EXPECT_EQ(status, absl::InternalError("enough"));
  ASSERT_EQ(ReadFrame(), NetControlFrame::kFail);
  Write(sockets_.control, ArrivalAt(failing) + ArrivalAt(next));
  Write(sockets_.values, ValuesFor(failing, values) + ValuesFor(next, values));
  EXPECT_EQ(group_->Run(next), absl::OkStatus()) << "the group goes on";
  EXPECT_EQ(x, values);
}

// The rest may come late, or never: a thread that looked for it again and again would keep a processor busy.
TEST_F(NetGroupWithATest, AThreadThatHasAPartOfAFrameSleeps) {
  std::vector<double> values = ValuesOf(1, kElements), x(kElements);
  const HostCall call = BroadcastOf(7, x);
  absl::Status status;
  Notification over;
  group_->Start(call, [&](const absl::Status& result) {
    status = result;
    over.Notify();
  });
  const auto write_with_pauses = [&](const FileHandle& socket, const std::string& bytes, size_t header) {
    size_t at = 0;
    for (const size_t cut : {size_t{1}, header - 1, header, header + 1, bytes.size()}) {
      Write(socket, bytes.substr(at, cut - at));
      at = cut;
      EXPECT_TRUE(AwaitRest()) << "after " << cut << " of " << bytes.size() << " bytes";
    }
  };
  write_with_pauses(sockets_.control, ArrivalAt(call), sizeof(NetControlFrame));
  write_with_pauses(sockets_.values, ValuesFor(call, values), sizeof(NetDataFrame));
  over.WaitForNotification();
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(x, values);
}

// How an operation ends whose values are on their way to members that do not read them.
enum class StalledEnding { kAbsurdMessage, kGroupFails, kStepFails, kMemberDies, kGroupGoes };
class NetStalls : public testing::TestWithParam<std::tuple<int, StalledEnding>> {};
INSTANTIATE_TEST_SUITE_P(Ending, NetStalls,
                         testing::Combine(testing::Values(2, 3),
                                          testing::Values(StalledEnding::kAbsurdMessage, StalledEnding::kGroupFails,
                                                          StalledEnding::kStepFails, StalledEnding::kMemberDies,
                                                          StalledEnding::kGroupGoes)));

// Member 0 has sent frames in part to members that arrive at its operations, but do not read.
TEST_P(NetStalls, EndOperationsOnce) {
  const auto [ranks, ending] = GetParam();
  constexpr int kOperations = 3;
  constexpr int64_t kElements = 8 << 20;  // 64 MB
  const Endpoints endpoints(ranks);
  std::vector<std::vector<NetPeer>> others(ranks);
  std::vector<std::thread> joins;
  for (int rank = 1; rank < ranks; ++rank) {
    joins.emplace_back([&, rank] {
      auto peers = JoinNetMembers(
          *endpoints.endpoints[rank],
          {.group = "s", .rank = rank, .addresses = endpoints.addresses, .deadline = absl::Now() + absl::Seconds(20)});
      ASSERT_TRUE(peers.ok()) << peers.status();
      others[rank] = *std::move(peers);
    });
  }
  auto group = *NetGroup::Join(*endpoints.endpoints[0], {.name = "s", .addresses = endpoints.addresses});
  for (std::thread& join : joins) join.join();
  std::vector<double> x(kElements);
  Notification over[kOperations];
  absl::Status results[kOperations];
  for (int i = 0; i < kOperations; ++i) {
    HostCall call = CallOf(HostOperation::kAllReduce, i + 1, x);
    call.step = 7;
    group->Start(call, [&, i](const absl::Status& status) {
      ASSERT_FALSE(over[i].HasBeenNotified());
      results[i] = status;
      over[i].Notify();
    });
  }
  for (int rank = 1; rank < ranks; ++rank) {
    for (int i = 0; i < kOperations; ++i) {
      const NetArrival arrival{.key = static_cast<uint64_t>(i + 1),
                               .step = 7,
                               .elements = static_cast<uint64_t>(kElements),
                               .operation = static_cast<uint32_t>(HostOperation::kAllReduce),
                               .element_bytes = sizeof(double)};
      const NetControlFrame frame{.type = NetControlFrame::kArrive, .bytes = sizeof(arrival)};
      ASSERT_TRUE(WriteFully(others[rank][0].control.get(), reinterpret_cast<const char*>(&frame), sizeof(frame)) &&
                  WriteFully(others[rank][0].control.get(), reinterpret_cast<const char*>(&arrival), sizeof(arrival)));
    }
  }
  // Until the connection to the next member is full.
  for (int before = -1, now = 0; before != now || now == 0;) {
    before = now;
    poll(nullptr, 0, 50);
    ASSERT_EQ(ioctl(others[1][0].values.get(), FIONREAD, &now), 0);
  }
  switch (ending) {
    case StalledEnding::kAbsurdMessage: {
      const NetControlFrame absurd{.type = 99, .bytes = 0};
      WriteFully(others[1][0].control.get(), reinterpret_cast<const char*>(&absurd), sizeof(absurd));
      break;
    }
    case StalledEnding::kGroupFails:
      group->Fail(absl::InternalError("enough"), 0);
      break;
    case StalledEnding::kStepFails:
      group->Fail(absl::InternalError("enough"), 7);
      break;
    case StalledEnding::kMemberDies:
      others[ranks - 1].clear();
      break;
    case StalledEnding::kGroupGoes:
      group.reset();
      break;
  }
  for (int i = 0; i < kOperations; ++i) {
    over[i].WaitForNotification();
    EXPECT_FALSE(results[i].ok());
  }
  if (ending == StalledEnding::kAbsurdMessage) {
    EXPECT_THAT(results[0].ToString(), HasSubstr("message of type 99"));
  }
  if (ending == StalledEnding::kStepFails) {
    EXPECT_EQ(results[0], absl::InternalError("enough"));
  }
}

// What a member reports to others is not reported back, whatever the number of steps; the newest are remembered.
TEST(NetGroup, FailuresOfStepsAreNotPassedOn) {
  constexpr int kSteps = 1500;
  const Endpoints endpoints(2);
  int reported_back = 0;
  std::thread other([&] {
    const auto peers = JoinNetMembers(
        *endpoints.endpoints[1],
        {.group = "f", .rank = 1, .addresses = endpoints.addresses, .deadline = absl::Now() + absl::Seconds(20)});
    ASSERT_TRUE(peers.ok()) << peers.status();
    const int control = (*peers)[0].control.get();
    std::string frames;
    for (int64_t step = kSteps; step > 0; --step) {
      const NetFailure failure{.step = step, .code = 13};
      const NetControlFrame frame{.type = NetControlFrame::kFail, .bytes = sizeof(failure) + 6};
      frames.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
      frames.append(reinterpret_cast<const char*>(&failure), sizeof(failure));
      frames += "enough";
    }
    const NetArrival arrival{.key = 5, .step = kSteps + 1, .operation = static_cast<uint32_t>(HostOperation::kBarrier)};
    const NetControlFrame frame{.type = NetControlFrame::kArrive, .bytes = sizeof(arrival)};
    frames.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
    frames.append(reinterpret_cast<const char*>(&arrival), sizeof(arrival));
    ASSERT_TRUE(WriteFully(control, frames.data(), frames.size()));
    const auto read = [&](void* into, size_t bytes) {
      for (size_t have = 0; have < bytes;) {
        pollfd p{control, POLLIN, 0};
        poll(&p, 1, -1);
        const ssize_t n = recv(control, static_cast<char*>(into) + have, bytes - have, 0);
        if (n <= 0) return false;
        have += static_cast<size_t>(n);
      }
      return true;
    };
    NetControlFrame got;
    while (read(&got, sizeof(got))) {
      char body[8192];
      ASSERT_LE(got.bytes, sizeof(body));
      ASSERT_TRUE(read(body, got.bytes));
      NetFailure failure;
      std::memcpy(&failure, body, sizeof(failure));
      if (got.type == NetControlFrame::kFail && failure.step != 0) ++reported_back;
    }
  });
  {
    const auto group = NetGroup::Join(*endpoints.endpoints[0], {.name = "f", .addresses = endpoints.addresses});
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_TRUE((*group)->Run({.key = 5, .step = kSteps + 1}).ok());  // all before it has been read
    EXPECT_EQ((*group)->Run({.key = 6, .step = 1, .timeout = absl::Seconds(20)}), absl::InternalError("enough"));
  }
  other.join();
  EXPECT_EQ(reported_back, 0);
}

}  // namespace
}  // namespace thalweg
