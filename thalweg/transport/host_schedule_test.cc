// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/host_schedule.h"

#include <map>
#include <set>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

constexpr HostOperation kAll[] = {HostOperation::kAllReduce, HostOperation::kReduceScatter, HostOperation::kAllGather,
                                  HostOperation::kBroadcast, HostOperation::kAllToAll,      HostOperation::kBarrier};

// Which elements (member, index) a result element is made from, if all members follow the schedule.
using Element = std::pair<int, int64_t>;
using Sources = std::map<Element, std::vector<Element>>;

Sources Follow(HostOperation operation, int ranks, int root, int64_t elements, int slices = 0) {
  Sources written;
  std::map<Element, int> reader;  // the member that reads an element for others
  const bool in_place = operation != HostOperation::kAllToAll;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const HostMove& move : ScheduleHostMoves(operation, rank, ranks, root, elements, 16, slices)) {
      for (int64_t i = 0; i < move.count; ++i) {
        std::vector<Element> from;
        for (const int source : move.from) from.push_back({source, move.begin + i});
        for (const HostMove::Target& target : move.to) {
          const bool is_new = written.emplace(Element{target.rank, target.begin + i}, from).second;
          EXPECT_TRUE(is_new) << "element " << target.begin + i << " of " << target.rank << " is written twice";
        }
        for (const Element& element : from) reader.emplace(element, rank);
      }
    }
  }
  if (!in_place) return written;
  // Only the member that reads an element may write to it, after it has read it.
  for (int rank = 0; rank < ranks; ++rank) {
    for (const HostMove& move : ScheduleHostMoves(operation, rank, ranks, root, elements, 16, slices)) {
      for (const HostMove::Target& target : move.to) {
        for (int64_t i = 0; i < move.count; ++i) {
          const auto it = reader.find({target.rank, target.begin + i});
          if (it != reader.end()) {
            EXPECT_EQ(it->second, rank);
          }
        }
      }
    }
  }
  return written;
}

TEST(HostSchedule, EveryResultComesFromTheRightValues) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const int64_t each : {0, 1, 5, 64, 100}) {
      const int64_t elements = each * ranks;
      for (const HostOperation operation : kAll) {
        const int root = ranks - 1;
        Sources expected;
        for (int rank = 0; rank < ranks; ++rank) {
          for (int64_t i = 0; i < elements; ++i) {
            std::vector<Element> all;
            for (int other = 0; other < ranks; ++other) all.push_back({other, i});
            const int part = static_cast<int>(i / each);
            switch (operation) {
              case HostOperation::kAllReduce:
                expected[{rank, i}] = all;
                break;
              case HostOperation::kReduceScatter:
                if (part == rank) expected[{rank, i}] = all;
                break;
              case HostOperation::kAllGather:
                if (part != rank) expected[{rank, i}] = {{part, i}};
                break;
              case HostOperation::kBroadcast:
                if (rank != root) expected[{rank, i}] = {{root, i}};
                break;
              case HostOperation::kAllToAll:
                expected[{rank, i}] = {{part, rank * each + i % each}};
                break;
              case HostOperation::kBarrier:
              case HostOperation::kReduceSlices:
              case HostOperation::kGatherSlices:
                break;
            }
          }
        }
        EXPECT_EQ(Follow(operation, ranks, root, elements), expected)
            << static_cast<int>(operation) << " of " << ranks << " members with " << elements << " elements";
      }
    }
  }
}

TEST(HostSchedule, TheFirstMembersGetASliceEach) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (int slices = 1; slices <= ranks; ++slices) {
      for (const int64_t elements : {0, 1, 16, 100, 1000}) {
        SCOPED_TRACE(testing::Message() << elements << " elements in " << slices << " slices of " << ranks);
        Sources reduced, gathered;
        for (int k = 0; k < slices; ++k) {
          const auto [begin, count] = MergedPart(k, slices, elements, 16);
          for (int64_t i = begin; i < begin + count; ++i) {
            for (int rank = 0; rank < ranks; ++rank) {
              reduced[{k, i}].push_back({rank, i});
              if (rank != k) gathered[{rank, i}] = {{k, i}};
            }
          }
        }
        EXPECT_EQ(Follow(HostOperation::kReduceSlices, ranks, 0, elements, slices), reduced);
        EXPECT_EQ(Follow(HostOperation::kGatherSlices, ranks, 0, elements, slices), gathered);
      }
    }
  }
}

TEST(HostSchedule, AnAllReduceIsSharedEvenly) {
  for (const int64_t elements : {1, 15, 16, 17, 1000, 1001}) {
    Follow(HostOperation::kAllReduce, 4, 0, elements);
    int64_t sum = 0;
    for (int rank = 0; rank < 4; ++rank) {
      for (const HostMove& move : ScheduleHostMoves(HostOperation::kAllReduce, rank, 4, 0, elements, 16)) {
        EXPECT_EQ(move.begin % 16, 0);
        EXPECT_LE(move.count, (elements + 3) / 4 + 15);
        sum += move.count;
      }
    }
    EXPECT_EQ(sum, elements);
  }
}

}  // namespace
}  // namespace thalweg
