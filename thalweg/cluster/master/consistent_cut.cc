// SPDX-License-Identifier: Apache-2.0
// Steps that read a consistent cut of all tasks, for checkpoints.
//
// The updates of one step reach different tasks at different times. While the values are
// read, the masters of all sessions delay the steps that update variables of other tasks,
// and wait for those that have begun. Each step is then either in all of the values or in
// none. The tasks that hold the values know these masters: each task forwards the pause to
// the masters of its sessions.
//
// The values are read when the nodes that save them hold references to them: updates then
// write to new memory. Each task with such nodes tells the master, which ends the pause. The
// files are written while other steps update.
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"
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
      : callable_(std::move(callable)),
        timer_(timer),
        left_(static_cast<int>(callable_->parts.size())),
        to_resume_(static_cast<int>(callable_->parts.size())) {
    request_.set_id(static_cast<uint64_t>(NewRequestId()));
    request_.set_lease_ms(absl::ToInt64Milliseconds(kLease));
    request_.set_relay(true);
    request_.set_overwrites(callable_->updates);
  }

  uint64_t id() const { return request_.id(); }

  // Calls `then` when no step updates variables any more, or with the reason why a master
  // could not be paused.
  void Begin(std::shared_ptr<Cancellation> cancellation, absl::AnyInvocable<void(const absl::Status&)> then) {
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
    if (ended_.exchange(true)) return;
    auto request = std::make_shared<tensorflow::PauseUpdatesRequest>(request_);
    request->set_resume(true);
    for (const ClusterCallable::Part& part : callable_->parts) {
      part.worker->PauseUpdates({.timeout = kResumeTimeout}, *request,
                                [self = shared_from_this(), request, &part](const absl::Status& status) {
                                  self->Resumed(part.task, status);
                                });
    }
  }
  // After End(): calls `then` when all tasks have answered. ABORTED if the pause had run out before, because this
  // process or one that relays its calls stood still.
  void AwaitEnd(absl::AnyInvocable<void(const absl::Status&)> then) {
    absl::Status ran_out;
    {
      MutexLock lock(&mutex_);
      if (to_resume_ > 0) {
        when_ended_ = std::move(then);
        return;
      }
      ran_out = ran_out_;
    }
    then(ran_out);
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

  void Resumed(const std::string& task, const absl::Status& status) {
    absl::AnyInvocable<void(const absl::Status&)> then;
    absl::Status ran_out;
    {
      MutexLock lock(&mutex_);
      if (absl::IsAborted(status) && ran_out_.ok()) ran_out_ = Prepend(status, absl::StrCat(task, ": "));
      if (--to_resume_ > 0 || when_ended_ == nullptr) return;
      ran_out = ran_out_;
      then = std::move(when_ended_);
    }
    then(ran_out);
  }

  void Paused(const std::string& task, const absl::Status& status) {
    // Tasks of TensorFlow do not hold steps back.
    if (!status.ok() && !absl::IsUnimplemented(status)) {
      MutexLock lock(&mutex_);
      if (failed_.ok()) failed_ = Prepend(status, absl::StrCat(task, ": "));
    }
    if (left_.fetch_sub(1) > 1) return;
    absl::Status failed;
    {
      MutexLock lock(&mutex_);
      failed = failed_;
    }
    absl::AnyInvocable<void(const absl::Status&)> then = std::move(then_);
    then(failed);
  }

  const std::shared_ptr<const ClusterCallable> callable_;
  Timer* const timer_;
  std::atomic<bool> ended_{false};
  tensorflow::PauseUpdatesRequest request_;
  std::shared_ptr<Cancellation> cancellation_;
  absl::AnyInvocable<void(const absl::Status&)> then_;
  std::atomic<int> left_;
  Mutex mutex_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  int to_resume_ ABSL_GUARDED_BY(mutex_);  // tasks that have not answered that the pause has ended
  absl::Status ran_out_ ABSL_GUARDED_BY(mutex_);
  absl::AnyInvocable<void(const absl::Status&)> when_ended_ ABSL_GUARDED_BY(mutex_);
};

// The tasks whose parts save variables.
std::set<std::string> SavingTasks(const ClusterCallable& callable) {
  std::set<std::string> tasks;
  for (const ClusterCallable::Part& part : callable.parts) {
    if (part.saves) tasks.insert(part.task);
  }
  return tasks;
}

// After UNAVAILABLE, trainings make a new session and go on. Programs of ours also go on when a save fails for another
// reason.
absl::Status NotAtOneMoment(bool cut, const absl::Status& why) {
  const std::string message = absl::StrCat(
      "The checkpoint was not written: its values would be of different moments, because steps that change variables "
      "could not be paused: ",
      why.message());
  const bool lost = absl::IsUnavailable(why) || absl::IsAborted(why);
  return cut && !lost ? absl::DeadlineExceededError(message) : absl::UnavailableError(message);
}

}  // namespace

void MasterSession::RunAtOneMoment(MasterStepCall call) {
  const auto pause = std::make_shared<Pause>(call.callable, options_.timer);
  // A step that also updates variables must not let others in between.
  UpdateGate* const gate = call.callable->saves && !call.callable->updates ? options_.gate : nullptr;
  if (gate != nullptr) {
    call.pause = pause->id();
    gate->AwaitHeld(pause->id(), SavingTasks(*call.callable), [pause] { pause->End(); });
  }
  const bool cut = call.run_options.thalweg().cut();
  call.done = [pause, gate, cut, updates = call.callable->updates, result = call.result,
               done = std::move(call.done)](const absl::Status& status) mutable {
    if (gate != nullptr) gate->ForgetHeld(pause->id());
    pause->End();
    if (!status.ok() || updates) return done(status);
    pause->AwaitEnd([cut, result, done = std::move(done)](const absl::Status& ran_out) mutable {
      if (ran_out.ok()) return done(ran_out);
      result->step_failed = true;
      done(NotAtOneMoment(cut, DeadlineExceeded(ran_out.message())));
    });
  };
  std::shared_ptr<Cancellation> cancellation = call.scope->shared_cancellation();
  Cancellation* const cancelled = cancellation.get();
  pause->Begin(std::move(cancellation), [self = shared_from_this(), cancelled, cut,
                                         call = std::move(call)](const absl::Status& paused) mutable {
    // The values would be of different moments. A step that gives all variables new values does not read them.
    if (!paused.ok() && !call.callable->updates) {
      const absl::Status why = cancelled->cancelled() ? cancelled->status() : NotAtOneMoment(cut, paused);
      call.result->step_failed = true;
      Master::Done done = std::move(call.done);
      call.scope.reset();
      return done(why);
    }
    if (!paused.ok() && !cancelled->cancelled()) {
      LOG(WARNING) << "Steps that change variables may run while they get new values: " << paused.message();
    }
    self->Launch(std::move(call));
  });
}

}  // namespace thalweg
