// Queue: tuples of tensors that steps put in and take out, in the order that a
// store decides. Whoever cannot go on waits, without a thread.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

using Tuple = std::vector<Tensor>;

// Where the elements of a queue are. Guarded by the queue.
class QueueStore {
 public:
  virtual ~QueueStore() = default;
  virtual int64_t size() const = 0;
  virtual void Push(Tuple tuple) = 0;
  // REQUIRES: size() > 0.
  virtual Tuple Pop() = 0;
  // Takes back what Pop gave; the last one popped comes first.
  virtual void PutBack(Tuple tuple) = 0;
};
std::unique_ptr<QueueStore> FifoStore();
// The lowest first component, an int64, comes first.
std::unique_ptr<QueueStore> PriorityStore();

struct QueueConfig {
  std::string kind;  // "FIFOQueue": for messages, and to tell queues apart
  std::string name;
  int64_t capacity = -1;  // without limit if negative
  std::vector<DType> types;
  std::vector<PartialShape> shapes;  // one per type, or none at all
  bool may_pad = false;              // shapes may be partial: batches are filled up with zeros
  bool whole_batches = false;        // DequeueMany waits until all are there, and takes them at once
  bool share_batches = false;        // elements of an EnqueueMany may share its memory
  int64_t min_after_dequeue = 0;     // so many stay while it is open
  int64_t seed = 0, seed2 = 0;       // of the store
};

// Thread-safe. Attempts are served in the order they came, those to put in and
// those to take out each for themselves. Callbacks run without the lock: that
// of the caller's own attempt on this thread if it need not wait, others on
// their pool.
class Queue : public Resource, public std::enable_shared_from_this<Queue> {
 public:
  static constexpr char kTypeName[] = "N10tensorflow14QueueInterfaceE";
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  using DequeueDone = absl::AnyInvocable<void(const absl::Status&, Tuple)>;

  // Who asks. What it points to lives until the callback has run.
  struct Caller {
    Cancellation* cancellation = nullptr;  // ends a wait: CANCELLED, and nothing is lost
    ThreadPool* pool = nullptr;            // where to go on after a wait; nullptr: anywhere
    std::string task;                      // whose session it is, if the queue wants to know
  };

  // INVALID_ARGUMENT if types and shapes do not fit together.
  static absl::StatusOr<std::shared_ptr<Queue>> Make(QueueConfig options, std::unique_ptr<QueueStore> store);
  static absl::Status Check(const QueueConfig& options);

  const QueueConfig& options() const { return options_; }
  // INVALID_ARGUMENT if another queue of this name is wanted. `op`: that asks.
  absl::Status Matches(const QueueConfig& wanted, absl::string_view op) const;

  // INVALID_ARGUMENT, at once, for a tuple that does not fit. CANCELLED if the
  // queue is closed.
  void Enqueue(Tuple tuple, const Caller& caller, Done done);
  // One tuple per row. Those that were put in stay if the rest is cancelled.
  void EnqueueMany(Tuple batch, const Caller& caller, Done done);
  // OUT_OF_RANGE if the queue is closed and has not enough.
  void Dequeue(const Caller& caller, DequeueDone done);
  // n tuples as the rows of one. With `fewer_at_end` a closed queue gives what
  // it has, if that is anything. REQUIRES: n >= 0
  void DequeueMany(int64_t n, bool fewer_at_end, const Caller& caller, DequeueDone done);
  // No more can be put in. What waits to be put in comes first or, with
  // `cancel_pending_enqueues`, is refused.
  void Close(bool cancel_pending_enqueues, const Caller& caller, Done done);

  // Nobody is left who would put anything in: whoever waits to take something out
  // gets `why`, and so do those that come, until something is put in again.
  void Starve(const absl::Status& why);

  virtual bool wants_tasks() const { return false; }  // of its callers
  int64_t size() const;
  bool is_closed() const;
  std::string Describe() const override;

 protected:
  Queue(QueueConfig options, std::unique_ptr<QueueStore> store)
      : options_(std::move(options)), store_(std::move(store)) {}

  // An element of `task` was put in, or taken out.
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
  // Ends what the flush completed: that of `mine` here, others on their pools.
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
