// SPDX-License-Identifier: Apache-2.0
// Produces elements ahead of time on other threads, in the same order as without them.
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

// A buffer that a background thread keeps full. One consumer at a time.
class PrefetchBuffer {
 public:
  // Holds at most `limit` elements; with kAutotune, the limit adapts. `context` and everything that `next` uses
  // must outlive the buffer.
  PrefetchBuffer(IteratorContext& context, Next next, int64_t limit);
  ~PrefetchBuffer();  // ends the thread

  NextElement Take(Iteration& it);
  bool ready() const;  // Take() would not wait

 private:
  void Fill();
  NextElement Pop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  IteratorContext& context_;
  Next next_;  // called by the thread only
  const bool tune_;
  Cancellation cancellation_;  // ends the work of the thread
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<NextElement> buffer_ ABSL_GUARDED_BY(mutex_);
  int64_t limit_ ABSL_GUARDED_BY(mutex_);
  bool was_full_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the thread produces no more elements
  std::unique_ptr<Thread> thread_;
};

// A unit of work that one thread does: a helper or, if no helper has started it, the thread that needs the
// result. No thread ever waits for work that has not been started, so helpers that wait for other work cannot
// deadlock.
class ClaimableWork {
 public:
  virtual ~ClaimableWork() = default;
  // Does the work unless another thread has claimed it.
  void RunIfUnclaimed(Cancellation& cancellation);
  // Waits until the work is done and returns true, or false when `cancellation` is cancelled.
  bool Finish(Cancellation& cancellation);
  bool done() const;
  // Makes finished work claimable again.
  void Reset();

 protected:
  virtual void Work(Cancellation& cancellation) = 0;

 private:
  enum class State { kUnclaimed, kRunning, kDone };
  mutable Mutex mutex_;
  CondVar changed_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kUnclaimed;
};

// Calls a function on the elements of a sequence, several at a time.
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
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();  // cancels the helpers' calls
  std::deque<std::shared_ptr<Call>> window_;
  bool ended_ = false;
};

// Interleaves sequences: `cycle` at a time, `block` elements of each in turn. Each is produced one block ahead. A
// sequence that has ended is replaced by the next one when its turn comes again.
class InterleavedStreams {
 public:
  // Opens the next sequence; returns none after the last.
  using Open = absl::AnyInvocable<absl::StatusOr<std::optional<Next>>(Iteration&)>;
  // With `parallel`, helpers produce the blocks.
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
  int64_t taken_ = 0;  // elements taken from the current block
  int64_t num_open_ = 0;
  bool ended_ = false;  // there is no other sequence to open
};

// Reads the number of parallel calls. INVALID_ARGUMENT if it is neither positive nor kAutotune.
absl::StatusOr<int64_t> ParallelismArgument(KernelContext& c, int i);

}  // namespace thalweg
