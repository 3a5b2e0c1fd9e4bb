// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/host_group.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/transport/host_join.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

std::string NewName() {
  static std::atomic<int> next = 0;
  return absl::StrCat("test-", getpid(), "-", ++next);
}

void Add(void* into, const void* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<double*>(into)[i] += static_cast<const double*>(from)[i];
}
void Divide(void* values, int64_t n, int members) {
  for (int64_t i = 0; i < n; ++i) static_cast<double*>(values)[i] /= members;
}

// Runs `body` for every member of a group, each on a thread of its own.
void ForMembers(int ranks, const std::function<void(HostGroup&)>& body, size_t arena_bytes = size_t{64} << 20) {
  const std::string name = NewName();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = HostGroup::Join({.name = name, .rank = rank, .ranks = ranks, .arena_bytes = arena_bytes});
      ASSERT_TRUE(group.ok()) << group.status();
      body(**group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HostArena, MemoryIsReusedAndOutlivesTheArena) {
  auto arena = HostArena::Create(10000);
  ASSERT_TRUE(arena.ok()) << arena.status();
  HostArena::Memory first = (*arena)->Allocate(1).value();
  HostArena::Memory second = (*arena)->Allocate(4096).value();
  EXPECT_EQ(second.data - first.data, 4096);
  EXPECT_TRUE(absl::IsResourceExhausted((*arena)->Allocate(4096).status()));
  EXPECT_TRUE((*arena)->Owns(first.data, 10000));
  EXPECT_FALSE((*arena)->Owns(first.data, 10001));
  EXPECT_FALSE((*arena)->Owns(&arena, 1));
  char* const place = first.data;
  first = {};
  EXPECT_EQ((*arena)->Allocate(2).value().data, place);
  *arena = nullptr;
  std::fill(second.data, second.data + 4096, 'x');
  EXPECT_EQ(second.data[4095], 'x');
}

HostCall Call(HostOperation operation, uint64_t key, std::vector<double>& values) {
  return {.operation = operation,
          .key = key,
          .elements = static_cast<int64_t>(values.size()),
          .element_bytes = sizeof(double),
          .values = values.data(),
          .merge = Add,
          .timeout = absl::Seconds(20)};
}

// Element i of member r, before.
double Value(int rank, int64_t i) { return 1000. * rank + static_cast<double>(i % 1000); }
std::vector<double> Values(int rank, int64_t n) {
  std::vector<double> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = Value(rank, i);
  return values;
}
double Sum(int ranks, int64_t i) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += Value(rank, i);
  return sum;
}

TEST(HostGroup, EveryOperationInEverySize) {
  for (const int ranks : {1, 2, 3, 4}) {
    ForMembers(ranks, [&](HostGroup& group) {
      uint64_t key = 0;
      const int rank = group.rank();
      for (const int64_t each : {0, 1, 7, 300, 5000, 200000}) {
        const int64_t n = each * ranks;
        std::vector<double> x = Values(rank, n);
        HostCall call = Call(HostOperation::kAllReduce, ++key, x);
        call.finish = Divide;
        ASSERT_TRUE(group.Run(call).ok()) << group.status();
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], Sum(ranks, i) / ranks) << i << " of " << n;

        x = Values(rank, n);
        ASSERT_TRUE(group.Run(Call(HostOperation::kReduceScatter, ++key, x)).ok());
        for (int64_t i = rank * each; i < (rank + 1) * each; ++i) ASSERT_EQ(x[i], Sum(ranks, i));

        x = Values(rank, n);
        ASSERT_TRUE(group.Run(Call(HostOperation::kAllGather, ++key, x)).ok());
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], Value(static_cast<int>(i / each), i));

        x = Values(rank, n);
        call = Call(HostOperation::kBroadcast, ++key, x);
        call.root = ranks - 1;
        ASSERT_TRUE(group.Run(call).ok());
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], Value(ranks - 1, i));

        x = Values(rank, n);
        std::vector<double> y(n);
        call = Call(HostOperation::kAllToAll, ++key, x);
        call.results = y.data();
        ASSERT_TRUE(group.Run(call).ok());
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(y[i], Value(static_cast<int>(i / each), rank * each + i % each));
        }
        EXPECT_EQ(x, Values(rank, n));
        ASSERT_TRUE(group.Run({.key = ++key}).ok());
      }
    });
  }
}

TEST(HostGroup, ValuesInTheArenaAreNotCopied) {
  constexpr int64_t kElements = 100000;
  ForMembers(
      2,
      [](HostGroup& group) {
        // There would be no room for a copy.
        const absl::StatusOr<HostGroup::Memory> memory = group.Allocate(kElements * sizeof(double));
        ASSERT_TRUE(memory.ok()) << memory.status();
        auto* const x = reinterpret_cast<double*>(memory->data);
        for (int round = 1; round <= 3; ++round) {
          for (int64_t i = 0; i < kElements; ++i) x[i] = Value(group.rank(), i);
          HostCall call{.operation = HostOperation::kAllReduce,
                        .key = static_cast<uint64_t>(round),
                        .elements = kElements,
                        .element_bytes = sizeof(double),
                        .values = x,
                        .merge = Add};
          ASSERT_TRUE(group.Run(call).ok()) << group.status();
          for (int64_t i = 0; i < kElements; ++i) ASSERT_EQ(x[i], Sum(2, i));
        }
      },
      kElements * sizeof(double) + 4096);
}

TEST(HostGroup, TheArenaIsBounded) {
  ForMembers(
      1,
      [](HostGroup& group) {
        absl::StatusOr<HostGroup::Memory> a = group.Allocate(60000);
        ASSERT_TRUE(a.ok());
        EXPECT_TRUE(absl::IsResourceExhausted(group.Allocate(60000).status()));
        EXPECT_TRUE(absl::IsResourceExhausted(group.Allocate(std::numeric_limits<size_t>::max()).status()));
        const char* const where = a->data;
        a = HostGroup::Memory();
        a = group.Allocate(60000);
        ASSERT_TRUE(a.ok()) << "it was given back";
        EXPECT_EQ(a->data, where);
      },
      65536);
}

// Members start more operations at once than the control block has slots, each member in its own order.
TEST(HostGroup, OperationsMayBeginInAnyOrder) {
  constexpr int kOperations = 200;
  ForMembers(3, [](HostGroup& group) {
    std::vector<std::vector<double>> values;
    for (int i = 0; i < kOperations; ++i) values.push_back(Values(group.rank(), i % 3 == 0 ? 10 : 2000));
    std::vector<int> order(kOperations);
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + group.rank() * 37, order.end());
    std::atomic<int> left = kOperations;
    Notification over;
    for (const int i : order) {
      group.Start(Call(HostOperation::kAllReduce, i + 1, values[i]), [&](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        if (--left == 0) over.Notify();
      });
    }
    over.WaitForNotification();
    for (const auto& x : values) {
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], Sum(3, static_cast<int64_t>(i)));
    }
  });
}

TEST(HostGroup, MembersThatDoNotAgreeAllLearnIt) {
  for (const int64_t wrong : {4, 3000}) {
    ForMembers(3, [&](HostGroup& group) {
      std::vector<double> x = Values(group.rank(), group.rank() == 2 ? wrong : wrong + 1);
      const absl::Status status = group.Run(Call(HostOperation::kAllReduce, 1, x));
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("rank 2 brings ", wrong, " elements")));
      EXPECT_EQ(group.Run({.key = 2}), status) << "the group is over";
    });
  }
  ForMembers(2, [](HostGroup& group) {
    std::vector<double> x = Values(group.rank(), 10);
    HostCall call = Call(HostOperation::kAllReduce, 1, x);
    call.tag = group.rank();
    EXPECT_THAT(std::string(group.Run(call).message()), HasSubstr("of type 1"));
  });
}

TEST(HostGroup, ARankThatDoesNotComeIsNamed) {
  ForMembers(3, [](HostGroup& group) {
    std::vector<double> x = Values(group.rank(), 1000);
    HostCall call = Call(HostOperation::kAllReduce, 1, x);
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

// Rank 0 gives up a step while rank 1 waits in an operation of that step, in an operation of another step, and in one
// at which all members have arrived.
TEST(HostGroup, AFailedStepEndsOthersInAWayThatTheyCanRestart) {
  ForMembers(2, [](HostGroup& group) {
    std::vector<double> x = Values(group.rank(), 1000), y = x, z = x;
    HostCall failing = Call(HostOperation::kAllReduce, 1, x), other = Call(HostOperation::kAllReduce, 2, y);
    failing.step = 7;
    other.step = 8;
    if (group.rank() == 0) {
      ASSERT_TRUE(group.Run(Call(HostOperation::kAllReduce, 3, z)).ok());
      group.Fail(absl::InternalError("enough"), 7);
      EXPECT_FALSE(HostGroup::MayRestart(group.Run(failing)));
      EXPECT_TRUE(HostGroup::MayRestart(group.Run(other)));
      return;
    }
    absl::Status first, second;
    Notification both;
    std::atomic<int> left = 2;
    const auto end = [&](absl::Status* status) {
      return [&, status](const absl::Status& ended) {
        *status = ended;
        if (--left == 0) both.Notify();
      };
    };
    group.Start(failing, end(&first));
    group.Start(other, end(&second));
    EXPECT_TRUE(group.Run(Call(HostOperation::kAllReduce, 3, z)).ok());
    EXPECT_EQ(z[3], Sum(2, 3));
    both.WaitForNotification();
    EXPECT_EQ(first, absl::InternalError("enough"));
    EXPECT_FALSE(HostGroup::MayRestart(first));
    EXPECT_TRUE(HostGroup::MayRestart(second)) << second;
    EXPECT_EQ(x, Values(1, 1000)) << "values are as they were";
    EXPECT_EQ(y, Values(1, 1000));
  });
}

TEST(HostGroup, AMemberThatLeavesEndsTheWaitOfTheOthers) {
  ForMembers(3, [](HostGroup& group) {
    std::vector<double> x = Values(group.rank(), 1000);
    if (group.rank() == 2) return;
    Notification over;
    absl::Status status;
    group.Start(Call(HostOperation::kAllReduce, 1, x), [&](const absl::Status& s) {
      status = s;
      over.Notify();
    });
    over.WaitForNotification();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("A member of the group has died, or has left it: rank 2"));
  });
}

TEST(HostGroup, AProcessThatDiesEndsTheWaitOfTheOthers) {
  const std::string name = NewName();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto group = HostGroup::Join({.name = name, .rank = 1, .ranks = 2});
    std::vector<double> x = Values(1, 10);
    if (group.ok() && (*group)->Run(Call(HostOperation::kAllReduce, 1, x)).ok()) kill(getpid(), SIGKILL);
    _exit(1);
  }
  auto group = HostGroup::Join({.name = name, .rank = 0, .ranks = 2});
  ASSERT_TRUE(group.ok()) << group.status();
  std::vector<double> x = Values(0, 10);
  ASSERT_TRUE((*group)->Run(Call(HostOperation::kAllReduce, 1, x)).ok());
  EXPECT_EQ(x[3], Sum(2, 3));
  const absl::Status status = (*group)->Run(Call(HostOperation::kAllReduce, 2, x));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  int result = 0;
  waitpid(child, &result, 0);
  EXPECT_TRUE(WIFSIGNALED(result));
}

TEST(HostGroup, WhoDoesNotJoinIsNamed) {
  const auto alone = HostGroup::Join({.name = NewName(), .rank = 0, .ranks = 3, .timeout = absl::Milliseconds(100)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(alone.status()));
  EXPECT_THAT(alone.status().ToString(), HasSubstr("rank 1, 2 did not come in time"));
  const auto lost = HostGroup::Join({.name = NewName(), .rank = 1, .ranks = 3, .timeout = absl::Milliseconds(100)});
  EXPECT_THAT(lost.status().ToString(), HasSubstr("rank 0 did not come in time"));
  EXPECT_FALSE(HostGroup::Join({.name = NewName(), .rank = 3, .ranks = 3}).ok());
  EXPECT_FALSE(HostGroup::Join({.name = "", .rank = 0, .ranks = 1}).ok());
  EXPECT_FALSE(HostGroup::Join({.name = std::string(100, 'x'), .rank = 0, .ranks = 1}).ok());
}

TEST(HostGroup, AJoinCanBeCancelled) {
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("enough"));
  const auto group = HostGroup::Join({.name = NewName(), .rank = 0, .ranks = 2, .cancellation = &cancellation});
  EXPECT_EQ(group.status(), absl::CancelledError("enough"));
}

TEST(HostGroup, MembersOfOtherGroupsAreRefused) {
  const std::string name = NewName();
  absl::Status first;
  std::thread leader([&] { first = HostGroup::Join({.name = name, .rank = 0, .ranks = 2}).status(); });
  const absl::Status second = HostGroup::Join({.name = name, .rank = 1, .ranks = 3}).status();
  leader.join();
  EXPECT_THAT(first.ToString(), HasSubstr("rank 1 expects a group of 3, but rank 0 one of 2"));
  EXPECT_THAT(second.ToString(), HasSubstr("rank 1 expects a group of 3, but rank 0 one of 2"));
}

// Member 1 writes directly to the control block.
TEST(HostGroup, PlacesOutsideOfTheArenaAreRefused) {
  for (const uint64_t place : {uint64_t{1} << 60, ~uint64_t{0}, (uint64_t{64} << 20) - 8}) {
    const std::string name = NewName();
    std::thread hostile([&] {
      auto arena = SharedMemory::Create(size_t{64} << 20);
      auto members = JoinHostMembers(name, 1, 2, *arena, absl::Now() + absl::Seconds(20), nullptr);
      ASSERT_TRUE(members.ok()) << members.status();
      HostControlBlock& control = *members->control;
      const int slot = control.FindSlot(1);
      HostControlBlock::Entry& entry = control.entry(slot, 1);
      entry.operation = static_cast<uint32_t>(HostOperation::kAllReduce);
      entry.tag = 0;
      entry.root = 0;
      entry.element_bytes = sizeof(double);
      entry.elements = 1000;
      entry.values = entry.results = place;
      entry.state = HostControlBlock::Entry::kPublished;
      control.slot(slot).arrived++;
      control.RingAll();
      while (!control.failed()) std::this_thread::yield();
    });
    const auto group = HostGroup::Join({.name = name, .rank = 0, .ranks = 2});
    ASSERT_TRUE(group.ok()) << group.status();
    std::vector<double> x = Values(0, 1000);
    const absl::Status status = (*group)->Run(Call(HostOperation::kAllReduce, 1, x));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("Rank 1 of the group says that its values lie at ", place)));
    EXPECT_EQ(x, Values(0, 1000));
    hostile.join();
  }
}

TEST(HostGroup, BadCallsFail) {
  ForMembers(1, [](HostGroup& group) {
    std::vector<double> x = Values(0, 10);
    HostCall call = Call(HostOperation::kAllReduce, 1, x);
    call.elements = -1;
    EXPECT_TRUE(absl::IsInvalidArgument(group.Run(call)));
  });
  for (const int bad : {0, 1, 2, 3}) {
    ForMembers(2, [&](HostGroup& group) {
      std::vector<double> x = Values(group.rank(), 11);
      HostCall call = Call(HostOperation::kAllGather, 1, x);
      if (bad == 1) call.key = 0;
      if (bad == 2) call.root = 2;
      if (bad == 3) call.element_bytes = 0;
      EXPECT_TRUE(absl::IsInvalidArgument(group.Run(call)));
    });
  }
}

int Count(const char* folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}
int Mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += absl::StrContains(line, "memfd:thalweg") ? 1 : 0;
  return count;
}

TEST(HostGroup, NothingIsLeftBehind) {
  const int descriptors = Count("/proc/self/fd"), mappings = Mappings();
  for (int i = 0; i < 3; ++i) {
    ForMembers(3, [](HostGroup& group) {
      std::vector<double> x = Values(group.rank(), group.rank() == 2 ? 999 : 1000);
      EXPECT_FALSE(group.Run(Call(HostOperation::kAllReduce, 1, x)).ok());
    });
    EXPECT_FALSE(HostGroup::Join({.name = NewName(), .rank = 0, .ranks = 2, .timeout = absl::Milliseconds(20)}).ok());
  }
  EXPECT_EQ(Count("/proc/self/fd"), descriptors);
  EXPECT_EQ(Mappings(), mappings);
}

}  // namespace
}  // namespace thalweg
