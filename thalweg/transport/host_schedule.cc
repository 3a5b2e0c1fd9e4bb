// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/host_schedule.h"

#include <algorithm>
#include <numeric>

namespace thalweg {
namespace {

std::vector<int> AllRanks(int ranks) {
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// To the same place of all members: every writer begins with another one, so that they do not
// meet in one memory.
std::vector<HostMove::Target> ToAll(int rank, int ranks, int64_t begin, bool own) {
  std::vector<HostMove::Target> targets;
  for (int i = own ? 0 : 1; i < ranks; ++i) targets.push_back({(rank + i) % ranks, begin});
  return targets;
}

}  // namespace

std::pair<int64_t, int64_t> MergedPart(int rank, int ranks, int64_t elements, int64_t alignment) {
  const int64_t each = (elements + ranks - 1) / ranks;
  const int64_t aligned = (each + alignment - 1) / alignment * alignment;
  const int64_t begin = std::min(elements, rank * aligned);
  return {begin, std::min(elements, begin + aligned) - begin};
}

std::vector<HostMove> ScheduleHostMoves(HostOperation operation, int rank, int ranks, int root, int64_t elements,
                                        int64_t alignment, int slices) {
  const int64_t part = elements / ranks;
  std::vector<HostMove> moves;
  switch (operation) {
    case HostOperation::kAllReduce: {
      const auto [begin, count] = MergedPart(rank, ranks, elements, alignment);
      moves.push_back({AllRanks(ranks), begin, count, ToAll(rank, ranks, begin, /*own=*/true)});
      break;
    }
    case HostOperation::kReduceScatter:
      moves.push_back({AllRanks(ranks), rank * part, part, {{rank, rank * part}}});
      break;
    case HostOperation::kAllGather:
      moves.push_back({{rank}, rank * part, part, ToAll(rank, ranks, rank * part, /*own=*/false)});
      break;
    case HostOperation::kBroadcast:
      // Everyone fetches: the root's memory feeds all at once.
      if (rank != root) moves.push_back({{root}, 0, elements, {{rank, 0}}});
      break;
    case HostOperation::kAllToAll:
      for (int i = 0; i < ranks; ++i) {
        const int to = (rank + i) % ranks;
        moves.push_back({{rank}, to * part, part, {{to, rank * part}}});
      }
      break;
    case HostOperation::kBarrier:
      break;
    case HostOperation::kReduceSlices: {
      // Everyone merges as many elements as in an all-reduce, whatever the number of slices.
      const auto [begin, count] = MergedPart(rank, ranks, elements, alignment);
      for (int k = 0; k < slices; ++k) {
        const auto [slice, size] = MergedPart(k, slices, elements, alignment);
        const int64_t first = std::max(begin, slice), last = std::min(begin + count, slice + size);
        if (first < last) moves.push_back({AllRanks(ranks), first, last - first, {{k, first}}});
      }
      break;
    }
    case HostOperation::kGatherSlices:
      for (int i = 1; i <= slices; ++i) {
        const int k = (rank + i) % slices;
        const auto [begin, count] = MergedPart(k, slices, elements, alignment);
        if (k != rank) moves.push_back({{k}, begin, count, {{rank, begin}}});
      }
      break;
  }
  std::erase_if(moves, [](const HostMove& move) { return move.count == 0 || move.to.empty(); });
  return moves;
}

}  // namespace thalweg
