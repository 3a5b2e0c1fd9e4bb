// SPDX-License-Identifier: Apache-2.0
// The interface through which collective ops (all-reduce, gather, broadcast) reach the
// task they run in. The task exchanges data with the other members of the group. A step
// has a Collectives in its resources if its graph contains such ops.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Numbered as on the wire. TensorFlow has no barrier.
enum class CollectiveKind {
  kReduce = 0,
  kBroadcast = 1,
  kGather = 2,
  kAllToAll = 4,
  kReduceScatter = 5,
  kBarrier = 100
};

// The attribute of nodes that have their instance key as an input, which is this constant.
inline constexpr char kInstanceKeyAttr[] = "_instance_key";

// Memory that a member shares with the other members of its group.
struct SharedValues {
  Tensor values;
  // In an all-reduce, nobody but this member reads its values of these elements. See CollectiveCall::apart.
  int64_t own_begin = 0, own_end = 0;
};

// One member's part in one collective. Members find each other by the keys.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kReduce;
  std::string node;
  Device* device = nullptr;  // the member
  int32_t group_key = 0;
  int32_t group_size = 0;
  int32_t instance_key = 0;
  uint64_t frame = 0;
  int64_t iteration = 0;
  bool is_source = false;  // whether this member is the source of a broadcast
  // Reduce: this member's values, replaced by the result.
  // Broadcast: the source's value or, for the others, memory for it.
  // Gather: memory for the values of all members.
  // All-to-all: memory for the parts of all members.
  // Reduce-scatter: this member's values, which are overwritten.
  // Barrier: one element, which has no meaning.
  Tensor values;
  // Reduce: elements of this member that are here, from element `begin` of `values` on, instead of there. If they are
  // all of SharedValues' own elements that have a meaning, they are read in place. Otherwise they are copied.
  struct Apart {
    int64_t begin = 0;
    Tensor elements;
  };
  std::vector<Apart> apart;
  // Gather: this member's values. All-to-all: this member's parts for each member. Reduce-scatter: memory for this
  // member's part of the result.
  Tensor own;
  int expected_rank = -1;  // unless it is -1, the run fails if this member's rank is another one
  std::vector<int> subdivision_offsets;
  int max_subdivisions_per_device = -1;
  absl::Duration timeout = absl::InfiniteDuration();
  void (*merge)(void* into, const void* from, int64_t n) = nullptr;
  void (*finish)(void* values, int64_t n, int members) = nullptr;
  uint32_t reduction = 0;   // names merge and finish: all members must have the same
  bool rank_order = false;  // merge in the order of ranks; the same for all members
};

// Collectives that end before they are complete: see Collectives::End().
struct EndCollectives {
  int32_t group_key = 0;
  int32_t first_instance = 0, last_instance = 0;  // inclusive
  std::string why;
  // The steps of other members fail, too, be it in a collective or because they wait for this task. The group's key
  // must not be used again. Without it the other members must be told in the same way.
  bool tell_members = false;
};

// Thread-safe.
class Collectives : public Resource {
 public:
  static constexpr char kName[] = "collectives";
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // A tensor, without initialized elements, in memory that this member shares with the other members of a group, which
  // read it and write to it in Run() without a copy. nullopt if the group has no such memory, or does not have it yet.
  virtual std::optional<SharedValues> AllocateShared(int32_t group_key, const Device& device, DType dtype,
                                                     const Shape& shape) {
    return std::nullopt;
  }
  // Calls `done` exactly once: when the result is complete and the peers have fetched
  // this member's data, or with an error. Cancelling the step ends it soon.
  virtual void Run(CollectiveCall call, Cancellation& cancellation, Done done) = 0;
  // Ends the collectives of these instances in this task, and those that graphs which are known here now
  // begin later, with ABORTED. Graphs that are registered from now on are not concerned.
  virtual void End(const EndCollectives& which) = 0;
};

}  // namespace thalweg
