// SPDX-License-Identifier: Apache-2.0
// Collectives: ops whose nodes on several devices, of one task or of many,
// compute something together. The members of a group find each other by
// group_key; what each of its ops is about, by instance_key. In the V2 forms the
// keys are inputs.
//
//   CollectiveReduce       every member gets the sum (or product, maximum,
//                          minimum) of all; divided by their number if wanted
//   ThalwegCollectiveReduceBucket   the same for a list of inputs, as one exchange
//   CollectiveGather       the inputs of all, one after the other by rank
//   CollectiveBcastSend    gives its input to all ...
//   CollectiveBcastRecv    ... of these
//   CollectiveAllToAll     part i of the input goes to member i
//   CollectiveReduceScatter   each member gets its part of the sum
//   ThalwegCollectiveBarrier  nothing: it ends when all members have come
//
// The V3 forms take a communicator in place of the keys: CollectiveInitializeCommunicator makes it, and it numbers the
// instances. CollectiveAssignGroupV2 computes a group's key and size from a table of groups.
#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "thalweg/kernel/collectives.h"
#include "thalweg/kernel/op.h"

namespace thalweg::collective {

// The base of the kernels: finds the group of the node.
class CollectiveKernel : public AsyncKernel {
 public:
  explicit CollectiveKernel(CollectiveKind kind, bool is_source = false) : kind_(kind), is_source_(is_source) {}

  absl::Status Init(const KernelInit& init) override;
  void ComputeAsync(KernelContext& c, Done done) final;

 protected:
  using Finish = absl::AnyInvocable<void()>;

  // Fills in the values, and sets the outputs. `finish`, if it is set, runs when the result is there.
  virtual absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) = 0;
  // The first of the inputs group_size, group_key and instance_key.
  virtual int first_key_input() const { return 1; }

  // Sets the output, and makes it the memory for the result; if possible, where the other members can write to.
  static absl::Status AllocateResult(KernelContext& c, Collectives& collectives, const Shape& shape,
                                     CollectiveCall* call);

 private:
  // The inputs communicator and group_assignment of V3 forms.
  absl::Status UseCommunicator(KernelContext& c, CollectiveCall* call) const;
  absl::StatusOr<CollectiveCall> MakeCall(KernelContext& c, Collectives& collectives, Finish* finish);

  const CollectiveKind kind_;
  const bool is_source_;
  bool by_attrs_ = false;
  bool by_communicator_ = false;
  int32_t group_size_ = 0;
  int32_t group_key_ = 0;
  int32_t instance_key_ = 0;
  absl::Duration timeout_ = absl::InfiniteDuration();
};

}  // namespace thalweg::collective
