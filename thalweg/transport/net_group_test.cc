// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/net_group.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/transport/process_group_testlib.h"
#include "thalweg/transport/raw_socket_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

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
// More values than the connection takes are on their way in both directions, in opposite orders of the operations.
TEST(NetGroup, MembersMayBeginManyExchangesInOppositeOrders) {
  constexpr int kOperations = 1000;
  const auto elements = [](int i) { return i % 2 == 0 ? 8192 : 1000; };  // 64 KB, the most for recursive doubling
  for (const int ranks : {2, 3, 4}) {
    ForMembersOf(GroupKind::kTcp, ranks, [&](ProcessGroup& group) {
      std::vector<std::vector<double>> values;
      for (int i = 0; i < kOperations; ++i) values.push_back(ValuesOf(group.rank(), elements(i)));
      std::atomic<int> left = kOperations;
      Notification over;
      for (int k = 0; k < kOperations; ++k) {
        const int i = group.rank() % 2 == 0 ? k : kOperations - 1 - k;
        HostCall call = CallOf(HostOperation::kAllReduce, i + 1, values[i]);
        call.timeout = absl::Seconds(60);
        group.Start(call, [&](const absl::Status& status) {
          EXPECT_TRUE(status.ok()) << status;
          if (--left == 0) over.Notify();
        });
      }
      over.WaitForNotification();
      for (const auto& x : values) {
        for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], SumOf(ranks, static_cast<int64_t>(i)));
      }
    });
  }
}

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
    strangers.push_back(ConnectToPort(endpoints.addresses[0].port));
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

}  // namespace
}  // namespace thalweg
