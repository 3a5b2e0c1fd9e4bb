// SPDX-License-Identifier: Apache-2.0
// Reduce and gather around a ring.
//
// The tensor is cut into as many chunks as there are members. In the first pass
// chunk c starts at member c and goes once round: every member merges what it
// gets into its own values and sends the result on, so that after n - 1 steps
// member c - 1 has the whole sum of chunk c. In the second pass the sums go
// round. Every member sends and receives 2 (n - 1) / n of the tensor, whatever
// n is, and all of them at the same time. (Patarasuk and Yuan, "Bandwidth
// optimal all-reduce algorithms", 2009.) A gather is the second pass alone.
//
// Chunks may be subdivided, each subdivision going round a ring of its own
// through the same tasks: with several devices in a task they leave it by
// different ones. Chunks, rings and keys are those of TensorFlow, which may be
// on the other side.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/cluster/collectives/links.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Merges n elements of a chunk into those of this member.
using MergeFn = void (*)(void* into, const void* from, int64_t n);
// What is done to the n elements of a chunk once all members are in it.
using FinishFn = void (*)(void* values, int64_t n, int members);

// One ring for every subdivision: the ranks in its order. An offset says by how
// much the members within each task are rotated; a negative one, after having
// been reversed. Ranks go by task.
std::vector<std::vector<int>> MakeRings(const std::vector<int>& members_per_task, const std::vector<int>& offsets);

// The offsets for a tensor of so many bytes whose op names none. Chunks are to
// be at most 4 MB, as far as `max_per_device` subdivisions allow; -1: one.
std::vector<int> SubdivisionOffsets(int members, int tasks, int64_t bytes, int max_per_device);

struct RingCall {
  std::string key;  // that of every transfer begins with it
  int rank = 0;     // this member's
  std::vector<std::vector<int>> rings;
  // This member's values, and the result. For a gather: room for the values of
  // all, by rank, with its own in their place. Nobody else may write to it.
  Tensor values;
  MergeFn merge = nullptr;    // nullptr: a gather
  FinishFn finish = nullptr;  // may be missing
};

// This member's part. REQUIRES: elements of a fixed size; for a gather, one ring
// and a multiple of the number of members.
void RunRing(RingCall call, std::shared_ptr<Links> links, Links::Done done);

}  // namespace thalweg
