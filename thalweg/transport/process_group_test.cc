// SPDX-License-Identifier: Apache-2.0
// The contract of groups, in shared memory, over TCP and in both.
#include "thalweg/transport/process_group.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <latch>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/transport/process_group_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

class AnyGroup : public testing::TestWithParam<GroupKind> {
 protected:
  static void ForMembers(int ranks, const std::function<void(ProcessGroup&)>& body) {
    ForMembersOf(GetParam(), ranks, body);
  }
};
INSTANTIATE_TEST_SUITE_P(Group, AnyGroup,
                         testing::Values(GroupKind::kSharedMemory, GroupKind::kTcp, GroupKind::kTwoLevels),
                         [](const auto& info) { return NameOfGroupKind(info.param); });

TEST_P(AnyGroup, EveryOperationInEverySize) {
  for (const int ranks : {1, 2, 3, 4}) {
    ForMembers(ranks, [&](ProcessGroup& group) {
      uint64_t key = 0;
      const int rank = group.rank();
      for (const int64_t each : {0, 1, 7, 300, 5000, 200000}) {
        const int64_t n = each * ranks;
        std::vector<double> x = ValuesOf(rank, n);
        HostCall call = CallOf(HostOperation::kAllReduce, ++key, x);
        call.finish = DivideDoubles;
        ASSERT_TRUE(group.Run(call).ok()) << group.status();
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], SumOf(ranks, i) / ranks) << i << " of " << n;

        x = ValuesOf(rank, n);
        ASSERT_TRUE(group.Run(CallOf(HostOperation::kReduceScatter, ++key, x)).ok());
        for (int64_t i = rank * each; i < (rank + 1) * each; ++i) ASSERT_EQ(x[i], SumOf(ranks, i));

        x = ValuesOf(rank, n);
        ASSERT_TRUE(group.Run(CallOf(HostOperation::kAllGather, ++key, x)).ok());
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], ValueOf(static_cast<int>(i / each), i));

        x = ValuesOf(rank, n);
        call = CallOf(HostOperation::kBroadcast, ++key, x);
        call.root = ranks - 1;
        ASSERT_TRUE(group.Run(call).ok());
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], ValueOf(ranks - 1, i));

        x = ValuesOf(rank, n);
        std::vector<double> y(n);
        call = CallOf(HostOperation::kAllToAll, ++key, x);
        call.results = y.data();
        ASSERT_TRUE(group.Run(call).ok());
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(y[i], ValueOf(static_cast<int>(i / each), rank * each + i % each));
        }
        EXPECT_EQ(x, ValuesOf(rank, n));
        ASSERT_TRUE(group.Run({.key = ++key}).ok());
      }
    });
  }
}

// Members start more operations at once than the control block has slots, each member in its own order.
TEST_P(AnyGroup, OperationsMayBeginInAnyOrder) {
  constexpr int kOperations = 200;
  ForMembers(3, [](ProcessGroup& group) {
    std::vector<std::vector<double>> values;
    for (int i = 0; i < kOperations; ++i) values.push_back(ValuesOf(group.rank(), i % 3 == 0 ? 10 : 2000));
    std::vector<int> order(kOperations);
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + group.rank() * 37, order.end());
    std::atomic<int> left = kOperations;
    Notification over;
    for (const int i : order) {
      group.Start(CallOf(HostOperation::kAllReduce, i + 1, values[i]), [&](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        if (--left == 0) over.Notify();
      });
    }
    over.WaitForNotification();
    for (const auto& x : values) {
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], SumOf(3, static_cast<int64_t>(i)));
    }
  });
}

TEST_P(AnyGroup, MembersThatDoNotAgreeAllLearnIt) {
  for (const int64_t wrong : {4, 3000}) {
    ForMembers(3, [&](ProcessGroup& group) {
      std::vector<double> x = ValuesOf(group.rank(), group.rank() == 2 ? wrong : wrong + 1);
      const absl::Status status = group.Run(CallOf(HostOperation::kAllReduce, 1, x));
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("rank 2 brings ", wrong, " elements")));
      EXPECT_EQ(group.Run({.key = 2}), status) << "the group is over";
    });
  }
  ForMembers(2, [](ProcessGroup& group) {
    std::vector<double> x = ValuesOf(group.rank(), 10);
    HostCall call = CallOf(HostOperation::kAllReduce, 1, x);
    call.tag = group.rank();
    EXPECT_THAT(std::string(group.Run(call).message()), HasSubstr("of type 1"));
  });
}

TEST_P(AnyGroup, ARankThatDoesNotComeIsNamed) {
  ForMembers(3, [](ProcessGroup& group) {
    std::vector<double> x = ValuesOf(group.rank(), 1000);
    HostCall call = CallOf(HostOperation::kAllReduce, 1, x);
    if (group.rank() == 1) {
      while (group.status().ok()) std::this_thread::yield();
      EXPECT_THAT(std::string(group.status().message()), HasSubstr("for rank 1 in an operation"));
      return;
    }
    call.timeout = absl::Milliseconds(group.rank() == 0 ? 50 : 20000);
    const absl::Status status = group.Run(call);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("Rank 0 has waited for 50ms for rank 1"));
  });
}

TEST_P(AnyGroup, AMemberThatLeavesEndsTheWaitOfTheOthers) {
  ForMembers(3, [](ProcessGroup& group) {
    std::vector<double> x = ValuesOf(group.rank(), 1000);
    if (group.rank() == 2) return;
    Notification over;
    absl::Status status;
    group.Start(CallOf(HostOperation::kAllReduce, 1, x), [&](const absl::Status& s) {
      status = s;
      over.Notify();
    });
    over.WaitForNotification();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("A member of the group has died, or has left it: rank 2"));
  });
}

TEST_P(AnyGroup, BadCallsFail) {
  ForMembers(1, [](ProcessGroup& group) {
    std::vector<double> x = ValuesOf(0, 10);
    HostCall call = CallOf(HostOperation::kAllReduce, 1, x);
    call.elements = -1;
    EXPECT_TRUE(absl::IsInvalidArgument(group.Run(call)));
  });
  for (const int bad : {0, 1, 2, 3}) {
    ForMembers(2, [&](ProcessGroup& group) {
      std::vector<double> x = ValuesOf(group.rank(), 11);
      HostCall call = CallOf(HostOperation::kAllGather, 1, x);
      if (bad == 1) call.key = 0;
      if (bad == 2) call.root = 2;
      if (bad == 3) call.element_bytes = 0;
      EXPECT_TRUE(absl::IsInvalidArgument(group.Run(call)));
    });
  }
}

// Small values are merged in the order of ranks; so are large ones on request. Sums of such values depend on the order.
TEST_P(AnyGroup, TheOrderOfRanksGivesTheSameBits) {
  for (const int64_t n : {10, 3000, 50000}) {
    std::vector<double> expected(n);
    const auto value = [](int rank, int64_t i) { return 1e16 / (1 + rank * 3 + i % 7) * (rank % 2 == 0 ? 1 : -1); };
    for (int64_t i = 0; i < n; ++i) {
      expected[i] = value(0, i);
      for (int rank = 1; rank < 5; ++rank) expected[i] += value(rank, i);
    }
    ForMembers(5, [&](ProcessGroup& group) {
      std::vector<double> x(n);
      for (int64_t i = 0; i < n; ++i) x[i] = value(group.rank(), i);
      HostCall call = CallOf(HostOperation::kAllReduce, 1, x);
      call.rank_order = true;
      ASSERT_TRUE(group.Run(call).ok()) << group.status();
      EXPECT_EQ(x, expected);
    });
  }
}

// Without it, all members still get the same bits, in every run.
TEST_P(AnyGroup, AllMembersAndRunsGetTheSameBits) {
  for (const int64_t n : {3000, 50000}) {
    std::vector<std::vector<double>> results(8);
    for (int run = 0; run < 2; ++run) {
      ForMembers(4, [&](ProcessGroup& group) {
        std::vector<double> x(n);
        for (int64_t i = 0; i < n; ++i) x[i] = 1e16 / (1 + group.rank() * 3 + i % 7) - static_cast<double>(i);
        ASSERT_TRUE(group.Run(CallOf(HostOperation::kAllReduce, 1, x)).ok()) << group.status();
        results[run * 4 + group.rank()] = x;
      });
    }
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
  }
}

TEST_P(AnyGroup, AStepThatFailsEndsForAllMembers) {
  // A member that left before the others had heard of the failure would be an error of its own.
  std::latch all_have_ended(3);
  ForMembers(3, [&](ProcessGroup& group) {
    std::vector<double> x = ValuesOf(group.rank(), 1000);
    HostCall call = CallOf(HostOperation::kAllReduce, 1, x);
    call.step = 7;
    if (group.rank() == 1) group.Fail(absl::InternalError("enough"), 7);
    const absl::Status status = group.Run(call);
    EXPECT_EQ(status, absl::InternalError("enough"));
    EXPECT_EQ(x, ValuesOf(group.rank(), 1000)) << "values are as they were";
    all_have_ended.arrive_and_wait();
  });
}

TEST_P(AnyGroup, NoDescriptorsAreLeftBehind) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = count();
  for (int i = 0; i < 3; ++i) {
    ForMembers(3, [](ProcessGroup& group) {
      std::vector<double> x = ValuesOf(group.rank(), group.rank() == 2 ? 99999 : 100000);
      EXPECT_FALSE(group.Run(CallOf(HostOperation::kAllReduce, 1, x)).ok());
    });
  }
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace thalweg
