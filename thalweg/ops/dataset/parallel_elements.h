// Elements that are made before they are asked for, on other threads, in the same
// order as without.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/ops/dataset/dataset_function.h"

namespace thalweg {

constexpr int64_t kAutotune = -1;

// A buffer that a thread of its own keeps full. One taker at a time.
class PrefetchBuffer {
 public:
  // At most `limit` elements, or as many as turn out to be useful for kAutotune.
  // `context` and all that `next` uses must outlive it.
  PrefetchBuffer(IteratorContext& context, Next next, int64_t limit);
  ~PrefetchBuffer();  // ends the thread

  NextElement Take(Iteration& it);
  bool ready() const;  // Take would not wait

 private:
  void Fill();
  NextElement Pop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  IteratorContext& context_;
  Next next_;  // only the thread calls it
  const bool tune_;
  Cancellation cancellation_;  // of what the thread is doing
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<NextElement> buffer_ ABSL_GUARDED_BY(mutex_);
  int64_t limit_ ABSL_GUARDED_BY(mutex_);
  bool was_full_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the thread makes no more
  std::unique_ptr<Thread> thread_;
};

// A piece of work that one thread does: a helper, or, if none has begun, the
// thread that needs the result. Nobody ever waits for work that has not begun, so
// that helpers which wait for work of others cannot wait for each other.
class ClaimableWork {
 public:
  virtual ~ClaimableWork() = default;
  // Does the work unless somebody else does.
  void RunIfUnclaimed(Cancellation& cancellation);
  // Returns when it is done: true; or when `cancellation` is cancelled.
  bool Finish(Cancellation& cancellation);
  bool done() const;
  // After it was done: it may be claimed again.
  void Reset();

 protected:
  virtual void Work(Cancellation& cancellation) = 0;

 private:
  enum class State { kUnclaimed, kRunning, kDone };
  mutable Mutex mutex_;
  CondVar changed_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kUnclaimed;
};

// Calls of a function on the elements of a sequence, several at a time.
class ParallelCalls {
 public:
  ParallelCalls(IteratorContext& context, Next input, CapturedFunction function, int64_t calls,
                ResultRule rule = NotAnEnd);
  ~ParallelCalls();
  // The result for the next element, and the element itself if `argument` is given.
  NextElement Take(Iteration& it, Element* argument = nullptr);

 private:
  class Call;
  void FillWindow(Iteration& it);

  IteratorContext& context_;
  Next input_;
  const CapturedFunction function_;
  const ResultRule rule_;
  const size_t limit_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();  // of the helpers' calls
  std::deque<std::shared_ptr<Call>> window_;
  bool ended_ = false;
};

// Several sequences in turn, `block` elements of each, `cycle` at a time, each a
// block ahead. A sequence that ends makes room for the next when it is its turn
// again.
class InterleavedStreams {
 public:
  // Opens the next sequence; none after the last.
  using Open = absl::AnyInvocable<absl::StatusOr<std::optional<Next>>(Iteration&)>;
  // `parallel`: whether helpers make blocks ahead.
  InterleavedStreams(IteratorContext& context, Open open, int64_t cycle, int64_t block, bool parallel);
  ~InterleavedStreams();
  NextElement Take(Iteration& it);

 private:
  class Stream;
  void Turn();

  IteratorContext& context_;
  Open open_;
  const int64_t cycle_;
  const int64_t block_;
  const bool parallel_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  std::vector<std::shared_ptr<Stream>> streams_;  // grows to cycle_; nullptr: free
  size_t at_ = 0;
  int64_t taken_ = 0;  // of the current block
  int64_t num_open_ = 0;
  bool ended_ = false;  // there is no other sequence to open
};

// How many calls at a time are meant. INVALID_ARGUMENT if it is neither positive
// nor kAutotune.
absl::StatusOr<int64_t> ParallelismArgument(KernelContext& c, int i);

}  // namespace thalweg
