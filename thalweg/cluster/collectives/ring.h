// SPDX-License-Identifier: Apache-2.0
// All-reduce and all-gather around a ring.
//
// The tensor is cut into as many chunks as there are members. In the first pass
// chunk c starts at member c and goes around once: every member merges the chunk that it
// receives into its own values and sends the result on, so that after n - 1 steps
// member c - 1 has the whole sum of chunk c. In the second pass the sums go
// around. Every member sends and receives 2 (n - 1) / n of the tensor, whatever
// n is, all at the same time. (Patarasuk and Yuan, "Bandwidth
// optimal all-reduce algorithms", 2009.) A gather is the second pass alone.
//
// Chunks may be subdivided. Each subdivision goes around a ring of its own through the same
// tasks, so that tasks with several devices use all of them to send. Chunks, rings and keys are
// TensorFlow's, since other members may be TensorFlow tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/cluster/collectives/links.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Merges n elements of `from` into those of `into`.
using MergeFn = void (*)(void* into, const void* from, int64_t n);
// Finishes the n elements of a chunk that all members have been merged into.
using FinishFn = void (*)(void* values, int64_t n, int members);

// The ranks of each subdivision's ring, in order. The offset of a subdivision rotates the members
// within each task; a negative offset reverses them first. Ranks are ordered by task.
std::vector<std::vector<int>> MakeRings(const std::vector<int>& members_per_task, const std::vector<int>& offsets);

// Chooses the offsets for a tensor of `bytes` bytes whose op names none, so that chunks have at
// most 4 MB if `max_per_device` subdivisions allow it. max_per_device -1 means one.
std::vector<int> SubdivisionOffsets(int members, int tasks, int64_t bytes, int max_per_device);

struct RingCall {
  std::string key;  // prefix of the keys of all transfers
  int rank = 0;     // rank of this member
  std::vector<std::vector<int>> rings;
  // This member's values, which the result replaces. For a gather: the values of all members by
  // rank, of which this member's are set. No other code may write to it meanwhile.
  Tensor values;
  MergeFn merge = nullptr;    // nullptr for a gather
  FinishFn finish = nullptr;  // may be nullptr
};

// Runs this member's part. REQUIRES: elements have a fixed size. A gather has one ring, and its
// number of elements is a multiple of the number of members.
void RunRing(RingCall call, std::shared_ptr<Links> links, Links::Done done);

}  // namespace thalweg
