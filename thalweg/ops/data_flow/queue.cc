// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

class Fifo final : public QueueStore {
 public:
  int64_t size() const override { return static_cast<int64_t>(tuples_.size()); }
  void Push(Tuple tuple) override { tuples_.push_back(std::move(tuple)); }
  Tuple Pop() override {
    Tuple tuple = std::move(tuples_.front());
    tuples_.pop_front();
    return tuple;
  }
  void PutBack(Tuple tuple) override { tuples_.push_front(std::move(tuple)); }

 private:
  std::deque<Tuple> tuples_;
};

std::string ListShapes(const std::vector<PartialShape>& shapes) {
  return absl::StrCat(
      "[", absl::StrJoin(shapes, ", ", [](std::string* out, const PartialShape& s) { out->append(s.ToString()); }),
      "]");
}

// TensorFlow shows the capacity of a queue without limit so.
int64_t ShownCapacity(int64_t capacity) { return capacity < 0 ? std::numeric_limits<int32_t>::max() : capacity; }

bool Compatible(const std::vector<PartialShape>& a, const std::vector<PartialShape>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const PartialShape& x, const PartialShape& y) { return PartialShape::Merge(x, y).ok(); });
}

}  // namespace

std::unique_ptr<QueueStore> FifoStore() { return std::make_unique<Fifo>(); }

std::string ListTypes(const std::vector<DType>& types) {
  return absl::StrJoin(types, ", ", [](std::string* out, DType t) { out->append(ToString(t)); });
}

// One call that is not over. Guarded by the queue's lock until it is complete.
struct Queue::Attempt {
  enum class Kind { kEnqueue, kDequeue, kClose };
  Kind kind = Kind::kEnqueue;
  Caller caller;
  std::optional<Cancellation::CallbackId> registration;
  bool waits = false;  // it is in the list of waiting attempts
  absl::Time since;    // when it came; only if the queue wants_tasks()
  absl::Status status;

  int64_t left = 1;   // elements still to be moved
  bool many = false;  // the tuple is a batch
  Tuple tuple;        // to be put in
  int64_t rows = 1;   // rows of the tuple
  bool fewer_at_end = false;
  std::vector<Tuple> taken;

  Done done;
  DequeueDone dequeue_done;
};

absl::Status Queue::Check(const QueueConfig& options) {
  if (options.types.empty()) return InvalidArgument("Empty component types for queue ", options.name);
  if (options.may_pad && options.types.size() != options.shapes.size()) {
    return InvalidArgument("Shapes must be provided for all components, but received ", options.types.size(),
                           " dtypes and ", options.shapes.size(), " shapes.");
  }
  if (!options.shapes.empty() && options.types.size() != options.shapes.size()) {
    return InvalidArgument("Different number of component types.  Types: ", ListTypes(options.types),
                           ", Shapes: ", ListShapes(options.shapes));
  }
  for (const PartialShape& shape : options.shapes) {
    if (options.may_pad ? !shape.has_rank() : !shape.fully_known()) {
      return InvalidArgument("Shape ", shape, " is not fully defined");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Queue>> Queue::Make(QueueConfig options, std::unique_ptr<QueueStore> store) {
  RETURN_IF_ERROR(Check(options));
  return std::shared_ptr<Queue>(new Queue(std::move(options), std::move(store)));
}

absl::Status Queue::Matches(const QueueConfig& wanted, absl::string_view op) const {
  const QueueConfig& have = options_;
  if (wanted.kind != have.kind) return InvalidArgument("Expected ", have.kind, ", found ", op);
  const auto differs = [&](absl::string_view what, const auto& ours, const auto& theirs, absl::string_view were) {
    return InvalidArgument("Shared queue '", have.name, "' has ", what, " ", ours, " but requested ", what, " ", were,
                           " ", theirs);
  };
  if (ShownCapacity(wanted.capacity) != ShownCapacity(have.capacity)) {
    return differs("capacity", ShownCapacity(have.capacity), ShownCapacity(wanted.capacity), "was");
  }
  if (wanted.min_after_dequeue != have.min_after_dequeue) {
    return differs("min_after_dequeue", have.min_after_dequeue, absl::StrCat(wanted.min_after_dequeue, "."), "was");
  }
  if ((wanted.seed != 0 || wanted.seed2 != 0) && (wanted.seed != have.seed || wanted.seed2 != have.seed2)) {
    return InvalidArgument("Shared queue '", have.name, "' has random seeds (", have.seed, ", ", have.seed2,
                           ") but requested seeds are (", wanted.seed, ", ", wanted.seed2, ").");
  }
  if (wanted.types != have.types) {
    return differs("component types", ListTypes(have.types), ListTypes(wanted.types), "were");
  }
  if (have.may_pad ? !Compatible(wanted.shapes, have.shapes) : wanted.shapes != have.shapes) {
    return differs("component shapes", ListShapes(have.shapes), ListShapes(wanted.shapes), "were");
  }
  return absl::OkStatus();
}

absl::Status Queue::CheckTuple(const Tuple& tuple, bool many) const {
  if (tuple.size() != options_.types.size()) {
    return InvalidArgument("Wrong number of components in tuple. Expected ", options_.types.size(), ", got ",
                           tuple.size());
  }
  for (size_t i = 0; i < tuple.size(); ++i) {
    if (tuple[i].dtype() != options_.types[i]) {
      return InvalidArgument("Type mismatch in tuple component ", i, ". Expected ", options_.types[i], ", got ",
                             tuple[i].dtype());
    }
    if (many && tuple[i].rank() == 0 && (i == 0 || options_.shapes.empty())) {
      return InvalidArgument("Component ", i, " of a batch must have at least one dimension, got a scalar");
    }
  }
  for (size_t i = 0; i < tuple.size(); ++i) {
    const Shape& shape = tuple[i].shape();
    if (options_.shapes.empty()) {
      if (many && shape.dim(0) != tuple[0].dim(0)) {
        return InvalidArgument("All input tensors must have the same size in the 0th dimension. Component ", i, " has ",
                               shape.dim(0), ", and should have ", tuple[0].dim(0));
      }
      continue;
    }
    PartialShape expected = options_.shapes[i];
    if (many) {
      Dims dims(expected.dims().begin(), expected.dims().end());
      dims.insert(dims.begin(), tuple[0].dim(0));
      expected = PartialShape(std::move(dims));
    }
    if (!expected.Accepts(shape)) {
      return InvalidArgument("Shape mismatch in tuple component ", i, ". Expected ", expected, ", got ", shape);
    }
  }
  return absl::OkStatus();
}

void Queue::Enqueue(Tuple tuple, const Caller& caller, Done done) {
  if (const absl::Status status = CheckTuple(tuple, /*many=*/false); !status.ok()) return done(status);
  auto attempt = std::make_shared<Attempt>();
  attempt->caller = caller;
  attempt->tuple = std::move(tuple);
  attempt->done = std::move(done);
  Start(std::move(attempt));
}

void Queue::EnqueueMany(Tuple batch, const Caller& caller, Done done) {
  if (const absl::Status status = CheckTuple(batch, /*many=*/true); !status.ok()) return done(status);
  if (batch[0].dim(0) == 0) return done(absl::OkStatus());
  // Elements without data still take memory in the queue.
  constexpr int64_t kMostRowsOfNothing = 1 << 24;
  const bool nothing = std::all_of(batch.begin(), batch.end(), [](const Tensor& t) { return t.num_elements() == 0; });
  if (nothing && batch[0].dim(0) > kMostRowsOfNothing) {
    return done(
        ResourceExhausted("got ", batch[0].dim(0), " empty elements at once, expected at most ", kMostRowsOfNothing));
  }
  auto attempt = std::make_shared<Attempt>();
  attempt->caller = caller;
  attempt->many = true;
  attempt->left = attempt->rows = batch[0].dim(0);
  attempt->tuple = std::move(batch);
  attempt->done = std::move(done);
  Start(std::move(attempt));
}

void Queue::Dequeue(const Caller& caller, DequeueDone done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::kDequeue;
  attempt->caller = caller;
  attempt->dequeue_done = std::move(done);
  Start(std::move(attempt));
}

void Queue::DequeueMany(int64_t n, bool fewer_at_end, const Caller& caller, DequeueDone done) {
  if (options_.shapes.empty()) {
    return done(InvalidArgument(options_.kind,
                                "'s DequeueMany and DequeueUpTo require the components to have specified shapes."),
                {});
  }
  if (n == 0) {
    std::vector<Tuple> none;
    absl::StatusOr<Tuple> empty = Batch(none);
    return empty.ok() ? done(absl::OkStatus(), *std::move(empty)) : done(empty.status(), {});
  }
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::kDequeue;
  attempt->caller = caller;
  attempt->many = true;
  attempt->left = n;
  attempt->fewer_at_end = fewer_at_end;
  attempt->dequeue_done = std::move(done);
  Start(std::move(attempt));
}

void Queue::Close(bool cancel_pending_enqueues, const Caller& caller, Done done) {
  if (!cancel_pending_enqueues) {
    auto attempt = std::make_shared<Attempt>();
    attempt->kind = Attempt::Kind::kClose;
    attempt->caller = caller;
    attempt->done = std::move(done);
    return Start(std::move(attempt));
  }
  std::vector<AttemptPtr> completed;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    for (AttemptPtr& attempt : enqueues_) {
      attempt->waits = false;
      attempt->status = Cancelled("Enqueue operation was cancelled");
      completed.push_back(std::move(attempt));
    }
    enqueues_.clear();
    Flush(&completed);
  }
  End(std::move(completed), nullptr);
  done(absl::OkStatus());
}

void Queue::Starve(const absl::Status& why) {
  std::vector<AttemptPtr> completed;
  {
    MutexLock lock(&mutex_);
    starved_ = why;
    Flush(&completed);
  }
  End(std::move(completed), nullptr);
}

void Queue::FailDequeues(const absl::Status& why) {
  std::vector<AttemptPtr> completed;
  {
    MutexLock lock(&mutex_);
    for (AttemptPtr& attempt : dequeues_) {
      attempt->waits = false;
      attempt->status = why;
      PutBackLocked(attempt->taken);
      completed.push_back(std::move(attempt));
    }
    dequeues_.clear();
    Flush(&completed);
  }
  End(std::move(completed), nullptr);
}

std::vector<std::pair<std::string, absl::Time>> Queue::WaitingTasks() const {
  std::vector<std::pair<std::string, absl::Time>> tasks;
  for (const AttemptPtr& attempt : dequeues_) {
    if (!attempt->caller.task.empty()) tasks.emplace_back(attempt->caller.task, attempt->since);
  }
  return tasks;
}

// The callback for cancellation takes our lock and is never run under that of
// the Cancellation, so registering under ours is safe. It has to be: once the
// lock is free the attempt may end, and with it the step.
void Queue::Start(AttemptPtr attempt) {
  std::vector<AttemptPtr> completed;
  {
    MutexLock lock(&mutex_);
    if (wants_tasks()) attempt->since = absl::Now();
    auto& attempts = attempt->kind == Attempt::Kind::kDequeue ? dequeues_ : enqueues_;
    attempts.push_back(attempt);
    attempt->waits = true;
    Flush(&completed);
    if (attempt->waits && attempt->caller.cancellation != nullptr) {
      attempt->registration = attempt->caller.cancellation->Register(
          [self = shared_from_this(), attempt](const absl::Status&) { self->Cancel(attempt); });
    }
    if (attempt->waits && attempt->caller.cancellation != nullptr && !attempt->registration.has_value()) {
      CancelLocked(attempt);
      completed.push_back(attempt);
      Flush(&completed);
    }
  }
  End(std::move(completed), attempt.get());
}

void Queue::CancelLocked(const AttemptPtr& attempt) {
  const bool dequeue = attempt->kind == Attempt::Kind::kDequeue;
  (dequeue ? dequeues_ : enqueues_).remove(attempt);
  attempt->waits = false;
  PutBackLocked(attempt->taken);
  attempt->status = Cancelled(dequeue                                  ? "Dequeue"
                              : attempt->kind == Attempt::Kind::kClose ? "Close"
                                                                       : "Enqueue",
                              " operation was cancelled");
}

void Queue::Cancel(const AttemptPtr& attempt) {
  std::vector<AttemptPtr> completed;
  {
    MutexLock lock(&mutex_);
    if (!attempt->waits) return;
    CancelLocked(attempt);
    attempt->registration.reset();
    completed.push_back(attempt);
    Flush(&completed);
  }
  End(std::move(completed), attempt.get());
}

// As in TensorFlow, tries enqueues, then dequeues, until neither makes progress.
void Queue::Flush(std::vector<AttemptPtr>* completed) {
  bool changed = true;
  while (changed) {
    changed = Try(enqueues_, completed);
    changed = Try(dequeues_, completed) || changed;
  }
}

bool Queue::Try(std::list<AttemptPtr>& attempts, std::vector<AttemptPtr>* completed) {
  bool changed = false;
  while (!attempts.empty()) {
    Attempt& attempt = *attempts.front();
    Progress progress = Progress::kNone;
    // The attempt of another step must not fail this one.
    const absl::Status thrown = CatchExceptions([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { progress = Run(attempt); });
    if (!thrown.ok()) {
      PutBackLocked(attempt.taken);
      attempt.status = thrown;
      progress = Progress::kComplete;
    }
    if (progress == Progress::kNone) return changed;
    changed = true;
    if (progress == Progress::kSome) return changed;
    attempt.waits = false;
    completed->push_back(std::move(attempts.front()));
    attempts.pop_front();
  }
  return changed;
}

Queue::Progress Queue::Run(Attempt& attempt) {
  switch (attempt.kind) {
    case Attempt::Kind::kEnqueue:
      return RunEnqueue(attempt);
    case Attempt::Kind::kDequeue:
      return RunDequeue(attempt);
    case Attempt::Kind::kClose:
      if (closed_) attempt.status = Cancelled("Queue '", options_.name, "' is already closed.");
      closed_ = true;
      return Progress::kComplete;
  }
  return Progress::kNone;
}

Queue::Progress Queue::RunEnqueue(Attempt& attempt) {
  if (closed_) {
    attempt.status = Cancelled(options_.kind, " '", options_.name, "' is closed.");
    return Progress::kComplete;
  }
  Progress progress = Progress::kNone;
  while (options_.capacity < 0 || store_->size() < options_.capacity) {
    if (attempt.many) {
      const int64_t row = attempt.rows - attempt.left;
      absl::StatusOr<Tuple> tuple = options_.share_batches ? ShareRow(attempt.tuple, row) : CopyRow(attempt.tuple, row);
      if (!tuple.ok()) {
        attempt.status = tuple.status();
        return Progress::kComplete;
      }
      store_->Push(*std::move(tuple));
    } else {
      store_->Push(std::move(attempt.tuple));
    }
    progress = Progress::kSome;
    starved_ = absl::OkStatus();
    HasPut(attempt.caller.task);
    if (--attempt.left == 0) return Progress::kComplete;
  }
  return progress;
}

// A closed queue that has fewer than are left to take. True if that settles it.
bool Queue::EndOfQueue(Attempt& attempt, Progress* progress) {
  const int64_t size = store_->size();
  PutBackLocked(attempt.taken);
  if (attempt.fewer_at_end && store_->size() > 0) {
    attempt.left = store_->size();
    return false;
  }
  if (attempt.fewer_at_end && !enqueues_.empty()) {
    *progress = Progress::kSome;
    return true;
  }
  attempt.status =
      OutOfRange(options_.kind, " '", options_.name, "' is closed and has insufficient elements (requested ",
                 attempt.left, ", current size ", size, ")");
  *progress = Progress::kComplete;
  return true;
}

Queue::Progress Queue::RunDequeue(Attempt& attempt) {
  Progress progress = Progress::kNone;
  if (closed_ && store_->size() < attempt.left && EndOfQueue(attempt, &progress)) return progress;
  if (!starved_.ok() && store_->size() < attempt.left) {
    PutBackLocked(attempt.taken);
    attempt.status = starved_;
    return Progress::kComplete;
  }
  if (options_.whole_batches && store_->size() < attempt.left) return progress;
  int64_t available = store_->size() - (closed_ ? 0 : options_.min_after_dequeue);
  for (; available > 0 && attempt.left > 0; --available, --attempt.left) {
    attempt.taken.push_back(store_->Pop());
    HasTaken(attempt.caller.task, attempt.taken.back());
    progress = Progress::kSome;
  }
  return attempt.left == 0 ? Progress::kComplete : progress;
}

void Queue::PutBackLocked(std::vector<Tuple>& taken) {
  for (auto it = taken.rbegin(); it != taken.rend(); ++it) store_->PutBack(std::move(*it));
  taken.clear();
}

void Queue::End(std::vector<AttemptPtr> completed, const Attempt* mine) {
  AttemptPtr last;
  for (AttemptPtr& attempt : completed) {
    if (attempt->registration.has_value()) attempt->caller.cancellation->TryDeregister(*attempt->registration);
    if (attempt.get() == mine) {
      last = std::move(attempt);
    } else if (ThreadPool* const pool = attempt->caller.pool; pool != nullptr) {
      pool->Schedule([self = shared_from_this(), attempt = std::move(attempt)] { self->EndOne(*attempt); });
    } else {
      EndOne(*attempt);
    }
  }
  if (last != nullptr) EndOne(*last);
}

void Queue::EndOne(Attempt& attempt) {
  if (attempt.kind != Attempt::Kind::kDequeue) {
    Done done = std::move(attempt.done);
    return done(attempt.status);
  }
  DequeueDone done = std::move(attempt.dequeue_done);
  if (!attempt.status.ok()) return done(attempt.status, {});
  if (!attempt.many) return done(absl::OkStatus(), std::move(attempt.taken[0]));
  absl::StatusOr<Tuple> batch = Batch(attempt.taken);
  if (batch.ok()) return done(absl::OkStatus(), *std::move(batch));
  Return(std::move(attempt.taken));
  done(batch.status(), {});
}

// Memory for a batch was short: nothing is lost.
void Queue::Return(std::vector<Tuple> taken) {
  std::vector<AttemptPtr> completed;
  {
    MutexLock lock(&mutex_);
    PutBackLocked(taken);
    Flush(&completed);
  }
  End(std::move(completed), nullptr);
}

absl::StatusOr<Tuple> Queue::Batch(std::vector<Tuple>& taken) const {
  return BatchTuples(taken, options_.types, options_.shapes);
}

void Queue::Report(ResourceReport* report) const {
  report->queues.push_back({.name = options_.name, .size = size(), .capacity = options_.capacity});
}

int64_t Queue::size() const {
  MutexLock lock(&mutex_);
  return store_->size();
}

bool Queue::is_closed() const {
  MutexLock lock(&mutex_);
  return closed_;
}

std::string Queue::Describe() const {
  return absl::StrCat("a ", options_.kind, " of (", ListTypes(options_.types), ") with ", size(), " elements");
}

}  // namespace thalweg
