// Data that moves between steps: queues, and what the other ops of this kind
// need. Functions that take a `queue` take what one of the functions that make
// queues gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Queues of tuples of tensors. `shapes` has one shape per type, or is empty:
// then tuples of any shapes go in, and only single ones come out.
struct QueueArguments {
  int64_t capacity = -1;  // without limit if negative
  std::string container;
  std::string shared_name;  // without one, the queue belongs to this op of this session
};
Output FIFOQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes = {},
                 QueueArguments arguments = {});
// Shapes may have unknown dimensions; batches are filled up with zeros.
Output PaddingFIFOQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
                        QueueArguments arguments = {});
// Lowest first component, an int64 that comes before `types`, first.
Output PriorityQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
                     QueueArguments arguments = {});
struct RandomShuffleQueueArguments {
  int64_t capacity = -1;
  int64_t min_after_dequeue = 0;  // so many stay in it until it is closed
  int64_t seed = 0, seed2 = 0;
  std::string container;
  std::string shared_name;
};
Output RandomShuffleQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes = {},
                          RandomShuffleQueueArguments arguments = {});

// These wait: until there is room, or something to take.
Output QueueEnqueue(const Scope& s, Output queue, const std::vector<Output>& components);
Output QueueEnqueueMany(const Scope& s, Output queue, const std::vector<Output>& components);
std::vector<Output> QueueDequeue(const Scope& s, Output queue, const std::vector<DType>& types);
std::vector<Output> QueueDequeueMany(const Scope& s, Output queue, Output n, const std::vector<DType>& types);
// Fewer than n if the queue is closed and has no more.
std::vector<Output> QueueDequeueUpTo(const Scope& s, Output queue, Output n, const std::vector<DType>& types);
Output QueueClose(const Scope& s, Output queue, bool cancel_pending_enqueues = false);
Output QueueIsClosed(const Scope& s, Output queue);
Output QueueSize(const Scope& s, Output queue);

// Accumulators: gradients of several workers until enough are there to take
// their mean (or sum). One of an older step than the accumulator's is dropped.
struct AccumulatorArguments {
  bool mean = true;
  std::string container;
  std::string shared_name;
};
Output ConditionalAccumulator(const Scope& s, DType dtype, const PartialShape& shape,
                              AccumulatorArguments arguments = {});
Output AccumulatorApplyGradient(const Scope& s, Output handle, Output local_step, Output gradient);
// Waits for `num_required`, takes all, and moves the accumulator's step on by one.
Output AccumulatorTakeGradient(const Scope& s, Output handle, Output num_required, DType dtype);
// These two are for sparse ones too.
Output AccumulatorSetGlobalStep(const Scope& s, Output handle, Output step);
Output AccumulatorNumAccumulated(const Scope& s, Output handle);

// Of rows: `indices` should be sorted and without repeats.
struct SparseGradientOutputs {
  Output indices, values, shape;
};
Output SparseConditionalAccumulator(const Scope& s, DType dtype, const PartialShape& shape,
                                    AccumulatorArguments arguments = {});
Output SparseAccumulatorApplyGradient(const Scope& s, Output handle, Output local_step, Output indices, Output values,
                                      Output shape = {});
SparseGradientOutputs SparseAccumulatorTakeGradient(const Scope& s, Output handle, Output num_required, DType dtype);

// What TensorFlow's accumulators do not have. Workers are numbers; an
// AccumulatorApplyGradient that has the attribute "_worker" says from whom its
// gradient is.
inline constexpr char kWorkerAttr[] = "_worker";
// With this attribute (true) the worker counts once per step: another gradient of
// it before the next take is dropped, since it is that of a step that was run
// again.
inline constexpr char kOncePerStepAttr[] = "_once_per_step";
// One of `total` workers has left: takes wait for so many gradients less as
// Quorum() in roster.h says, those that wait already too.
Output AccumulatorLeave(const Scope& s, Output handle, Output worker, int64_t total);
Output AccumulatorJoin(const Scope& s, Output handle, Output worker);  // came back; -1: all did
// Gradients since the accumulator was made, for each worker, -1 for those that
// do not say: how many were accepted and how many were stale, and the step of
// the last.
struct AccumulatorLedgerOutputs {
  Output worker, accepted, stale, last_step;
};
AccumulatorLedgerOutputs AccumulatorLedger(const Scope& s, Output handle);

// Rosters: who takes part in a training, and how far each has come; see
// roster.h.
Output RosterOf(const Scope& s, absl::string_view shared_name);
struct RosterJoinOutputs {
  Output was_present, had_left;
};
// ALREADY_EXISTS if another task has the number; without a task none is compared.
RosterJoinOutputs RosterJoin(const Scope& s, Output roster, Output worker, const std::string& task = "");
Output RosterLeave(const Scope& s, Output roster, Output worker);  // -1: forgets everyone
struct RosterMemberOutputs {
  Output worker, present, clock, waits;
};
RosterMemberOutputs RosterMembers(const Scope& s, Output roster);
// Training in step: a worker that has given its gradients waits for the step
// after `local_step`, and the one that updates the variables releases it.
Output RosterAwaitStep(const Scope& s, Output roster, Output local_step);
struct RosterReleaseArguments {
  int64_t wanted = 1;  // gradients
  int64_t total = 1;   // workers
  bool again = false;  // whoever waits starts anew
};
Output RosterRelease(const Scope& s, Output roster, Output step, RosterReleaseArguments arguments);
Output RosterCloseSteps(const Scope& s, Output roster);  // waits end with OUT_OF_RANGE
// A step of `worker` is done. Waits while it is more than `slack` ahead.
Output RosterAdvance(const Scope& s, Output roster, Output worker, int64_t slack);
Output RosterAwaitEmpty(const Scope& s, Output roster);

// Stacks, which live as long as the step. A negative max_size is no limit.
Output StackOf(const Scope& s, Output max_size, DType dtype);
Output StackPush(const Scope& s, Output stack, Output value);  // gives the value
Output StackPop(const Scope& s, Output stack, DType dtype);
Output StackClose(const Scope& s, Output stack);

// Tensors by number, which live as long as the step. Every change gives a new
// flow; what gets it sees the change, and gradients go back along it.
struct TensorArrayArguments {
  PartialShape element_shape;
  bool dynamic_size = false;
  bool clear_after_read = true;
  bool identical_element_shapes = false;
};
struct TensorArrayOutputs {
  Output handle, flow;
};
TensorArrayOutputs TensorArrayOf(const Scope& s, Output size, DType dtype, TensorArrayArguments arguments = {});
Output TensorArrayWrite(const Scope& s, Output handle, Output index, Output value, Output flow);
Output TensorArrayRead(const Scope& s, Output handle, Output index, Output flow, DType dtype);
Output TensorArrayGather(const Scope& s, Output handle, Output indices, Output flow, DType dtype,
                         const PartialShape& element_shape = {});
Output TensorArrayScatter(const Scope& s, Output handle, Output indices, Output value, Output flow);
struct TensorArrayConcatOutputs {
  Output value, lengths;
};
TensorArrayConcatOutputs TensorArrayConcat(const Scope& s, Output handle, Output flow, DType dtype);
Output TensorArraySplit(const Scope& s, Output handle, Output value, Output lengths, Output flow);
Output TensorArraySize(const Scope& s, Output handle, Output flow);
Output TensorArrayClose(const Scope& s, Output handle);

// Readers give the records of files whose names come from a queue of strings.
Output WholeFileReader(const Scope& s);
Output TextLineReader(const Scope& s, int64_t skip_header_lines = 0);
struct FixedLengthArguments {
  int64_t header_bytes = 0;
  int64_t footer_bytes = 0;
  int64_t hop_bytes = 0;    // from one record to the next; 0: record_bytes
  std::string compression;  // "", "ZLIB", "GZIP"
};
Output FixedLengthRecordReader(const Scope& s, int64_t record_bytes, FixedLengthArguments arguments = {});
Output TFRecordReader(const Scope& s, absl::string_view compression = "");
struct RecordOutputs {
  Output key, value;
};
RecordOutputs ReaderRead(const Scope& s, Output reader, Output queue);
RecordOutputs ReaderReadUpTo(const Scope& s, Output reader, Output queue, Output num_records);
Output ReaderNumRecordsProduced(const Scope& s, Output reader);
Output ReaderNumWorkUnitsCompleted(const Scope& s, Output reader);
Output ReaderReset(const Scope& s, Output reader);

// Files as strings.
Output ReadFile(const Scope& s, Output filename);
Output WriteFile(const Scope& s, Output filename, Output contents);
// Sorted; *, ? and [...] match within one folder.
Output MatchingFiles(const Scope& s, Output pattern);

}  // namespace thalweg
