// SPDX-License-Identifier: Apache-2.0
// Hooks: code that goes with a training and runs around its steps: stopping,
// checkpoints, summaries, the bookkeeping of a synchronous optimizer.
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

// What a hook wants of a step, beside what the program asks for.
struct StepRequest {
  std::vector<Fetch> fetches;
  std::vector<Feed> feeds;
  bool trace = false;  // when and where every node ran, into StepContext::metadata
};

// A step as hooks see it.
class StepContext {
 public:
  // A step that the session counts: see below.
  struct GlobalStep {
    int64_t value = -1;
    bool after_update = false;
  };
  StepContext(Session& session, const RunMetadata* metadata) : StepContext(session, metadata, {}) {}
  StepContext(Session& session, const RunMetadata* metadata, GlobalStep global_step)
      : session_(session), metadata_(metadata), global_step_(global_step) {}

  Session& session() const { return session_; }
  // After the step; nullptr if nobody asked for a trace.
  const RunMetadata* metadata() const { return metadata_; }
  // In AfterRun, the global step that was read in the same step, without a call
  // of its own; in BeforeRun, the last that is known; -1 if the graph has none.
  int64_t global_step() const { return global_step_.value; }
  // True if the step has moved it on and this is the value afterwards. Else it
  // may be one from before an update that the step has waited for.
  bool global_step_is_after_update() const { return global_step_.after_update; }
  // No step after this one.
  void RequestStop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }

 private:
  Session& session_;
  const RunMetadata* metadata_;
  GlobalStep global_step_;
  bool stop_requested_ = false;
};

// Called from the thread that runs the steps, in this order. An error ends the
// training, except that of a lost task, after which the session is made anew
// and AfterCreateSession comes again. A task that is lost in AfterRun does not
// undo the step: it has run, and is not repeated.
class Hook {
 public:
  virtual ~Hook() = default;

  // Before Begin: what a hook that ends the training from another thread calls.
  virtual void Attach(std::shared_ptr<Interruption> interruption) {}
  // Once, before the first session: the last chance to add to the graph.
  virtual absl::Status Begin(const Scope& s) { return absl::OkStatus(); }
  // Variables are initialized or restored.
  virtual absl::Status AfterCreateSession(Session& session) { return absl::OkStatus(); }
  // Asked after AfterCreateSession: true if there is nothing to do, so that not
  // one step is wanted.
  virtual bool ShouldStop() const { return false; }
  virtual absl::StatusOr<StepRequest> BeforeRun(StepContext& context) { return StepRequest{}; }
  // `results` are those of the fetches that this hook asked for.
  virtual absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) { return absl::OkStatus(); }
  // The training ended well; the session is still open.
  virtual absl::Status End(Session& session) { return absl::OkStatus(); }
  // The session is about to go, for whatever reason (its end, an error, a lost
  // task): the last call for it, made for every session that AfterCreateSession
  // was called for. Threads of the hook must not use the session afterwards.
  virtual void BeforeCloseSession(Session& session) {}
};

// Hooks in the order in which they are called.
using HookList = std::vector<std::shared_ptr<Hook>>;

// First those of `a`, then those of `b`.
inline HookList operator+(HookList a, const HookList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Ends the training when the global step has reached `last_step`, in every
// worker; not one step is run if it has already. The step is read within the
// steps, so that it costs no calls.
std::shared_ptr<Hook> StopAtStep(int64_t last_step);
// So many steps of all workers together, from where this session starts.
std::shared_ptr<Hook> StopAfterSteps(int64_t num_steps);

// How often: in steps or in time. 0 is not at all; both: whichever comes first.
struct Every {
  int64_t every_n_steps = 0;
  double every_n_secs = 0;
  Clock* clock = &RealClock();
};

// Decides when it is time again. The first time is at once. A value.
class EveryTimer {
 public:
  explicit EveryTimer(const Every& every) : every_(every) {}
  bool IsDue(int64_t step) const;
  // The seconds and steps since the last time, 0 at the first.
  std::pair<double, int64_t> Done(int64_t step);

 private:
  Every every_;
  bool started_ = false;
  int64_t last_step_ = 0;
  int64_t last_nanos_ = 0;
};

// Logs "step 100: loss = 0.25, accuracy = 0.9 (1.2 s)". Without `every`, at each
// step. The step is the global step, or a count of this session's steps.
std::shared_ptr<Hook> LogTensors(std::vector<std::pair<std::string, Output>> tensors,
                                 Every every = {.every_n_steps = 1});

// Looks at `loss` in every step. When it is not a number the training ends: with
// FAILED_PRECONDITION or, if `fail` is false, as at its last step.
std::shared_ptr<Hook> NanGuard(Output loss, bool fail = true);

// Gives values to feeds before every step.
std::shared_ptr<Hook> FeedFunction(std::function<absl::StatusOr<std::vector<Feed>>()> feeds);

// Lets a worker wait, before its first step, until others have brought the
// global step to `step`: workers that start one after the other.
std::shared_ptr<Hook> GlobalStepWaiter(int64_t step, absl::Duration max_wait = absl::Hours(2));

// Fetches values when the training has ended well.
class FinalOpsHook : public Hook {
 public:
  explicit FinalOpsHook(std::vector<Fetch> fetches, std::vector<Feed> feeds = {})
      : fetches_(std::move(fetches)), feeds_(std::move(feeds)) {}
  absl::Status End(Session& session) override;
  // Empty before the end.
  const std::vector<Tensor>& values() const { return values_; }

 private:
  const std::vector<Fetch> fetches_;
  const std::vector<Feed> feeds_;
  std::vector<Tensor> values_;
};
// Makes a FinalOpsHook.
std::shared_ptr<FinalOpsHook> FinalOps(std::vector<Fetch> fetches, std::vector<Feed> feeds = {});

}  // namespace thalweg
