// SPDX-License-Identifier: Apache-2.0
// A queue of tuples of tensors. A store determines the order. Steps that must wait do not occupy a
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/kernel/resource_report.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

using Tuple = std::vector<Tensor>;

// The storage of a queue's elements. Guarded by the queue.
class QueueStore {
 public:
  virtual ~QueueStore() = default;
  virtual int64_t size() const = 0;
  virtual void Push(Tuple tuple) = 0;
  // REQUIRES: size() > 0.
  virtual Tuple Pop() = 0;
  // Puts back what Pop() returned, last popped first.
  virtual void PutBack(Tuple tuple) = 0;
};
std::unique_ptr<QueueStore> FifoStore();
// Orders tuples by their first component, an int64, lowest first.
std::unique_ptr<QueueStore> PriorityStore();

struct QueueConfig {
  std::string kind;  // "FIFOQueue": for messages, and to tell queues apart
  std::string name;
  int64_t capacity = -1;  // negative: no limit
  std::vector<DType> types;
  std::vector<PartialShape> shapes;  // one per type, or none at all
  bool may_pad = false;              // shapes may be partial; batches are padded with zeros
  bool whole_batches = false;        // DequeueMany waits until all elements are present and takes them atomically
  bool share_batches = false;        // elements of an EnqueueMany may share its memory
  int64_t min_after_dequeue = 0;     // minimum number of elements that remain while the queue is open
  int64_t seed = 0, seed2 = 0;       // seeds of the store
};

// Thread-safe. Enqueues are served in their order of arrival, and so are dequeues. Callbacks run
// without the lock. The callback of a call that does not wait runs on the caller's thread,
// others on their pool.
class Queue : public Resource, public ReportedResource, public std::enable_shared_from_this<Queue> {
 public:
  static constexpr char kTypeName[] = "N10tensorflow14QueueInterfaceE";
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  using DequeueDone = absl::AnyInvocable<void(const absl::Status&, Tuple)>;

  // The caller. What it points to lives until the callback has run.
  struct Caller {
    Cancellation* cancellation = nullptr;  // ends a wait with CANCELLED; no element is lost
    ThreadPool* pool = nullptr;            // runs the callback after a wait; nullptr: any thread
    std::string task;                      // the task of the session, if wants_tasks()
  };

  // INVALID_ARGUMENT if types and shapes do not match.
  static absl::StatusOr<std::shared_ptr<Queue>> Make(QueueConfig options, std::unique_ptr<QueueStore> store);
  static absl::Status Check(const QueueConfig& options);

  const QueueConfig& options() const { return options_; }
  // INVALID_ARGUMENT if `wanted` describes a different queue. `op` is for the message.
  absl::Status Matches(const QueueConfig& wanted, absl::string_view op) const;

  // INVALID_ARGUMENT, immediately, for a tuple that does not fit. CANCELLED if the queue is
  // closed.
  void Enqueue(Tuple tuple, const Caller& caller, Done done);
  // Enqueues one tuple per row. If the call is cancelled, rows that were enqueued stay.
  void EnqueueMany(Tuple batch, const Caller& caller, Done done);
  // OUT_OF_RANGE if the queue is closed and has too few elements.
  void Dequeue(const Caller& caller, DequeueDone done);
  // Dequeues n tuples as one batch. With `fewer_at_end`, a closed queue returns the elements that
  // are left, if any. REQUIRES: n >= 0
  void DequeueMany(int64_t n, bool fewer_at_end, const Caller& caller, DequeueDone done);
  // Closes the queue for new enqueues. Waiting enqueues still complete or, with
  // `cancel_pending_enqueues`, fail.
  void Close(bool cancel_pending_enqueues, const Caller& caller, Done done);

  // No producer is left. Current and future dequeues fail with `why`, until an element is
  // enqueued again.
  void Starve(const absl::Status& why);
  // Fails the dequeues that wait now.
  void FailDequeues(const absl::Status& why);

  virtual bool wants_tasks() const { return false; }  // whether it needs to know its callers' tasks
  int64_t size() const;
  bool is_closed() const;
  std::string Describe() const override;
  void Report(ResourceReport* report) const override;

 protected:
  Queue(QueueConfig options, std::unique_ptr<QueueStore> store)
      : options_(std::move(options)), store_(std::move(store)) {}

  // The tasks of dequeues that wait, and since when. Empty unless wants_tasks().
  std::vector<std::pair<std::string, absl::Time>> WaitingTasks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called when `task` has enqueued or dequeued an element.
  virtual void HasPut(const std::string& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}
  virtual void HasTaken(const std::string& task, const Tuple& element) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}

 private:
  struct Attempt;
  using AttemptPtr = std::shared_ptr<Attempt>;
  enum class Progress { kNone, kSome, kComplete };

  absl::Status CheckTuple(const Tuple& tuple, bool many) const;
  absl::StatusOr<Tuple> Batch(std::vector<Tuple>& taken) const;

  void Start(AttemptPtr attempt);
  void Cancel(const AttemptPtr& attempt);
  void CancelLocked(const AttemptPtr& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs the callbacks of completed attempts: `mine` on this thread, others on their pools.
  void End(std::vector<AttemptPtr> completed, const Attempt* mine);
  void EndOne(Attempt& attempt);
  void Return(std::vector<Tuple> taken);

  void Flush(std::vector<AttemptPtr>* completed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Try(std::list<AttemptPtr>& attempts, std::vector<AttemptPtr>* completed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Progress Run(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Progress RunEnqueue(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Progress RunDequeue(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EndOfQueue(Attempt& attempt, Progress* progress) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PutBackLocked(std::vector<Tuple>& taken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const QueueConfig options_;

 protected:
  mutable Mutex mutex_;

 private:
  const std::unique_ptr<QueueStore> store_ ABSL_PT_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status starved_ ABSL_GUARDED_BY(mutex_);
  std::list<AttemptPtr> enqueues_ ABSL_GUARDED_BY(mutex_);  // and closes
  std::list<AttemptPtr> dequeues_ ABSL_GUARDED_BY(mutex_);
};

// "float, int32", as TensorFlow lists types.
std::string ListTypes(const std::vector<DType>& types);

}  // namespace thalweg
