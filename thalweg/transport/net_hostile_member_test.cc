// SPDX-License-Identifier: Apache-2.0
// Members that speak the protocol themselves: they say absurd things, or do not read.
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/transport/net_group.h"
#include "thalweg/transport/process_group_testlib.h"
#include "thalweg/transport/raw_socket_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

// Member 1 speaks the protocol itself and says absurd things.
TEST(NetHostileMember, AbsurdMessagesAreErrorsOfTheGroup) {
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
TEST(NetHostileMember, FailuresOfStepsAreNotPassedOn) {
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
    NetControlFrame got;
    while (ReadFully(control, &got, sizeof(got))) {
      char body[8192];
      ASSERT_LE(got.bytes, sizeof(body));
      ASSERT_TRUE(ReadFully(control, body, got.bytes));
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
