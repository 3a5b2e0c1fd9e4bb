// SPDX-License-Identifier: Apache-2.0
// The schedule of a collective operation between hosts, as data: what each member sends and
// receives (transport/net_group.h runs it).
//
// A member's moves to one peer happen in the order of the list, and so do its moves from one peer.
// A move with `after` follows an earlier move of the same member and the same range, element by
// element: an element moves once the earlier move has moved it. A ring therefore needs no steps:
// a member passes on every piece as soon as it has merged it. A merge after a send does not wait
// for it (NetOperation::Limit() in transport/net_operation.h).
//
// Costs, for n members with B bytes each:
//   ring           2 (n - 1) messages one after the other, 2 (n - 1) / n B bytes sent by each
//   doubling       log2 n messages one after the other, B log2 n bytes sent by each
//   chain          2 (n - 1) messages one after the other, 2 B bytes sent by each
// A ring between h hosts sends 2 (h - 1) / h B bytes from each host, whatever the number of its members.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/transport/host_schedule.h"

namespace thalweg {

struct NetMove {
  enum class Kind : uint32_t {
    kSend,
    kReceive,  // replaces the values
    kMerge,    // receives and merges with the values
  } kind = Kind::kSend;
  int peer = 0;
  int64_t begin = 0;  // elements of the values; of the results for receives of kAllToAll
  int64_t count = 0;
  int after = -1;       // index of an earlier move, or -1
  bool finish = false;  // for a merge: its result is the final one, over all members

  friend bool operator==(const NetMove&, const NetMove&) = default;
};

enum class NetAlgorithm {
  kRing,      // bandwidth: for large values
  kDoubling,  // latency: for small values; recursive doubling, or a binomial tree for a broadcast
  kChain,     // like kRing, but an all-reduce merges in the order of ranks
};

struct NetPlan {
  HostOperation operation = HostOperation::kBarrier;
  NetAlgorithm algorithm = NetAlgorithm::kRing;
  int root = 0;
  int64_t begin = 0;  // first element
  int64_t elements = 0;
  int64_t alignment = 1;   // in elements, of the parts of an all-reduce
  std::vector<int> order;  // ranks in the order of the ring: see RingOrder()
};

// The moves of member `rank`. For kAllToAll the member copies its own part itself.
// REQUIRES: elements are a multiple of the ranks for operations in which members have parts.
std::vector<NetMove> ScheduleNetMoves(const NetPlan& plan, int rank);

// The ranks of each host, in ascending order; hosts in the order of their first ranks.
using RanksByHost = std::vector<std::vector<int>>;
// `hosts` has a name per rank; "" is a host of its own.
RanksByHost GroupByHost(const std::vector<std::string>& hosts);

// An order of ranks in which members of the same host are neighbours.
std::vector<int> RingOrder(const RanksByHost& by_host);

// Into how many slices values are cut that move between hosts: member k of every host moves slice k. The hosts may have
// different numbers of members.
int SlicesBetween(const RanksByHost& by_host);
// The plan for the moves of member `rank` in an operation between hosts: an all-reduce of its slice, or a broadcast
// to the first member of every host. REQUIRES: `plan` has all elements and, for a broadcast, the root.
NetPlan PlanBetweenHosts(const NetPlan& plan, const RanksByHost& by_host, int rank);

}  // namespace thalweg
