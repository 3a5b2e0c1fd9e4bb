// SPDX-License-Identifier: Apache-2.0
// Data that moves between steps or waits in one: queues, accumulators, stacks, arrays of
// tensors. Readers of files are in io_ops.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// ---- queues of tuples of tensors ----

// The capacity and the name of a queue.
struct QueueOptions {
  int64_t capacity = -1;    // the most tuples it holds; negative: no limit
  std::string container;    // where the resource lives; "" is the default container
  std::string shared_name;  // sessions that name it share it; without one it belongs to this op and session
};
// A queue, first in, first out, of tuples with these types. `shapes` has one shape per
// type, or is empty: then tuples of any shapes go in, and only single ones come out.
Output FIFOQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes = {},
                 const QueueOptions& options = {});
// A FIFOQueue whose shapes may have unknown dimensions; QueueDequeueMany fills up with
// zeros to one size.
Output PaddingFIFOQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
                        const QueueOptions& options = {});
// A queue that gives the tuple with the lowest first component first. That component, an
// int64 scalar, comes before `types`.
Output PriorityQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
                     const QueueOptions& options = {});
// The options of a queue, and how it shuffles its elements.
struct RandomShuffleQueueOptions {
  int64_t capacity = -1;          // the most tuples it holds; negative: no limit
  int64_t min_after_dequeue = 0;  // as many stay in it, to choose from, until it is closed
  int64_t seed = 0;               // with seed2 0, too: another order in every run
  int64_t seed2 = 0;              // see seed
  std::string container;          // as QueueOptions
  std::string shared_name;        // as QueueOptions
};
// A queue that gives its tuples in random order.
Output RandomShuffleQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes = {},
                          const RandomShuffleQueueOptions& options = {});

// Adds one tuple; waits until there is room. FAILED_PRECONDITION once it is closed.
Output QueueEnqueue(const Scope& s, Output queue, const std::vector<Output>& components);
// Adds as many tuples as the components have rows.
Output QueueEnqueueMany(const Scope& s, Output queue, const std::vector<Output>& components);
// Takes one tuple; waits until there is one. OUT_OF_RANGE once it is closed and empty.
std::vector<Output> QueueDequeue(const Scope& s, Output queue, const std::vector<DType>& types);
// Takes `n` tuples as rows; waits until there are as many.
std::vector<Output> QueueDequeueMany(const Scope& s, Output queue, const IntArg& n, const std::vector<DType>& types);
// Takes `n` tuples as rows; waits until there are as many, or takes the rest once the queue is closed.
std::vector<Output> QueueDequeueUpTo(const Scope& s, Output queue, const IntArg& n, const std::vector<DType>& types);
// How QueueClose treats steps that wait to add tuples.
struct QueueCloseOptions {
  bool cancel_pending_enqueues = false;  // they fail with CANCELLED; else their tuples still go in
};
// Closes the queue: no more tuples go in.
Output QueueClose(const Scope& s, Output queue, const QueueCloseOptions& options = {});
// A bool scalar: true if it is closed.
Output QueueIsClosed(const Scope& s, Output queue);
// The number of tuples in it, an int32 scalar.
Output QueueSize(const Scope& s, Output queue);

// ---- accumulators of gradients, as synchronous training uses them ----

// How an accumulator reduces gradients, and its name.
struct AccumulatorOptions {
  bool mean = true;         // the mean of the gradients; else their sum
  std::string container;    // as QueueOptions
  std::string shared_name;  // as QueueOptions
};
// Keeps gradients of several workers until enough have come to take their mean or sum.
// Gradients of a step before the accumulator's own are dropped as stale.
Output ConditionalAccumulator(const Scope& s, DType dtype, const PartialShape& shape,
                              const AccumulatorOptions& options = {});
// Adds a gradient that was computed in step `local_step`, an int64 scalar.
Output AccumulatorApplyGradient(const Scope& s, Output handle, Output local_step, Output gradient);
// Waits for `num_required` gradients, takes all there are, and moves the accumulator's
// step on by one.
Output AccumulatorTakeGradient(const Scope& s, Output handle, const IntArg& num_required, DType dtype);
// Sets the accumulator's step; dense or sparse.
Output AccumulatorSetGlobalStep(const Scope& s, Output handle, Output step);
// The number of gradients in it, an int32 scalar; dense or sparse.
Output AccumulatorNumAccumulated(const Scope& s, Output handle);

// A gradient of rows, as a sparse accumulator gives it out.
struct SparseGradientResult {
  Output indices;  // int64: the rows
  Output values;   // the gradient of each row
  Output shape;    // int64: the shape of the whole
};
// A ConditionalAccumulator of gradients of rows.
Output SparseConditionalAccumulator(const Scope& s, DType dtype, const PartialShape& shape,
                                    const AccumulatorOptions& options = {});
// Adds gradients `values` of the rows `indices`, which should be sorted and distinct.
Output SparseAccumulatorApplyGradient(const Scope& s, Output handle, Output local_step, Output indices, Output values,
                                      Output shape = {});
// As AccumulatorTakeGradient.
SparseGradientResult SparseAccumulatorTakeGradient(const Scope& s, Output handle, const IntArg& num_required,
                                                   DType dtype);

// ---- stacks, which live as long as the step ----

// A stack of tensors of one type; a negative max_size sets no limit.
Output StackOf(const Scope& s, const IntArg& max_size, DType dtype);
// Puts `value` on the stack, and gives it.
Output StackPush(const Scope& s, Output stack, Output value);
// Takes the top of the stack.
Output StackPop(const Scope& s, Output stack, DType dtype);
// Frees the stack.
Output StackClose(const Scope& s, Output stack);

// ---- arrays of tensors, which live as long as the step ----

// The shapes of a TensorArray's elements, and whether it grows and frees them.
struct TensorArrayOptions {
  PartialShape element_shape;             // shape of every element
  bool dynamic_size = false;              // writes may make it larger
  bool clear_after_read = true;           // free an element once it was read
  bool identical_element_shapes = false;  // all elements have one shape
};
// A TensorArray, as the functions on it take it.
struct TensorArrayResult {
  Output handle;  // names the array
  Output flow;    // a float: orders reads after writes
};
// An array of `size` tensors by number. Every change gives a new flow: operations that
// take this flow see the change, and gradients go back along it.
TensorArrayResult TensorArrayOf(const Scope& s, const IntArg& size, DType dtype,
                                const TensorArrayOptions& options = {});
// Sets an element; gives the new flow.
Output TensorArrayWrite(const Scope& s, Output handle, const IntArg& index, Output value, Output flow);
// Reads an element.
Output TensorArrayRead(const Scope& s, Output handle, const IntArg& index, Output flow, DType dtype);
// The elements `indices`, stacked.
Output TensorArrayGather(const Scope& s, Output handle, Output indices, Output flow, DType dtype,
                         const PartialShape& element_shape = {});
// Sets the elements `indices` to the rows of `value`; gives the new flow.
Output TensorArrayScatter(const Scope& s, Output handle, Output indices, Output value, Output flow);
// The elements of a TensorArray as one tensor, with the length of each.
struct TensorArrayConcatResult {
  Output value;    // the elements, joined along their first dimension
  Output lengths;  // int64: the first dimension of each
};
// All elements, joined along their first dimension.
TensorArrayConcatResult TensorArrayConcat(const Scope& s, Output handle, Output flow, DType dtype);
// The opposite of TensorArrayConcat; gives the new flow.
Output TensorArraySplit(const Scope& s, Output handle, Output value, Output lengths, Output flow);
// The number of elements, an int32 scalar.
Output TensorArraySize(const Scope& s, Output handle, Output flow);
// Frees the array.
Output TensorArrayClose(const Scope& s, Output handle);

}  // namespace thalweg
