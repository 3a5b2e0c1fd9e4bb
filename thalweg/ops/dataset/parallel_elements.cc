// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/dataset/parallel_elements.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr int64_t kFirstLimit = 2, kMaxTunedLimit = 64;

}  // namespace

PrefetchBuffer::PrefetchBuffer(IteratorContext& context, Next next, int64_t limit)
    : context_(context),
      next_(std::move(next)),
      tune_(limit == kAutotune),
      limit_(tune_ ? kFirstLimit : std::max<int64_t>(1, limit)) {
  context.set_may_wait();
}

PrefetchBuffer::~PrefetchBuffer() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  cancellation_.Cancel(Cancelled("the iterator is gone"));
  thread_.reset();
}

void PrefetchBuffer::Fill() {
  Iteration it{context_, cancellation_};
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!closing_ && static_cast<int64_t>(buffer_.size()) >= limit_) {
        was_full_ = true;
        changed_.Wait(&mutex_);
      }
      if (closing_) return;
      it.wanted = limit_ - static_cast<int64_t>(buffer_.size());
    }
    NextElement element = next_(it);
    MutexLock lock(&mutex_);
    ended_ = element.ok() && !element->has_value();
    buffer_.push_back(std::move(element));
    changed_.SignalAll();
    if (ended_ || closing_) return;
  }
}

NextElement PrefetchBuffer::Pop() {
  NextElement element = std::move(buffer_.front());
  buffer_.pop_front();
  // The end is there for everybody who asks.
  if (element.ok() && !element->has_value()) buffer_.push_back(std::nullopt);
  changed_.SignalAll();
  return element;
}

bool PrefetchBuffer::ready() const {
  MutexLock lock(&mutex_);
  return !buffer_.empty();
}

NextElement PrefetchBuffer::Take(Iteration& it) {
  // Not before the first element is wanted: making elements may have effects.
  if (thread_ == nullptr) thread_ = std::make_unique<Thread>("prefetch", [this] { Fill(); });
  {
    MutexLock lock(&mutex_);
    if (!buffer_.empty()) return Pop();
    // The buffer was full and is empty now: elements are consumed in bursts, so make it larger.
    if (tune_ && std::exchange(was_full_, false)) limit_ = std::min(2 * limit_, kMaxTunedLimit);
    changed_.SignalAll();
  }
  bool cancelled = false;
  const auto id = it.cancellation.Register([&](const absl::Status&) {
    MutexLock lock(&mutex_);
    cancelled = true;
    changed_.SignalAll();
  });
  if (!id) return it.cancellation.status();
  NextElement element = std::nullopt;
  {
    MutexLock lock(&mutex_);
    while (buffer_.empty() && !cancelled) changed_.Wait(&mutex_);
    if (!buffer_.empty())
      element = Pop();
    else
      element = absl::CancelledError();
  }
  it.cancellation.Deregister(*id);
  if (absl::IsCancelled(element.status())) RETURN_IF_ERROR(it.Check());
  return element;
}

void ClaimableWork::RunIfUnclaimed(Cancellation& cancellation) {
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kUnclaimed) return;
    state_ = State::kRunning;
  }
  Work(cancellation);
  MutexLock lock(&mutex_);
  state_ = State::kDone;
  changed_.SignalAll();
}

bool ClaimableWork::Finish(Cancellation& cancellation) {
  RunIfUnclaimed(cancellation);
  if (done()) return true;
  bool cancelled = false;
  const auto id = cancellation.Register([&](const absl::Status&) {
    MutexLock lock(&mutex_);
    cancelled = true;
    changed_.SignalAll();
  });
  if (!id) return false;
  bool finished;
  {
    MutexLock lock(&mutex_);
    while (state_ != State::kDone && !cancelled) changed_.Wait(&mutex_);
    finished = state_ == State::kDone;
  }
  cancellation.Deregister(*id);
  return finished;
}

bool ClaimableWork::done() const {
  MutexLock lock(&mutex_);
  return state_ == State::kDone;
}

void ClaimableWork::Reset() {
  MutexLock lock(&mutex_);
  state_ = State::kUnclaimed;
}

class ParallelCalls::Call final : public ClaimableWork {
 public:
  Call(IteratorContext& context, const CapturedFunction& function, NextElement argument)
      : context_(context), function_(function), argument_(std::move(argument)) {}

  const NextElement& argument() const { return argument_; }
  absl::StatusOr<Element> TakeResult() { return std::move(result_); }

 private:
  void Work(Cancellation& cancellation) override {
    if (!argument_.ok() || cancellation.cancelled()) {
      result_ = argument_.ok() ? cancellation.status() : argument_.status();
      return;
    }
    Iteration it{context_, cancellation};
    const absl::Status thrown = CatchExceptions([&] { result_ = function_(it, **argument_); });
    if (!thrown.ok()) result_ = thrown;
  }

  IteratorContext& context_;
  const CapturedFunction function_;
  const NextElement argument_;  // has a value, or is an error
  absl::StatusOr<Element> result_ = Element();
};

ParallelCalls::ParallelCalls(IteratorContext& context, Next input, CapturedFunction function, int64_t calls,
                             ResultRule rule)
    : context_(context),
      input_(std::move(input)),
      function_(std::move(function)),
      rule_(rule),
      // Allow more calls than threads, so that helpers stay busy while the consumer does other things. More calls than
      // this would not find a thread.
      limit_(calls != kAutotune && calls < AvailableCores() ? calls : 4 * AvailableCores()) {
  context.set_may_wait();
}

ParallelCalls::~ParallelCalls() { cancellation_->Cancel(Cancelled("the iterator is gone")); }

void ParallelCalls::FillWindow(Iteration& it) {
  const int64_t outer = it.wanted;
  while (!ended_ && window_.size() < limit_) {
    it.wanted = static_cast<int64_t>(limit_ - window_.size());
    NextElement argument = input_(it);
    it.wanted = outer;
    if (argument.ok() && !argument->has_value()) {
      ended_ = true;
      return;
    }
    const bool failed = !argument.ok();
    if (failed && it.cancellation.cancelled()) return;
    window_.push_back(std::make_shared<Call>(context_, function_, std::move(argument)));
    if (failed) return;
    context_.helpers().Schedule(
        [call = window_.back(), cancellation = cancellation_] { call->RunIfUnclaimed(*cancellation); });
  }
}

NextElement ParallelCalls::Take(Iteration& it, Element* argument) {
  FillWindow(it);
  if (window_.empty()) {
    RETURN_IF_ERROR(it.Check());
    return std::nullopt;
  }
  const std::shared_ptr<Call> call = window_.front();
  if (!call->Finish(it.cancellation)) return it.cancellation.status();
  window_.pop_front();
  RETURN_IF_ERROR(call->argument().status());
  if (argument != nullptr) *argument = **call->argument();
  return rule_(call->TakeResult());
}

// One sequence, and the part of it that was made and not yet taken.
class InterleavedStreams::Stream final : public ClaimableWork {
 public:
  Stream(IteratorContext& context, Next next, int64_t block)
      : context_(context), next_(std::move(next)), block_(block) {}

  // REQUIRES: no thread works on it.
  bool empty() const { return made_.empty(); }
  NextElement Pop() {
    NextElement element = std::move(made_.front());
    made_.pop_front();
    return element;
  }

 private:
  static constexpr int64_t kMostAhead = 16;  // elements; a block may be as long as a file

  void Work(Cancellation& cancellation) override {
    Iteration it{context_, cancellation};
    for (int64_t i = 0; i < std::min(block_, kMostAhead); ++i) {
      made_.push_back(next_(it));
      if (!made_.back().ok() || !made_.back()->has_value()) return;
    }
  }

  IteratorContext& context_;
  Next next_;
  const int64_t block_;
  std::deque<NextElement> made_;
};

InterleavedStreams::InterleavedStreams(IteratorContext& context, Open open, int64_t cycle, int64_t block, bool parallel)
    : context_(context), open_(std::move(open)), cycle_(cycle), block_(block), parallel_(parallel) {
  if (parallel) context.set_may_wait();
}

InterleavedStreams::~InterleavedStreams() { cancellation_->Cancel(Cancelled("the iterator is gone")); }

void InterleavedStreams::Turn() {
  at_ = (at_ + 1) % static_cast<size_t>(cycle_);
  taken_ = 0;
}

NextElement InterleavedStreams::Take(Iteration& it) {
  while (!ended_ || num_open_ > 0) {
    if (at_ >= streams_.size()) {
      if (ended_) {
        Turn();
        continue;
      }
      streams_.resize(at_ + 1);
    }
    std::shared_ptr<Stream>& stream = streams_[at_];
    if (stream == nullptr) {
      if (ended_) {
        Turn();
        continue;
      }
      ASSIGN_OR_RETURN(std::optional<Next> next, open_(it));
      ended_ = !next;
      if (ended_) continue;
      stream = std::make_shared<Stream>(context_, *std::move(next), parallel_ ? block_ : 1);
      ++num_open_;
    }
    if (!stream->Finish(it.cancellation)) return it.cancellation.status();
    NextElement element = stream->Pop();
    const bool end = element.ok() && !element->has_value();
    if (stream->empty() && !end) {
      stream->Reset();
      if (parallel_) {
        context_.helpers().Schedule([stream, cancellation = cancellation_] { stream->RunIfUnclaimed(*cancellation); });
      }
    }
    RETURN_IF_ERROR(element.status());
    if (end) {
      stream = nullptr;
      --num_open_;
      Turn();
      continue;
    }
    if (++taken_ == block_) Turn();
    return element;
  }
  return std::nullopt;
}

absl::StatusOr<int64_t> ParallelismArgument(KernelContext& c, int i) {
  ASSIGN_OR_RETURN(const int64_t calls, IntArgument(c, i, "num_parallel_calls"));
  if (calls <= 0 && calls != kAutotune) return InvalidArgument("num_parallel_calls must be greater than zero.");
  return calls;
}

}  // namespace thalweg
