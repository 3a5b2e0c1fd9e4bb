// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/hooks.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/session/wait_backoff.h"

namespace thalweg {
namespace {

absl::StatusOr<Var> NeedGlobalStep(const Scope& s, absl::string_view hook) {
  const Var step = GetGlobalStep(s.graph());
  if (!step) return FailedPrecondition(hook, " needs a global step: call GetOrCreateGlobalStep");
  return step;
}

absl::StatusOr<int64_t> ReadStep(Session& session, const Var& step) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> value, session.Run({step}));
  if (value[0].dtype() != kInt64 || value[0].num_elements() != 1) {
    return InvalidArgument("global step '", step.name(), "' is ", value[0].ToString(1), ", must be one int64");
  }
  return value[0].scalar<int64_t>();
}

class StopHook : public Hook {
 public:
  StopHook(std::optional<int64_t> last_step, int64_t num_steps)
      : by_count_(!last_step), last_step_(last_step), num_steps_(num_steps) {}

  absl::Status Begin(const Scope& s) override {
    ASSIGN_OR_RETURN(global_step_, NeedGlobalStep(s, Name()));
    return absl::OkStatus();
  }
  absl::Status AfterCreateSession(Session& session) override {
    ASSIGN_OR_RETURN(const int64_t step, ReadStep(session, global_step_));
    if (!last_step_) last_step_ = step + num_steps_;
    nothing_to_do_ = step >= *last_step_;
    return absl::OkStatus();
  }
  bool ShouldStop() const override { return nothing_to_do_; }
  int64_t stop_step() const override { return last_step_.value_or(-1); }
  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) override {
    int64_t step = context.global_step();
    WatchProgress(step);
    // The last step of synchronous training, whose increment another worker makes.
    if (step == *last_step_ - 1 && !context.global_step_is_after_update()) {
      ASSIGN_OR_RETURN(step, ReadStep(context.session(), global_step_));
    }
    if (step >= *last_step_) context.RequestStop();
    return absl::OkStatus();
  }

 private:
  // If nothing increments the global step, the training never stops. Warns about that, again
  // each time the number of steps has doubled.
  void WatchProgress(int64_t step) {
    if (step != seen_step_) {
      seen_step_ = step;
      standstill_ = 0;
      say_at_ = kStandstill;
      return;
    }
    if (++standstill_ < say_at_) return;
    say_at_ *= 2;
    LOG(WARNING) << Name() << " waits for global step " << *last_step_ << ", but after " << standstill_
                 << " steps of this worker it is still " << step
                 << ": does the optimizer increment it, as in Minimize(s, loss, {.global_step = step})?";
  }
  const char* Name() const { return by_count_ ? "StopAfterSteps" : "StopAtStep"; }

  static constexpr int64_t kStandstill = 100;
  const bool by_count_;
  std::optional<int64_t> last_step_;
  const int64_t num_steps_;
  Var global_step_;
  bool nothing_to_do_ = false;
  int64_t seen_step_ = -1;
  int64_t standstill_ = 0;  // steps since it was another
  int64_t say_at_ = kStandstill;
};

class LogHook : public Hook {
 public:
  LogHook(std::vector<std::pair<std::string, Output>> tensors, const Every& every)
      : tensors_(std::move(tensors)), timer_(every) {}

  absl::StatusOr<StepRequest> BeforeRun(StepContext& context) override {
    step_ = context.global_step() >= 0 ? context.global_step() + 1 : step_ + 1;  // the one that is coming
    StepRequest request;
    if (due_ = timer_.IsDue(step_); due_) {
      for (const auto& [name, tensor] : tensors_) request.fetches.push_back(tensor);
    }
    return request;
  }
  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) override {
    if (!due_) return absl::OkStatus();
    const int64_t step = context.global_step() >= 0 ? context.global_step() : step_;
    std::vector<std::string> parts;
    for (size_t i = 0; i < tensors_.size(); ++i)
      parts.push_back(absl::StrCat(tensors_[i].first, " = ", Value(results[i])));
    const auto [seconds, steps] = timer_.Done(step);
    const std::string time = steps > 0 ? absl::StrFormat(" (%.3g s)", seconds) : "";
    LOG(INFO) << "step " << step << ": " << absl::StrJoin(parts, ", ") << time;
    return absl::OkStatus();
  }

 private:
  // Without type and shape if it is one number.
  static std::string Value(const Tensor& t) {
    if (t.num_elements() == 1 && t.dtype() == kFloat) return absl::StrFormat("%g", t.scalar<float>());
    if (t.num_elements() == 1 && t.dtype() == kInt64) return absl::StrCat(t.scalar<int64_t>());
    return t.ToString();
  }

  const std::vector<std::pair<std::string, Output>> tensors_;
  EveryTimer timer_;
  int64_t step_ = 0;
  bool due_ = false;
};

bool HasNan(const Tensor& t) {
  bool found = false;
  const absl::Status floating = Dispatch(FloatTypes(), t.dtype(), [&]<typename T>() {
    for (const T v : t.flat<T>()) found = found || std::isnan(static_cast<double>(v));
    return absl::OkStatus();
  });
  return floating.ok() && found;  // whatever else there is, is a number
}

class NanHook : public Hook {
 public:
  NanHook(Output loss, bool fail) : loss_(loss), fail_(fail) {}
  absl::StatusOr<StepRequest> BeforeRun(StepContext& context) override {
    return StepRequest{.fetches = {loss_}, .feeds = {}};
  }
  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) override {
    if (!HasNan(results[0])) return absl::OkStatus();
    const absl::Status error =
        FailedPrecondition("NaN loss: ", loss_.name(), " is ", results[0], " at global step ", context.global_step());
    if (fail_) return error;
    LOG(ERROR) << "Training stops: " << error.message();
    context.RequestStop();
    return absl::OkStatus();
  }

 private:
  const Output loss_;
  const bool fail_;
};

class FeedHook : public Hook {
 public:
  explicit FeedHook(std::function<absl::StatusOr<std::vector<Feed>>()> feeds) : feeds_(std::move(feeds)) {}
  absl::StatusOr<StepRequest> BeforeRun(StepContext& context) override {
    ASSIGN_OR_RETURN(std::vector<Feed> feeds, feeds_());
    return StepRequest{.fetches = {}, .feeds = std::move(feeds)};
  }

 private:
  const std::function<absl::StatusOr<std::vector<Feed>>()> feeds_;
};

class WaiterHook : public Hook {
 public:
  WaiterHook(int64_t step, absl::Duration max_wait) : step_(step), max_wait_(max_wait) {}
  absl::Status Begin(const Scope& s) override {
    ASSIGN_OR_RETURN(global_step_, NeedGlobalStep(s, "GlobalStepWaiter"));
    return absl::OkStatus();
  }
  absl::StatusOr<StepRequest> BeforeRun(StepContext& context) override {
    if (reached_) return StepRequest{};
    std::optional<WaitBackoff> backoff;
    int64_t last = -1;
    while (true) {
      ASSIGN_OR_RETURN(const int64_t step, ReadStep(context.session(), global_step_));
      if (step >= step_) break;
      if (std::exchange(last, step) != step) backoff.emplace(max_wait_);  // the others make progress
      RETURN_IF_ERROR(
          backoff->Pause(absl::StrCat("for global step ", step_, ", which other workers reach; it is at ", step)));
    }
    reached_ = true;
    return StepRequest{};
  }

 private:
  const int64_t step_;
  const absl::Duration max_wait_;
  Var global_step_;
  bool reached_ = false;
};

}  // namespace

std::shared_ptr<Hook> StopAtStep(int64_t last_step) { return std::make_shared<StopHook>(last_step, 0); }
std::shared_ptr<Hook> StopAfterSteps(int64_t num_steps) { return std::make_shared<StopHook>(std::nullopt, num_steps); }

bool EveryTimer::IsDue(int64_t step) const {
  if (!started_) return true;
  if (every_.every_n_steps > 0 && step - last_step_ >= every_.every_n_steps) return true;
  return every_.every_n_secs > 0 &&
         1e-9 * static_cast<double>(every_.clock->MonotonicNanos() - last_nanos_) >= every_.every_n_secs;
}

std::pair<double, int64_t> EveryTimer::Done(int64_t step) {
  const int64_t now = every_.clock->MonotonicNanos();
  std::pair<double, int64_t> since(0.0, 0);
  if (started_) since = {1e-9 * static_cast<double>(now - last_nanos_), step - last_step_};
  started_ = true;
  last_step_ = step;
  last_nanos_ = now;
  return since;
}

std::shared_ptr<Hook> LogTensors(std::vector<std::pair<std::string, Output>> tensors, Every every) {
  return std::make_shared<LogHook>(std::move(tensors), every);
}
std::shared_ptr<Hook> NanGuard(Output loss, const NanGuardOptions& options) {
  return std::make_shared<NanHook>(loss, options.fail);
}
std::shared_ptr<Hook> FeedFunction(std::function<absl::StatusOr<std::vector<Feed>>()> feeds) {
  return std::make_shared<FeedHook>(std::move(feeds));
}
std::shared_ptr<Hook> GlobalStepWaiter(int64_t step, absl::Duration max_wait) {
  return std::make_shared<WaiterHook>(step, max_wait);
}
std::shared_ptr<FinalOpsHook> FinalOps(std::vector<Fetch> fetches, std::vector<Feed> feeds) {
  return std::make_shared<FinalOpsHook>(std::move(fetches), std::move(feeds));
}

absl::Status FinalOpsHook::End(Session& session) {
  ASSIGN_OR_RETURN(values_, session.Run(fetches_, feeds_));
  return absl::OkStatus();
}

}  // namespace thalweg
