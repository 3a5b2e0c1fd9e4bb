// SPDX-License-Identifier: Apache-2.0
// Steps that read a consistent cut of all tasks, for checkpoints.
//
// The updates of one step reach different tasks at different times. While the values are
// read, the masters of all sessions delay the steps that update variables of other tasks,
// and wait for those that have begun. Each step is then either in all of the values or in
// none. The tasks that hold the values know these masters: each task forwards the pause to
// the masters of its sessions.
#include <atomic>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/master/master_session.h"
#include "thalweg/cluster/master/master_step.h"
#include "thalweg/cluster/request_id.h"

namespace thalweg {
namespace {

// The longest time for which steps are delayed if this master dies meanwhile. It is renewed while the step of the cut
// runs.
constexpr absl::Duration kLease = absl::Seconds(3);
constexpr absl::Duration kRenewEvery = absl::Seconds(1);
// How long to wait for the steps that have begun.
constexpr absl::Duration kMaxWait = absl::Seconds(30);
constexpr absl::Duration kResumeTimeout = absl::Seconds(5);

// One pause, in all tasks of a callable.
class Pause : public std::enable_shared_from_this<Pause> {
 public:
  // The timer is borrowed. It must outlive the calls that the pause makes.
  Pause(std::shared_ptr<const ClusterCallable> callable, Timer* timer)
      : callable_(std::move(callable)), timer_(timer), left_(static_cast<int>(callable_->parts.size())) {
    request_.set_id(static_cast<uint64_t>(NewRequestId()));
    request_.set_lease_ms(absl::ToInt64Milliseconds(kLease));
    request_.set_relay(true);
    request_.set_overwrites(callable_->updates);
  }

  // Calls `then` when no step updates variables any more. If a master could not be paused,
  // calls it anyway and logs that the cut is not consistent.
  void Begin(std::shared_ptr<Cancellation> cancellation, absl::AnyInvocable<void()> then) {
    cancellation_ = std::move(cancellation);
    then_ = std::move(then);
    for (const ClusterCallable::Part& part : callable_->parts) {
      part.worker->PauseUpdates(
          {.timeout = kMaxWait, .cancellation = cancellation_.get()}, request_,
          [self = shared_from_this(), &part](const absl::Status& status) { self->Paused(part.task, status); });
    }
    RenewLater();
  }

  void End() {
    ended_ = true;
    auto request = std::make_shared<tensorflow::PauseUpdatesRequest>(request_);
    request->set_resume(true);
    for (const ClusterCallable::Part& part : callable_->parts) {
      part.worker->PauseUpdates({.timeout = kResumeTimeout}, *request, [request](const absl::Status&) {});
    }
  }

 private:
  void RenewLater() {
    timer_->Set(absl::Now() + kRenewEvery, [weak = weak_from_this()] {
      const std::shared_ptr<Pause> self = weak.lock();
      if (self == nullptr || self->ended_) return;
      auto request = std::make_shared<tensorflow::PauseUpdatesRequest>(self->request_);
      for (const ClusterCallable::Part& part : self->callable_->parts) {
        part.worker->PauseUpdates({.timeout = kMaxWait}, *request, [request](const absl::Status&) {});
      }
      self->RenewLater();
    });
  }

  void Paused(const std::string& task, const absl::Status& status) {
    // Tasks of TensorFlow do not hold steps back.
    if (!status.ok() && !absl::IsUnimplemented(status) && !cancellation_->cancelled()) {
      LOG(WARNING) << "The checkpoint is not a consistent cut: could not pause the updates of " << task << ": "
                   << status.message();
    }
    if (left_.fetch_sub(1) == 1) then_();
  }

  const std::shared_ptr<const ClusterCallable> callable_;
  Timer* const timer_;
  std::atomic<bool> ended_{false};
  tensorflow::PauseUpdatesRequest request_;
  std::shared_ptr<Cancellation> cancellation_;
  absl::AnyInvocable<void()> then_;
  std::atomic<int> left_;
};

}  // namespace

void MasterSession::RunAtOneMoment(MasterStepCall call) {
  const auto pause = std::make_shared<Pause>(call.callable, options_.timer);
  call.done = [pause, done = std::move(call.done)](const absl::Status& status) mutable {
    pause->End();
    done(status);
  };
  std::shared_ptr<Cancellation> cancellation = call.scope->shared_cancellation();
  pause->Begin(std::move(cancellation),
               [self = shared_from_this(), call = std::move(call)]() mutable { self->Launch(std::move(call)); });
}

}  // namespace thalweg
