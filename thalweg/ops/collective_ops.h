// SPDX-License-Identifier: Apache-2.0
// Collectives: operations that the devices of a group, in one task or in many, compute
// together. Every member has a node with the same keys.
//
//   const Output mean = CollectiveReduce(s, gradient, {.group_size = 4, .instance_key = 7}, {.mean = true});
//
// All members must run the same collective on the same type and shape. If they do not, the steps of
// all members end with an error that says what each of two members has brought.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "thalweg/graph/scope.h"

namespace thalweg {

// The group of a collective, its keys and its timeout.
struct CollectiveOptions {
  int group_size = 0;                                 // number of members
  int group_key = 1;                                  // names the group
  int instance_key = 1;                               // names this collective among those of the group
  absl::Duration timeout = absl::InfiniteDuration();  // the step fails if it takes longer
  // For a group that is known only when a step runs: a vector of two int32, its group_size and group_key, which take
  // the place of the two above. When the group changes, its members begin new sessions, so that they count their
  // steps from the same one. CollectiveGather and the broadcasts do not have it.
  Output group;
};

// How CollectiveReduce combines the inputs.
enum class ReduceKind {
  kSum,      // x + y
  kProduct,  // x * y
  kMax,      // the larger
  kMin,      // the smaller
};
// How a collective combines the values of its members.
struct CollectiveReduceOptions {
  ReduceKind kind = ReduceKind::kSum;  // see ReduceKind
  bool mean = false;                   // divide the result by the number of members
  // Combine the values in the order of ranks, one element after the other. Sums of floating-point numbers then have the
  // same bits in every run, on whatever hosts the members are and whatever paths connect them. Without it the order
  // depends on the number of elements, on the order of ranks and on the path, but never on timing. Between hosts
  // members then send up to twice the bytes; with TensorFlow's tasks in the group, every member needs memory for the
  // values of all. All members must choose the same.
  bool rank_order = false;
};

// All-reduce: every member gets the sum, or another combination, of the inputs of all,
// which have one type and shape.
Output CollectiveReduce(const Scope& s, Output input, const CollectiveOptions& options,
                        const CollectiveReduceOptions& reduce = {});
// All-reduce of several inputs as one collective. Output i has the shape of input i. `wire` is the type in which
// elements of float inputs travel and are added: kHalf and kBfloat16 halve the bytes and lose precision. kInvalid:
// the inputs' own type. With .mean and such a type, every input is divided before it is added, so that sums do not
// overflow. REQUIRES: all inputs have one type, and options.kind is kSum if `wire` is given.
std::vector<Output> CollectiveReduceBucket(const Scope& s, const std::vector<Output>& inputs,
                                           const CollectiveOptions& options, const CollectiveReduceOptions& reduce = {},
                                           DType wire = kInvalid);
// Reduce-scatter: the inputs are combined as by CollectiveReduce, and every member gets one of as many equal parts of
// the first dimension as there are members, in the order of job and task. Moves half the bytes of an all-reduce.
Output CollectiveReduceScatter(const Scope& s, Output input, const CollectiveOptions& options,
                               const CollectiveReduceOptions& reduce = {});
// All-to-all: row i of every member's input, of which there are as many as members, becomes a row of member i's result.
Output CollectiveAllToAll(const Scope& s, Output input, const CollectiveOptions& options);
// Barrier: has no outputs; ends when all members have come to it. Run it as a target, or let other operations depend on
// it: s.WithControlDependencies({barrier}).
Output CollectiveBarrier(const Scope& s, const CollectiveOptions& options);
// All-gather: every member gets the inputs of all, joined along the first dimension, in
// the order of job and task.
Output CollectiveGather(const Scope& s, Output input, const CollectiveOptions& options);
// Broadcast: the one member that has the value sends it.
Output CollectiveBcastSend(const Scope& s, Output input, const Shape& shape, const CollectiveOptions& options);
// In the task of the node: collectives of the group whose instance keys are in a range, of graphs that the task
// knows already, end with ABORTED. A member that begins again tells the others so.
struct CollectiveEndOptions {
  int group_key = 1;       // names the group
  int first_instance = 0;  // first instance key of the range
  int last_instance = 0;   // last instance key, inclusive
  std::string why;         // part of the error
};
// See CollectiveEndOptions.
Output CollectiveEnd(const Scope& s, const CollectiveEndOptions& options);
// Broadcast: the other members receive the value.
Output CollectiveBcastRecv(const Scope& s, DType dtype, const Shape& shape, const CollectiveOptions& options);

}  // namespace thalweg
