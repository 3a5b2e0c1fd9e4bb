// SPDX-License-Identifier: Apache-2.0
// Hooks: code that runs around the steps of a training session, for stopping,
// checkpoints, summaries or the bookkeeping of a synchronous optimizer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "thalweg/base/clock.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/scope.h"
#include "thalweg/train/session/interruption.h"

namespace thalweg {

// Fetches and feeds that a hook adds to a step of the program.
struct StepRequest {
  std::vector<Fetch> fetches;  // their results are passed to AfterRun
  std::vector<Feed> feeds;     // a tensor may be fed once only
  bool trace = false;          // record when and where every node ran, in StepContext::metadata()
};

// A step as hooks see it.
class StepContext {
 public:
  // The global step as far as the session knows it; see global_step().
  struct GlobalStep {
    int64_t value = -1;         // -1: not known
    bool after_update = false;  // see global_step_is_after_update()
  };
  // Made by the session; hooks only read it:
  StepContext(Session& session, const RunMetadata* metadata) : StepContext(session, metadata, {}) {}
  StepContext(Session& session, const RunMetadata* metadata, GlobalStep global_step)
      : session_(session), metadata_(metadata), global_step_(global_step) {}

  // The session that runs the step.
  Session& session() const { return session_; }
  // The trace, in AfterRun; nullptr if no hook has asked for one.
  const RunMetadata* metadata() const { return metadata_; }
  // In AfterRun, the global step as this step has read it, without another call. In
  // BeforeRun, the last known one. -1 if the graph has no global step.
  int64_t global_step() const { return global_step_.value; }
  // True if the step has incremented the global step and global_step() is the value
  // after that. Otherwise the value may be older than an update of this step.
  bool global_step_is_after_update() const { return global_step_.after_update; }
  // Ends the training after this step.
  void RequestStop() { stop_requested_ = true; }
  // True once RequestStop() was called.
  bool stop_requested() const { return stop_requested_; }

 private:
  Session& session_;
  const RunMetadata* metadata_;
  GlobalStep global_step_;
  bool stop_requested_ = false;
};

// The thread that runs the steps calls the methods, in this order. An error that
// one returns ends the training. After the error of a lost task, however, the
// session is created again and AfterCreateSession is called once more. If a task is
// lost in AfterRun, the step is not repeated: it has run.
class Hook {
 public:
  virtual ~Hook() = default;

  // Called before Begin. A hook that ends the training from another thread keeps `interruption` for that.
  virtual void Attach(const std::shared_ptr<Interruption>& interruption) {}
  // Called once, before the first session. The hook may add to the graph here, not later.
  virtual absl::Status Begin(const Scope& s) { return absl::OkStatus(); }
  // Called by the chief before AfterCreateSession if it has initialized or restored the variables since the last
  // session.
  virtual void AfterValuesGiven() {}
  // Called when a session is open and its variables are initialized or restored.
  virtual absl::Status AfterCreateSession(Session& session) { return absl::OkStatus(); }
  // Called after AfterCreateSession. True ends the training before the first step.
  virtual bool ShouldStop() const { return false; }
  // Called after AfterCreateSession. The global step at which the hook ends the training, for the
  // time left in the job's status; -1: not known.
  virtual int64_t stop_step() const { return -1; }
  // Called before each step. Returns the fetches and feeds that the hook adds to it.
  virtual absl::StatusOr<StepRequest> BeforeRun(StepContext& context) { return StepRequest{}; }
  // Called after each step with the results of the hook's own fetches.
  virtual absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) { return absl::OkStatus(); }
  // Called when a step could not run, or its results could not be handled, because a task was lost. An error ends the
  // training with this error. Otherwise the session is created again.
  virtual absl::Status AfterTaskLost(const absl::Status& why) { return absl::OkStatus(); }
  // Called when the training has ended without an error. The session is still open.
  virtual absl::Status End(Session& session) { return absl::OkStatus(); }
  // Called before a session closes for any reason: the end, an error or a lost task.
  // Follows every AfterCreateSession. Threads of the hook must not use the session
  // afterwards.
  virtual void BeforeCloseSession(Session& session) {}
  // Called when a step has failed with `error`. A hook that knows the cause returns it instead of OK.
  virtual absl::Status CauseOfFailure(const absl::Status& error) { return absl::OkStatus(); }
};

// Hooks in the order in which they are called.
using HookList = std::vector<std::shared_ptr<Hook>>;

// First those of `a`, then those of `b`.
inline HookList operator+(HookList a, const HookList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Ends the training, in every worker, when the global step has reached `last_step`.
// Runs no step if it has already. The global step is read along with each step,
// without calls of its own.
std::shared_ptr<Hook> StopAtStep(int64_t last_step);
// Ends the training after `num_steps` global steps, counted from the start of this session.
std::shared_ptr<Hook> StopAfterSteps(int64_t num_steps);

// An interval in steps, in time, or both: then whichever ends first.
struct Every {
  int64_t every_n_steps = 0;    // 0: not by steps
  double every_n_secs = 0;      // seconds; 0: not by time
  Clock* clock = &RealClock();  // borrowed; tests set their own
};

// Decides when an interval has ended. The first call of IsDue() returns true. A value.
class EveryTimer {
 public:
  explicit EveryTimer(const Every& every) : every_(every) {}  // starts before the first interval
  bool IsDue(int64_t step) const;                             // true if the interval has ended at `step`
  // Starts the next interval. Returns the seconds and steps since the last call, 0 at the first.
  std::pair<double, int64_t> Done(int64_t step);

 private:
  Every every_;
  bool started_ = false;
  int64_t last_step_ = 0;
  int64_t last_nanos_ = 0;
};

// Logs "step 100: loss = 0.25, accuracy = 0.9 (1.2 s)", by default at each step.
// The step is the global step or, without one, a count of this session's steps.
std::shared_ptr<Hook> LogTensors(std::vector<std::pair<std::string, Output>> tensors,
                                 Every every = {.every_n_steps = 1});

// How NanGuard ends the training.
struct NanGuardOptions {
  bool fail = true;  // with FAILED_PRECONDITION; else as after its last step
};
// Ends the training when `loss` is NaN.
std::shared_ptr<Hook> NanGuard(Output loss, const NanGuardOptions& options = {});

// Calls `feeds` before every step and feeds the values that it returns.
std::shared_ptr<Hook> FeedFunction(std::function<absl::StatusOr<std::vector<Feed>>()> feeds);

// Makes a worker wait, before its first step, until others have brought the global
// step to `step`. Workers can thus start one after the other. DEADLINE_EXCEEDED if the step has
// not changed for `max_wait`.
std::shared_ptr<Hook> GlobalStepWaiter(int64_t step, absl::Duration max_wait = absl::Minutes(10));

// Fetches values when the training has ended without an error.
class FinalOpsHook : public Hook {
 public:
  // Tensors to fetch, and their feeds. FinalOps() makes one.
  explicit FinalOpsHook(std::vector<Fetch> fetches, std::vector<Feed> feeds = {})
      : fetches_(std::move(fetches)), feeds_(std::move(feeds)) {}
  // Fetches the values.
  absl::Status End(Session& session) override;
  // The fetched values, in the order of the fetches. Empty before the end.
  const std::vector<Tensor>& values() const { return values_; }

 private:
  const std::vector<Fetch> fetches_;
  const std::vector<Feed> feeds_;
  std::vector<Tensor> values_;
};
// Makes a FinalOpsHook.
std::shared_ptr<FinalOpsHook> FinalOps(std::vector<Fetch> fetches, std::vector<Feed> feeds = {});

}  // namespace thalweg
