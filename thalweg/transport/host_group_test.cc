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
#include "thalweg/transport/process_group_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

// Runs `body` for every member of a group, each on a thread of its own.
void ForMembers(int ranks, const std::function<void(HostGroup&)>& body, size_t arena_bytes = size_t{64} << 20) {
  const std::string name = NewGroupName();
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
          for (int64_t i = 0; i < kElements; ++i) x[i] = ValueOf(group.rank(), i);
          HostCall call{.operation = HostOperation::kAllReduce,
                        .key = static_cast<uint64_t>(round),
                        .elements = kElements,
                        .element_bytes = sizeof(double),
                        .values = x,
                        .merge = AddDoubles};
          ASSERT_TRUE(group.Run(call).ok()) << group.status();
          for (int64_t i = 0; i < kElements; ++i) ASSERT_EQ(x[i], SumOf(2, i));
        }
      },
      kElements * sizeof(double) + 4096);
}

// Elements that only this member merges stay where they are, and elements that nobody has named are not touched. Pieces
// that other members read are copied, and so are those of small values.
TEST(HostGroup, ValuesMayBeElsewhere) {
  constexpr int kRanks = 3;
  for (const int64_t elements : {int64_t{300}, int64_t{6000}, int64_t{400'000}}) {
    for (const bool own_only : {true, false}) {
      for (const bool in_arena : {true, false}) {
        ForMembers(kRanks, [&](HostGroup& group) {
          std::vector<double> other(elements);
          absl::StatusOr<HostGroup::Memory> memory = group.Allocate(elements * sizeof(double));
          ASSERT_TRUE(memory.ok()) << memory.status();
          const absl::Span<double> x(in_arena ? reinterpret_cast<double*>(memory->data) : other.data(), elements);
          for (int64_t i = 0; i < elements; ++i) x[i] = ValueOf(group.rank(), i);
          const auto [begin, count] = HostGroup::MergedPart(group.rank(), kRanks, elements, sizeof(double));
          const int64_t next = begin + count < elements ? begin + count : 0;  // of another member
          const int64_t first = own_only ? begin + 1 : next, half = count / 2;
          std::vector<double> left(x.begin() + first, x.begin() + first + half);
          std::fill(x.begin() + first, x.begin() + first + half, -1);
          std::vector<double> right(x.begin() + begin + half + 1, x.begin() + begin + count - 1);
          std::fill(x.begin() + begin + half + 1, x.begin() + begin + count - 1, -1);
          HostCall call{.operation = HostOperation::kAllReduce,
                        .key = 1,
                        .elements = elements,
                        .element_bytes = sizeof(double),
                        .values = x.data(),
                        .apart = {{first, half, left.data()},
                                  {begin + half + 1, static_cast<int64_t>(right.size()), right.data()}},
                        .merge = AddDoubles};
          ASSERT_TRUE(group.Run(call).ok()) << group.status();
          const bool in_place = own_only && elements * sizeof(double) > HostControlBlock::kInlineBytes;
          for (int64_t i = 0; i < elements; ++i) {
            bool named = !in_place;
            for (int rank = 0; rank < kRanks && !named; ++rank) {
              const auto [from, n] = HostGroup::MergedPart(rank, kRanks, elements, sizeof(double));
              named = i > from && i < from + n - 1;
            }
            if (!named) continue;
            ASSERT_EQ(x[i], SumOf(kRanks, i)) << i << " of " << elements;
          }
        });
      }
    }
  }
  ForMembers(1, [](HostGroup& group) {
    std::vector<double> x(10);
    HostCall call = CallOf(HostOperation::kAllReduce, 1, x);
    call.apart = {{5, 6, x.data()}};
    EXPECT_THAT(group.Run(call).ToString(), HasSubstr("Elements 5 to 11 of 10 cannot be elsewhere"));
  });
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

// Rank 0 gives up a step while rank 1 waits in an operation of that step, in an operation of another step, and in one
// at which all members have arrived.
TEST(HostGroup, AFailedStepEndsOthersInAWayThatTheyCanRestart) {
  ForMembers(2, [](HostGroup& group) {
    std::vector<double> x = ValuesOf(group.rank(), 1000), y = x, z = x;
    HostCall failing = CallOf(HostOperation::kAllReduce, 1, x), other = CallOf(HostOperation::kAllReduce, 2, y);
    failing.step = 7;
    other.step = 8;
    if (group.rank() == 0) {
      ASSERT_TRUE(group.Run(CallOf(HostOperation::kAllReduce, 3, z)).ok());
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
    EXPECT_TRUE(group.Run(CallOf(HostOperation::kAllReduce, 3, z)).ok());
    EXPECT_EQ(z[3], SumOf(2, 3));
    both.WaitForNotification();
    EXPECT_EQ(first, absl::InternalError("enough"));
    EXPECT_FALSE(HostGroup::MayRestart(first));
    EXPECT_TRUE(HostGroup::MayRestart(second)) << second;
    EXPECT_EQ(x, ValuesOf(1, 1000)) << "values are as they were";
    EXPECT_EQ(y, ValuesOf(1, 1000));
  });
}

TEST(HostGroup, AProcessThatDiesEndsTheWaitOfTheOthers) {
  const std::string name = NewGroupName();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto group = HostGroup::Join({.name = name, .rank = 1, .ranks = 2});
    std::vector<double> x = ValuesOf(1, 10);
    if (group.ok() && (*group)->Run(CallOf(HostOperation::kAllReduce, 1, x)).ok()) kill(getpid(), SIGKILL);
    _exit(1);
  }
  auto group = HostGroup::Join({.name = name, .rank = 0, .ranks = 2});
  ASSERT_TRUE(group.ok()) << group.status();
  std::vector<double> x = ValuesOf(0, 10);
  ASSERT_TRUE((*group)->Run(CallOf(HostOperation::kAllReduce, 1, x)).ok());
  EXPECT_EQ(x[3], SumOf(2, 3));
  const absl::Status status = (*group)->Run(CallOf(HostOperation::kAllReduce, 2, x));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  int result = 0;
  waitpid(child, &result, 0);
  EXPECT_TRUE(WIFSIGNALED(result));
}

TEST(HostGroup, WhoDoesNotJoinIsNamed) {
  const auto alone =
      HostGroup::Join({.name = NewGroupName(), .rank = 0, .ranks = 3, .timeout = absl::Milliseconds(100)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(alone.status()));
  EXPECT_THAT(alone.status().ToString(), HasSubstr("rank 1, 2 did not come in time"));
  const auto lost =
      HostGroup::Join({.name = NewGroupName(), .rank = 1, .ranks = 3, .timeout = absl::Milliseconds(100)});
  EXPECT_THAT(lost.status().ToString(), HasSubstr("rank 0 did not come in time"));
  EXPECT_FALSE(HostGroup::Join({.name = NewGroupName(), .rank = 3, .ranks = 3}).ok());
  EXPECT_FALSE(HostGroup::Join({.name = "", .rank = 0, .ranks = 1}).ok());
  EXPECT_FALSE(HostGroup::Join({.name = std::string(100, 'x'), .rank = 0, .ranks = 1}).ok());
}

TEST(HostGroup, AJoinCanBeCancelled) {
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("enough"));
  const auto group = HostGroup::Join({.name = NewGroupName(), .rank = 0, .ranks = 2, .cancellation = &cancellation});
  EXPECT_EQ(group.status(), absl::CancelledError("enough"));
}

TEST(HostGroup, MembersOfOtherGroupsAreRefused) {
  const std::string name = NewGroupName();
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
    const std::string name = NewGroupName();
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
    std::vector<double> x = ValuesOf(0, 1000);
    const absl::Status status = (*group)->Run(CallOf(HostOperation::kAllReduce, 1, x));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("Rank 1 of the group says that its values lie at ", place)));
    EXPECT_EQ(x, ValuesOf(0, 1000));
    hostile.join();
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
      std::vector<double> x = ValuesOf(group.rank(), group.rank() == 2 ? 999 : 1000);
      EXPECT_FALSE(group.Run(CallOf(HostOperation::kAllReduce, 1, x)).ok());
    });
    EXPECT_FALSE(
        HostGroup::Join({.name = NewGroupName(), .rank = 0, .ranks = 2, .timeout = absl::Milliseconds(20)}).ok());
  }
  EXPECT_EQ(Count("/proc/self/fd"), descriptors);
  EXPECT_EQ(Mappings(), mappings);
}

}  // namespace
}  // namespace thalweg
