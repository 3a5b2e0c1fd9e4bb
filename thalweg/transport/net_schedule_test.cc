// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/net_schedule.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace thalweg {
namespace {

using Kind = NetMove::Kind;
using testing::ElementsAre;

// An element: the members' elements from which it was merged, and how they were. A merge is commutative, but not
// associative.
struct NetElement {
  std::vector<std::pair<int, int64_t>> parts;  // sorted
  std::string sum;

  static NetElement Of(int rank, int64_t i) { return {{{rank, i}}, std::to_string(rank)}; }
  NetElement Plus(const NetElement& other) const {
    NetElement merged{parts, "(" + std::min(sum, other.sum) + "+" + std::max(sum, other.sum) + ")"};
    merged.parts.insert(merged.parts.end(), other.parts.begin(), other.parts.end());
    std::sort(merged.parts.begin(), merged.parts.end());
    return merged;
  }
  friend bool operator==(const NetElement&, const NetElement&) = default;
};

// Members that follow their schedules, element by element, with queues in place of connections. Elements move in an
// order that `seed` decides.
class Simulation {
 public:
  // With `by_host`, an operation between these hosts.
  Simulation(const NetPlan& plan, unsigned seed, const RanksByHost* by_host = nullptr)
      : plan_(plan), ranks_(static_cast<int>(plan.order.size())) {
    unsigned next = seed;
    for (int rank = 0; rank < ranks_; ++rank) {
      Member& member = members_.emplace_back();
      for (int64_t i = 0; i < plan.elements; ++i) member.values.push_back(NetElement::Of(rank, i));
      member.results = member.values;
      const NetPlan own = by_host == nullptr ? plan : PlanBetweenHosts(plan, *by_host, rank);
      for (const NetMove& move : ScheduleNetMoves(own, rank)) member.moves.push_back({move, 0});
    }
    for (bool any = true; any;) {
      any = false;
      for (int i = 0; i < ranks_; ++i) {
        next = next * 1103515245 + 12345;
        const int rank = static_cast<int>((next >> 16) % ranks_);
        any = Advance(rank) || any;
      }
      for (int rank = 0; rank < ranks_ && !any; ++rank) any = Advance(rank);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const Progress& move : members_[rank].moves) EXPECT_EQ(move.done, move.what.count) << "rank " << rank;
    }
    for (const auto& [ends, queue] : queues_) EXPECT_TRUE(queue.empty());
  }

  const std::vector<NetElement>& results(int rank) const {
    return plan_.operation == HostOperation::kAllToAll ? members_[rank].results : members_[rank].values;
  }
  int finished(int rank, int64_t i) const {
    const auto it = members_[rank].finished.find(i);
    return it == members_[rank].finished.end() ? 0 : it->second;
  }
  int64_t sent(int rank) const {
    int64_t sum = 0;
    for (const Progress& move : members_[rank].moves) sum += move.what.kind == Kind::kSend ? move.what.count : 0;
    return sum;
  }

 private:
  struct Progress {
    NetMove what;
    int64_t done = 0;
  };
  struct Member {
    std::vector<NetElement> values, results;
    std::vector<Progress> moves;
    std::map<int64_t, int> finished;
  };

  // Moves one element of every move of a member that can go on.
  bool Advance(int rank) {
    Member& member = members_[rank];
    bool any = false;
    std::map<std::pair<bool, int>, bool> busy;  // one move at a time to a peer, and from it
    for (Progress& move : member.moves) {
      const bool sends = move.what.kind == Kind::kSend;
      if (move.done == move.what.count || busy[{sends, move.what.peer}]) continue;
      busy[{sends, move.what.peer}] = true;
      if (move.what.after >= 0) {
        const Progress& before = member.moves[move.what.after];
        EXPECT_EQ(before.what.begin, move.what.begin);
        EXPECT_EQ(before.what.count, move.what.count);
        if (before.done <= move.done) continue;
      }
      const int64_t at = move.what.begin + move.done;
      if (sends) {
        queues_[{rank, move.what.peer}].push_back(member.values[at]);
      } else {
        auto& queue = queues_[{move.what.peer, rank}];
        if (queue.empty()) continue;
        const NetElement element = queue.front();
        queue.pop_front();
        if (move.what.kind == Kind::kMerge) {
          NetElement& into = member.values[at];
          into = into.Plus(element);
          member.finished[at] += move.what.finish;
        } else {
          (plan_.operation == HostOperation::kAllToAll ? member.results : member.values)[at] = element;
        }
      }
      ++move.done;
      any = true;
    }
    return any;
  }

  const NetPlan& plan_;
  const int ranks_;
  std::vector<Member> members_;
  std::map<std::pair<int, int>, std::deque<NetElement>> queues_;
};

// The elements of all members, merged in the order of ranks.
NetElement Everyone(int ranks, int64_t i) {
  NetElement all = NetElement::Of(0, i);
  for (int rank = 1; rank < ranks; ++rank) all = all.Plus(NetElement::Of(rank, i));
  return all;
}

NetPlan PlanFor(HostOperation operation, NetAlgorithm algorithm, int ranks, int64_t elements, bool reversed) {
  NetPlan plan{.operation = operation, .algorithm = algorithm, .root = ranks - 1, .elements = elements, .alignment = 4};
  plan.order.resize(ranks);
  std::iota(plan.order.begin(), plan.order.end(), 0);
  if (reversed) std::reverse(plan.order.begin(), plan.order.end());
  return plan;
}

TEST(NetSchedule, EveryResultComesFromTheRightValues) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const int64_t each : {0, 1, 6}) {
      for (const NetAlgorithm algorithm : {NetAlgorithm::kRing, NetAlgorithm::kDoubling, NetAlgorithm::kChain}) {
        for (const HostOperation operation :
             {HostOperation::kAllReduce, HostOperation::kReduceScatter, HostOperation::kAllGather,
              HostOperation::kBroadcast, HostOperation::kAllToAll, HostOperation::kBarrier}) {
          for (const unsigned seed : {1, 2}) {
            const int64_t elements = each * ranks;
            const NetPlan plan = PlanFor(operation, algorithm, ranks, elements, seed % 2 == 0);
            SCOPED_TRACE(testing::Message() << static_cast<int>(operation) << " by " << static_cast<int>(algorithm)
                                            << " with " << elements << " elements of " << ranks << ", seed " << seed);
            const Simulation simulation(plan, seed);
            for (int rank = 0; rank < ranks; ++rank) {
              const std::vector<NetElement>& results = simulation.results(rank);
              for (int64_t i = 0; i < elements; ++i) {
                const int part = static_cast<int>(i / each);
                switch (operation) {
                  case HostOperation::kAllReduce:
                    ASSERT_EQ(results[i].parts, Everyone(ranks, i).parts);
                    ASSERT_EQ(results[i].sum, simulation.results(0)[i].sum) << "all merge in the same order";
                    break;
                  case HostOperation::kReduceScatter:
                    if (part == rank) {
                      ASSERT_EQ(results[i].parts, Everyone(ranks, i).parts);
                    }
                    if (part == rank && ranks > 1) {
                      ASSERT_EQ(simulation.finished(rank, i), 1);
                    }
                    break;
                  case HostOperation::kAllGather:
                    ASSERT_TRUE(results[i] == NetElement::Of(part, i));
                    break;
                  case HostOperation::kBroadcast:
                    ASSERT_TRUE(results[i] == NetElement::Of(ranks - 1, i));
                    break;
                  case HostOperation::kAllToAll:
                    if (part != rank) {
                      ASSERT_TRUE(results[i] == NetElement::Of(part, rank * each + i % each));
                    }
                    break;
                  case HostOperation::kBarrier:
                  case HostOperation::kReduceSlices:
                  case HostOperation::kGatherSlices:
                    break;
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(NetSchedule, AnAllReduceIsFinishedOnce) {
  for (const int ranks : {2, 3, 4, 6}) {
    for (const NetAlgorithm algorithm : {NetAlgorithm::kRing, NetAlgorithm::kDoubling, NetAlgorithm::kChain}) {
      const NetPlan plan = PlanFor(HostOperation::kAllReduce, algorithm, ranks, 50, false);
      const Simulation simulation(plan, 1);
      for (int64_t i = 0; i < 50; ++i) {
        int finished = 0;
        for (int rank = 0; rank < ranks; ++rank) finished += simulation.finished(rank, i);
        // In recursive doubling each member that takes part in the last round merges by itself.
        int power = 1;
        while (power * 2 <= ranks) power *= 2;
        EXPECT_EQ(finished, algorithm == NetAlgorithm::kDoubling ? power : 1);
      }
    }
  }
}

TEST(NetSchedule, AChainMergesInTheOrderOfRanks) {
  const NetPlan plan = PlanFor(HostOperation::kAllReduce, NetAlgorithm::kChain, 5, 30, true);
  const Simulation simulation(plan, 7);
  for (int rank = 0; rank < 5; ++rank) {
    for (int64_t i = 0; i < 30; ++i) EXPECT_EQ(simulation.results(rank)[i].sum, Everyone(5, i).sum);
  }
}

TEST(NetSchedule, ARingSendsNoMoreThanItsFormulaSays) {
  for (const int ranks : {2, 3, 4, 8}) {
    const int64_t elements = 4 * ranks * 8;
    const NetPlan plan = PlanFor(HostOperation::kAllReduce, NetAlgorithm::kRing, ranks, elements, false);
    const Simulation simulation(plan, 1);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(simulation.sent(rank), 2 * (ranks - 1) * elements / ranks);
      EXPECT_EQ(ScheduleNetMoves(plan, rank).size(), static_cast<size_t>(4 * (ranks - 1)));
    }
  }
}

TEST(NetSchedule, MembersOfOneHostAreNeighbours) {
  EXPECT_THAT(RingOrder(GroupByHost({"a", "b", "a", "c", "b"})), ElementsAre(0, 2, 1, 4, 3));
  EXPECT_THAT(GroupByHost({"", "a", "", "a"}), ElementsAre(ElementsAre(0), ElementsAre(1, 3), ElementsAre(2)));
  EXPECT_THAT(RingOrder(GroupByHost({"a"})), ElementsAre(0));
}

// Between hosts, member k of every host merges slice k with the others', or passes on what the root sends.
TEST(NetSchedule, BetweenHostsEverySliceHasItsOwnMembers) {
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "a", "b", "b"}, {"a", "b", "a", "b", "b"}, {"a", "b", "b", "c", "c", "c"}}) {
    const auto ranks = static_cast<int>(hosts.size());
    const RanksByHost by_host = GroupByHost(hosts);
    const int slices = SlicesBetween(by_host);
    for (const NetAlgorithm algorithm : {NetAlgorithm::kRing, NetAlgorithm::kDoubling}) {
      for (const int64_t elements : {1, 50, 1000}) {
        SCOPED_TRACE(testing::Message() << ranks << " members, " << elements << " elements");
        NetPlan all{
            .operation = HostOperation::kAllReduce, .algorithm = algorithm, .elements = elements, .alignment = 4};
        all.order = RingOrder(by_host);
        const Simulation simulation(all, 3, &by_host);
        for (int k = 0; k < slices; ++k) {
          const auto [begin, count] = MergedPart(k, slices, elements, all.alignment);
          for (int64_t i = begin; i < begin + count; ++i) {
            NetElement sum = NetElement::Of(by_host[0][k], i);
            for (size_t host = 1; host < by_host.size(); ++host) sum = sum.Plus(NetElement::Of(by_host[host][k], i));
            for (const std::vector<int>& on_host : by_host) {
              EXPECT_EQ(simulation.results(on_host[k])[i].parts, sum.parts);
              for (const int rank : on_host) {
                if (rank == on_host[k]) continue;
                EXPECT_EQ(simulation.results(rank)[i], NetElement::Of(rank, i));
              }
            }
          }
        }
        for (int root = 0; root < ranks; ++root) {
          all.operation = HostOperation::kBroadcast;
          all.root = root;
          const Simulation broadcast(all, 4, &by_host);
          for (const std::vector<int>& on_host : by_host) {
            const bool has_root = std::find(on_host.begin(), on_host.end(), root) != on_host.end();
            for (const int rank : on_host) {
              const bool has_values = has_root ? rank == root : rank == on_host[0];
              EXPECT_EQ(broadcast.results(rank)[0], NetElement::Of(has_values ? root : rank, 0));
            }
          }
        }
      }
    }
  }
}

TEST(NetSchedule, AHostSendsNoMoreIfItHasMoreMembers) {
  for (const int members : {1, 2, 4}) {
    for (const int n : {2, 3}) {
      std::vector<std::string> hosts;
      for (int i = 0; i < n * members; ++i) hosts.push_back(absl::StrCat(i % n));
      const RanksByHost by_host = GroupByHost(hosts);
      const int64_t elements = int64_t{4} * 6 * 8;
      NetPlan plan{.operation = HostOperation::kAllReduce, .elements = elements, .alignment = 4};
      plan.order = RingOrder(by_host);
      const Simulation simulation(plan, 1, &by_host);
      for (const std::vector<int>& on_host : by_host) {
        int64_t sent = 0;
        for (const int rank : on_host) sent += simulation.sent(rank);
        EXPECT_EQ(sent, 2 * (n - 1) * elements / n);
      }
    }
  }
}

}  // namespace
}  // namespace thalweg
