// The hooks that trainings use. Each function makes one.
//
//   .hooks = {StopAtStep(2000), NanGuard(loss), LogTensors({{"loss", loss}}, {.every_n_steps = 100})}
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "thalweg/base/clock.h"
#include "thalweg/train/session/hook.h"

namespace thalweg {

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
std::shared_ptr<FinalOpsHook> FinalOps(std::vector<Fetch> fetches, std::vector<Feed> feeds = {});

}  // namespace thalweg
