// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/file_hooks.h"

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/observe/chrome_trace.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/session/wait_backoff.h"

namespace thalweg {
namespace {

class CheckpointHook : public Hook {
 public:
  CheckpointHook(std::function<std::shared_ptr<Saver>()> saver, const CheckpointSaverOptions& options)
      : saver_(std::move(saver)), options_(options), timer_(options_.every) {}

  absl::Status Begin(const Scope& s) override {
    if (global_step_ = GetGlobalStep(s.graph()); global_step_) return absl::OkStatus();
    return FailedPrecondition("checkpoints in ", options_.checkpoint_dir,
                              " need a global step: call GetOrCreateGlobalStep");
  }

  // The next step has failed, and other workers may repeat the one before it.
  void BeforeCloseSession(Session&) override {
    if (!written_.has_value()) return;
    written_.reset();
    timer_.Done(saved_step_);
  }

  absl::Status AfterCreateSession(Session& session) override {
    ASSIGN_OR_RETURN(const int64_t step, Read(session));
    // The session was made anew, and the step that failed is about to be repeated. Do not save between the two: some of
    // its updates may have been made and others not.
    if (saved_step_ >= 0) {
      if (step < saved_step_) {
        saved_step_ = step;
        timer_.Done(step);
      }
      return absl::OkStatus();
    }
    // Do not save again what was just restored.
    const absl::StatusOr<std::string> latest = LatestCheckpoint(options_.checkpoint_dir);
    if (latest.ok() && *latest == Name(step)) {
      saved_step_ = step;
      timer_.Done(step);
      return absl::OkStatus();
    }
    return Save(session, step);
  }

  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) override {
    const int64_t step = context.global_step();
    const bool is_due = timer_.IsDue(step);
    absl::Status saved = written_.has_value() ? Publish() : absl::OkStatus();
    if (is_due && saved.ok())
      saved = options_.after_another_step ? Write(context.session(), step) : Save(context.session(), step);
    if (saved.ok() || IsTaskLost(saved)) return saved;
    LOG(ERROR) << "Could not save a checkpoint; the latest one is that of step " << saved_step_ << ": " << saved;
    timer_.Done(step);
    return absl::OkStatus();
  }

  absl::Status End(Session& session) override {
    if (written_.has_value()) RETURN_IF_ERROR(Publish());
    ASSIGN_OR_RETURN(const int64_t step, Read(session));
    return step == saved_step_ ? absl::OkStatus() : Save(session, step);
  }

 private:
  // The prefix in the spelling of LatestCheckpoint().
  std::string Prefix() const {
    return internal::CleanPath(absl::StrCat(options_.checkpoint_dir, "/", options_.basename));
  }
  std::string Name(int64_t step) const { return absl::StrCat(Prefix(), "-", step); }

  absl::StatusOr<int64_t> Read(Session& session) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> value, session.Run({global_step_}));
    return value[0].scalar<int64_t>();
  }
  absl::Status Save(Session& session, int64_t step) {
    RETURN_IF_ERROR(Write(session, step));
    return Publish();
  }
  absl::Status Write(Session& session, int64_t step) {
    ASSIGN_OR_RETURN(Saver::Written written, saver_()->Write(session, Prefix(), step));
    written_ = {std::move(written), step};
    timer_.Done(step);
    return absl::OkStatus();
  }
  // REQUIRES: a checkpoint was written.
  absl::Status Publish() {
    const auto [checkpoint, step] = *std::exchange(written_, std::nullopt);
    RETURN_IF_ERROR(saver_()->Publish(checkpoint));
    saved_step_ = step;
    LOG(INFO) << "Saved " << checkpoint.name;
    if (options_.writer == nullptr) return absl::OkStatus();
    return options_.writer->AddSessionEvent(SessionEvent::kCheckpoint, step, checkpoint.name);
  }

  const std::function<std::shared_ptr<Saver>()> saver_;
  const CheckpointSaverOptions options_;
  EveryTimer timer_;
  Var global_step_;
  int64_t saved_step_ = -1;
  // That is not published yet, and its step.
  std::optional<std::pair<Saver::Written, int64_t>> written_;
};

class SummaryHook : public Hook {
 public:
  SummaryHook(std::function<Output()> summary_op, std::shared_ptr<SummaryWriter> writer, const Every& every)
      : summary_op_(std::move(summary_op)), writer_(std::move(writer)), timer_(every) {}

  absl::StatusOr<StepRequest> BeforeRun(StepContext& context) override {
    const Output op = summary_op_();
    step_ = context.global_step() >= 0 ? context.global_step() + 1 : step_ + 1;  // the one that is coming
    due_ = op && timer_.IsDue(step_);
    if (!due_) return StepRequest{};
    return StepRequest{.fetches = {op}, .feeds = {}};
  }
  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) override {
    if (!due_) return absl::OkStatus();
    const int64_t step = context.global_step() >= 0 ? context.global_step() : step_;
    timer_.Done(step);
    return writer_->AddSummary(results[0], step);
  }
  absl::Status End(Session& session) override { return writer_->Flush(); }

 private:
  const std::function<Output()> summary_op_;
  const std::shared_ptr<SummaryWriter> writer_;
  EveryTimer timer_;
  int64_t step_ = 0;
  bool due_ = false;
};

class CounterHook : public Hook {
 public:
  CounterHook(const Every& every, std::shared_ptr<SummaryWriter> writer) : timer_(every), writer_(std::move(writer)) {}

  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) override {
    const int64_t step = context.global_step();
    if (step < 0 || !timer_.IsDue(step)) return absl::OkStatus();
    const auto [seconds, steps] = timer_.Done(step);
    if (seconds <= 0 || steps <= 0) return absl::OkStatus();
    const double rate = static_cast<double>(steps) / seconds;
    LOG(INFO) << absl::StrFormat("step %d: %.4g global steps/s", step, rate);
    if (writer_ == nullptr) return absl::OkStatus();
    return writer_->AddScalar("global_step/sec", static_cast<float>(rate), step);
  }
  absl::Status End(Session& session) override { return writer_ == nullptr ? absl::OkStatus() : writer_->Flush(); }

 private:
  EveryTimer timer_;
  const std::shared_ptr<SummaryWriter> writer_;
};

class ProfilerHook : public Hook {
 public:
  ProfilerHook(std::string folder, const Every& every) : folder_(std::move(folder)), timer_(every) {}

  absl::Status Begin(const Scope& s) override { return PosixFileSystem().CreateDirectories(folder_); }
  absl::StatusOr<StepRequest> BeforeRun(StepContext& context) override {
    step_ = context.global_step() >= 0 ? context.global_step() + 1 : step_ + 1;  // the one that is coming
    due_ = timer_.IsDue(step_);
    return StepRequest{.fetches = {}, .feeds = {}, .trace = due_};
  }
  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) override {
    if (!due_ || context.metadata() == nullptr) return absl::OkStatus();
    const int64_t step = context.global_step() >= 0 ? context.global_step() : step_;
    timer_.Done(step);
    return PosixFileSystem().WriteStringToFile(absl::StrCat(folder_, "/timeline-", step, ".json"),
                                               ChromeTrace(*context.metadata()));
  }

 private:
  const std::string folder_;
  EveryTimer timer_;
  int64_t step_ = 0;
  bool due_ = false;
};

}  // namespace

std::shared_ptr<Hook> CheckpointSaver(std::function<std::shared_ptr<Saver>()> saver,
                                      const CheckpointSaverOptions& options) {
  return std::make_shared<CheckpointHook>(std::move(saver), options);
}
std::shared_ptr<Hook> SummarySaver(std::function<Output()> summary_op, std::shared_ptr<SummaryWriter> writer,
                                   Every every) {
  return std::make_shared<SummaryHook>(std::move(summary_op), std::move(writer), every);
}
std::shared_ptr<Hook> StepCounter(Every every, std::shared_ptr<SummaryWriter> writer) {
  return std::make_shared<CounterHook>(every, std::move(writer));
}
std::shared_ptr<Hook> Profiler(std::string folder, Every every) {
  return std::make_shared<ProfilerHook>(std::move(folder), every);
}

}  // namespace thalweg
