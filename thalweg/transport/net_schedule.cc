// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/net_schedule.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace thalweg {
namespace {

using Kind = NetMove::Kind;

// The moves of one member, which are added in the order in which they happen.
class NetMoves {
 public:
  struct Range {
    int64_t begin = 0;
    int64_t count = 0;
  };

  NetMoves(const NetPlan& plan, int rank) : plan_(plan), rank_(rank), ranks_(static_cast<int>(plan.order.size())) {
    position_ = static_cast<int>(std::find(plan.order.begin(), plan.order.end(), rank) - plan.order.begin());
  }

  // Ring: in step s every member sends the part that it merged in step s - 1 to the next one. After n - 1 steps the
  // member at position i has merged part i of all. In n - 1 more steps the complete parts go around once.
  void ReduceRing() {
    int previous = -1;
    for (int s = 0; s < ranks_ - 1; ++s) {
      reduce_sends_.push_back(Add(Kind::kSend, 1, Part(position_ - 1 - s), previous));
      previous = Add(Kind::kMerge, -1, Part(position_ - 2 - s), -1);
      moves_[previous].finish = s == ranks_ - 2;
    }
    merged_ = previous;
  }
  void GatherRing() {
    int previous = merged_;
    for (int s = 0; s < ranks_ - 1; ++s) {
      Add(Kind::kSend, 1, Part(position_ - s), previous);
      // The complete part replaces the partial one that was sent in the same step of the reduction.
      const int replaced = merged_ < 0 ? -1 : reduce_sends_[s];
      previous = Add(Kind::kReceive, -1, Part(position_ - 1 - s), replaced);
    }
  }

  // Recursive doubling: in round k members whose places differ in bit k exchange all values. If n is not a power of
  // two, the members beyond the largest one give their values to a partner first, and get the result from it.
  void Doubling() {
    const Range all = {plan_.begin, plan_.elements};
    int power = 1;
    while (power * 2 <= ranks_) power *= 2;
    const int extra = ranks_ - power;
    if (position_ >= power) {
      const int sent = AddTo(Kind::kSend, position_ - power, all, -1);
      AddTo(Kind::kReceive, position_ - power, all, sent);
      return;
    }
    int previous = position_ < extra ? AddTo(Kind::kMerge, position_ + power, all, -1) : -1;
    for (int bit = 1; bit < power; bit *= 2) {
      const int sent = AddTo(Kind::kSend, position_ ^ bit, all, previous);
      previous = AddTo(Kind::kMerge, position_ ^ bit, all, sent);
    }
    if (previous >= 0) moves_[previous].finish = true;
    if (position_ < extra) AddTo(Kind::kSend, position_ + power, all, previous);
  }

  // Chain in the order of ranks: the sum grows from rank 0 to the last one, which sends it back the same way.
  void Chain() {
    const Range all = {plan_.begin, plan_.elements};
    int previous = rank_ > 0 ? AddPeer(Kind::kMerge, rank_ - 1, all, -1) : -1;
    if (rank_ == ranks_ - 1) {
      if (previous >= 0) moves_[previous].finish = true;
    } else {
      const int sent = AddPeer(Kind::kSend, rank_ + 1, all, previous);
      previous = AddPeer(Kind::kReceive, rank_ + 1, all, sent);
    }
    if (rank_ > 0) AddPeer(Kind::kSend, rank_ - 1, all, previous);
  }

  // Broadcast along the ring from the root.
  void BroadcastRing() {
    const Range all = {plan_.begin, plan_.elements};
    const int root = PositionOf(plan_.root);
    const int distance = (position_ + ranks_ - root) % ranks_;
    const int received = distance > 0 ? Add(Kind::kReceive, -1, all, -1) : -1;
    if (distance < ranks_ - 1) Add(Kind::kSend, 1, all, received);
  }

  // Binomial tree: in round k the first 2^k members behind the root each send to the one 2^k places further on.
  void BroadcastTree() {
    const Range all = {plan_.begin, plan_.elements};
    const int root = PositionOf(plan_.root);
    const int distance = (position_ + ranks_ - root) % ranks_;
    int received = -1;
    for (int reach = 1; reach < ranks_; reach *= 2) {
      if (distance < reach && distance + reach < ranks_) {
        AddTo(Kind::kSend, (position_ + reach) % ranks_, all, received);
      } else if (distance >= reach && distance < 2 * reach) {
        received = AddTo(Kind::kReceive, (position_ + ranks_ - reach) % ranks_, all, -1);
      }
    }
  }

  // Every member begins with another peer, so that no member receives from all at once.
  void AllToAll() {
    const int64_t part = plan_.elements / ranks_;
    for (int i = 1; i < ranks_; ++i) {
      const int to = plan_.order[(position_ + i) % ranks_], from = plan_.order[(position_ + ranks_ - i) % ranks_];
      AddPeer(Kind::kSend, to, {to * part, part}, -1);
      AddPeer(Kind::kReceive, from, {from * part, part}, -1);
    }
  }

  // Moves of no elements are left out; no other move follows one of them.
  std::vector<NetMove> Take() {
    std::vector<int> place(moves_.size(), -1);
    std::vector<NetMove> kept;
    for (size_t i = 0; i < moves_.size(); ++i) {
      NetMove& move = moves_[i];
      if (move.count == 0) continue;
      if (move.after >= 0) move.after = place[move.after];
      place[i] = static_cast<int>(kept.size());
      kept.push_back(move);
    }
    return kept;
  }

 private:
  int PositionOf(int rank) const {
    return static_cast<int>(std::find(plan_.order.begin(), plan_.order.end(), rank) - plan_.order.begin());
  }
  // The part of the member at a position, which may lie outside of 0 to n - 1.
  Range Part(int position) const {
    const int at = ((position % ranks_) + ranks_) % ranks_;
    if (plan_.operation != HostOperation::kAllReduce) {
      const int64_t part = plan_.elements / ranks_;
      return {plan_.order[at] * part, part};
    }
    const auto [begin, count] = MergedPart(at, ranks_, plan_.elements, plan_.alignment);
    return {plan_.begin + begin, count};
  }
  int Add(Kind kind, int step, Range range, int after) {
    return AddTo(kind, (position_ + ranks_ + step) % ranks_, range, after);
  }
  int AddTo(Kind kind, int position, Range range, int after) {
    return AddPeer(kind, plan_.order[position], range, after);
  }
  int AddPeer(Kind kind, int peer, Range range, int after) {
    moves_.push_back({.kind = kind, .peer = peer, .begin = range.begin, .count = range.count, .after = after});
    return static_cast<int>(moves_.size()) - 1;
  }

  const NetPlan& plan_;
  const int rank_, ranks_;
  int position_ = 0;
  std::vector<int> reduce_sends_;
  int merged_ = -1;
  std::vector<NetMove> moves_;
};

}  // namespace

std::vector<NetMove> ScheduleNetMoves(const NetPlan& plan, int rank) {
  NetMoves moves(plan, rank);
  switch (plan.operation) {
    case HostOperation::kAllReduce:
      if (plan.algorithm == NetAlgorithm::kDoubling) {
        moves.Doubling();
      } else if (plan.algorithm == NetAlgorithm::kChain) {
        moves.Chain();
      } else {
        moves.ReduceRing();
        moves.GatherRing();
      }
      break;
    case HostOperation::kReduceScatter:
      moves.ReduceRing();
      break;
    case HostOperation::kAllGather:
      moves.GatherRing();
      break;
    case HostOperation::kBroadcast:
      if (plan.algorithm == NetAlgorithm::kDoubling) {
        moves.BroadcastTree();
      } else {
        moves.BroadcastRing();
      }
      break;
    case HostOperation::kAllToAll:
      moves.AllToAll();
      break;
    case HostOperation::kBarrier:
    case HostOperation::kReduceSlices:  // these two run on one host only
    case HostOperation::kGatherSlices:
      break;
  }
  return moves.Take();
}

RanksByHost GroupByHost(const std::vector<std::string>& hosts) {
  RanksByHost by_host;
  std::map<std::string, size_t> places;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [place, is_new] = places.emplace(hosts[rank], by_host.size());
    if (is_new || hosts[rank].empty()) {
      by_host.push_back({static_cast<int>(rank)});
    } else {
      by_host[place->second].push_back(static_cast<int>(rank));
    }
  }
  return by_host;
}

std::vector<int> RingOrder(const RanksByHost& by_host) {
  std::vector<int> order;
  for (const std::vector<int>& ranks : by_host) order.insert(order.end(), ranks.begin(), ranks.end());
  return order;
}

int SlicesBetween(const RanksByHost& by_host) {
  size_t slices = by_host.empty() ? 1 : by_host[0].size();
  for (const std::vector<int>& ranks : by_host) slices = std::min(slices, ranks.size());
  return static_cast<int>(slices);
}

NetPlan PlanBetweenHosts(const NetPlan& plan, const RanksByHost& by_host, int rank) {
  const auto has = [](const std::vector<int>& ranks, int wanted) {
    return std::find(ranks.begin(), ranks.end(), wanted) != ranks.end();
  };
  const bool reduces = plan.operation == HostOperation::kAllReduce;
  const int slices = reduces ? SlicesBetween(by_host) : 1;
  NetPlan own = plan;
  for (int k = 0; k < slices; ++k) {
    own.order.clear();
    for (const std::vector<int>& ranks : by_host) {
      own.order.push_back(!reduces && has(ranks, plan.root) ? plan.root : ranks[k]);
    }
    if (!has(own.order, rank)) continue;
    if (reduces) std::tie(own.begin, own.elements) = MergedPart(k, slices, plan.elements, plan.alignment);
    return own;
  }
  own.order = {rank};  // moves nothing
  own.root = rank;
  own.elements = 0;
  return own;
}

}  // namespace thalweg
