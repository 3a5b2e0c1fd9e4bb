// SPDX-License-Identifier: Apache-2.0
// The schedule of a collective operation on one host, as data: the moves of each member.
//
// All members see the memory of all others. An operation has two phases: once every
// member has published its values, each makes its moves; once all have, the results are
// complete. A move reads a range of values of one or more members, merges them in the order of
// ranks, and writes the result to one or more members. No move writes a range that another
// member reads, so that no temporary copies are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace thalweg {

enum class HostOperation : uint32_t {
  kAllReduce = 1,  // every member gets the merged values of all
  kReduceScatter,  // member r gets part r of n of the merged values
  kAllGather,      // member r gives part r; every member gets all parts
  kBroadcast,      // every member gets the root's values
  kAllToAll,       // part p of member r's values becomes part r of member p's results
  kBarrier,        // nothing moves
  // Only on one host, as steps of operations on several (transport/two_level.h).
  kReduceSlices,  // member k of the first few gets slice k of the merged values
  kGatherSlices,  // every member gets slice k from member k
};

struct HostMove {
  std::vector<int> from;  // ranks, ascending; several are merged
  int64_t begin = 0;      // the first element that is read, the same in all of `from`
  int64_t count = 0;
  struct Target {
    int rank = 0;
    int64_t begin = 0;  // the first element that is written, in the results of `rank`
    friend bool operator==(const Target&, const Target&) = default;
  };
  std::vector<Target> to;
};

// The part of an all-reduce that member `rank` of `ranks` merges, or slice `rank` of `ranks`: its first element, and
// their number.
std::pair<int64_t, int64_t> MergedPart(int rank, int ranks, int64_t elements, int64_t alignment);

// The moves of member `rank` of `ranks`, each of which has `elements` values. Results replace the
// values, except for kAllToAll. `root` is the source of a broadcast. Parts of an all-reduce, and slices, begin
// at multiples of `alignment` elements.
// REQUIRES: elements are a multiple of `ranks` for operations in which members have parts; 0 < slices <= ranks for
// those with slices.
std::vector<HostMove> ScheduleHostMoves(HostOperation operation, int rank, int ranks, int root, int64_t elements,
                                        int64_t alignment, int slices = 0);

}  // namespace thalweg
