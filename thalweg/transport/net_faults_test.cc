// SPDX-License-Identifier: Apache-2.0
// Groups whose connections break, stall or lie at every message.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <list>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "thalweg/transport/net_group.h"
#include "thalweg/transport/process_group_testlib.h"
#include "thalweg/transport/raw_socket_testlib.h"

namespace thalweg {
namespace {

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
      link.server = ConnectToPort(target_.port);
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
  GroupKind kind = GroupKind::kTcp;
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
      const auto group = JoinGroup(run.kind, name, rank, kRanks, endpoints.endpoints[rank].get(), addresses,
                                   harmless ? absl::Seconds(20) : absl::Milliseconds(300));
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
            case HostOperation::kReduceSlices:
            case HostOperation::kGatherSlices:
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
                           {HostOperation::kAllReduce, 30000, false, GroupKind::kTwoLevels},
                           {HostOperation::kBroadcast, 30000, false, GroupKind::kTwoLevels},
                           {HostOperation::kReduceScatter, 30000},
                           {HostOperation::kAllGather, 30000},
                           {HostOperation::kBroadcast, 30000},
                           {HostOperation::kAllToAll, 30000},
                           {HostOperation::kBarrier, 0}};
  for (const FaultRun& run : runs) {
    const int messages = RunWithFault(run, NetFault::kNone, -1);
    for (int at = 0; at < messages; ++at) {
      SCOPED_TRACE(absl::StrCat("operation ", static_cast<int>(run.operation), " of ", run.elements, " elements by ",
                                NameOfGroupKind(run.kind), ", fault at message ", at, " of ", messages));
      RunWithFault(run, GetParam(), at);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace thalweg
