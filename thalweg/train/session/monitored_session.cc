// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/monitored_session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/client/task_completion.h"
#include "thalweg/cluster/request_id.h"
#include "thalweg/observe/summary_writer.h"
#include "thalweg/train/checkpoints/folder_lease.h"
#include "thalweg/train/session/coordinator.h"
#include "thalweg/train/session/file_hooks.h"
#include "thalweg/train/session/prepared_steps.h"
#include "thalweg/train/session/session_manager.h"

namespace thalweg {

namespace {

constexpr absl::Duration kLeaseWait = absl::Seconds(5);  // how long to wait for the lock of checkpoint_dir

}  // namespace

// Runs the training in a sequence of sessions: when a task is lost, the session is closed and a new one
// opened. Hooks run around the steps.
class MonitoredTrainingSession::State {
 public:
  State(Graph& graph, MonitoredTrainingSessionOptions options) : graph_(graph), options_(std::move(options)) {
    options_.config.target = options_.master;
    if (options_.own_variables) UseOwnVariables();
    if (options_.summary_dir.empty()) options_.summary_dir = options_.checkpoint_dir;
  }
  ~State() {
    // A program that returns every error does not reach Close() at the end of the data, which is a normal
    // end: save the last checkpoint here.
    if (absl::IsOutOfRange(last_run_)) {
      if (const absl::Status closed = Close(); !closed.ok()) LOG(ERROR) << "Closing the session failed: " << closed;
    }
    CloseSession().IgnoreError();
  }

  absl::Status Start() {
    RETURN_IF_ERROR(graph_.build_status());
    RETURN_IF_ERROR(TakeLease());
    RETURN_IF_ERROR(MakeHooks());
    const Scope s = graph_.root();
    for (const auto& hook : hooks_) {
      if (hook == nullptr) return InvalidArgument("a hook is missing (nullptr)");
      hook->Attach(interruption_);
      RETURN_IF_ERROR(hook->Begin(s));
    }
    scaffold_ = CompleteScaffold(s, options_.scaffold, options_.is_chief && !options_.checkpoint_dir.empty());
    SessionManagerOptions keeper{.session = options_.config,
                                 .is_chief = options_.is_chief,
                                 .checkpoint_dir = options_.checkpoint_dir,
                                 .gets_values = gets_values_,
                                 .max_wait = options_.max_wait,
                                 .cancellation = &interruption_->waits()};
    keeper_.emplace(s, scaffold_, [&] {
      if (keeper.session.device_filters.empty()) keeper.session.device_filters = TasksOf(graph_);
      return keeper;
    }());
    RETURN_IF_ERROR(graph_.build_status());
    if (writer_ != nullptr) {
      RETURN_IF_ERROR(WriteGraphText(graph_, options_.summary_dir));
      RETURN_IF_ERROR(writer_->AddGraph(graph_));
    }
    return OpenUntilReady(/*again=*/false);
  }

  bool ShouldStop() const { return stop_ || closed_; }
  Session& session() { return *session_; }

  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds) {
    if (closed_) return FailedPrecondition("Run after Close: the training has ended");
    RETURN_IF_ERROR(failed_);
    std::optional<WaitBackoff> backoff;
    ++sequence_;
    while (true) {
      absl::StatusOr<StepOutcome> step = RunStep(fetches, feeds);
      last_run_ = step.status();
      if (step.ok()) {
        RETURN_IF_ERROR(RecoverAfter(step->lost));
        return std::move(step->values);
      }
      if (absl::IsOutOfRange(last_run_)) stop_ = finished_ = true;
      if (!failed_.ok() || interruption_->requested()) stop_ = true;
      if (options_.master.empty() || !IsTaskLost(last_run_)) return last_run_;
      RETURN_IF_ERROR(TellHooksOfLoss(last_run_));
      CloseSession().IgnoreError();
      // Workers that hold variables of their own have made this step together, or some of them, or none. All go back to
      // the chief's checkpoint.
      if (options_.own_variables && (gets_values_ || !options_.checkpoint_dir.empty())) keeper_->DistrustValues();
      // Retry the step in a new session with the same sequence number. Back off from the second retry on:
      // the task may still be away.
      if (!backoff) {
        LOG(WARNING) << "A task was lost; opening a new session: " << last_run_;
        backoff.emplace(options_.max_wait, &interruption_->waits());
      } else if (absl::Status waited = backoff->Pause(last_run_.message()); !waited.ok()) {
        return Fail(waited);
      }
      if (const absl::Status opened = OpenUntilReady(/*again=*/true); !opened.ok()) {
        return Fail(Append(opened, absl::StrCat(" (after ", last_run_.message(), ")")));
      }
    }
  }

  absl::Status Close() {
    if (closed_) return absl::OkStatus();
    absl::Status status;
    const bool ends_well = open_ && failed_.ok() && (last_run_.ok() || absl::IsOutOfRange(last_run_));
    if (ends_well) {
      for (const auto& hook : hooks_) status.Update(hook->End(*session_));
      if (writer_ != nullptr) status.Update(writer_->AddSessionEvent(SessionEvent::kStop, global_step_.value));
    }
    closed_ = true;
    status.Update(CloseSession());
    if (writer_ != nullptr) status.Update(writer_->Close());
    lease_.reset();
    // Do not announce the end of a worker that failed or was interrupted: it may be restarted, and needs the
    // other tasks then.
    if (ends_well && status.ok() && (finished_ || !interruption_->requested())) {
      if (const absl::Status told = AnnounceDone(options_.master); !told.ok()) LOG(WARNING) << told.message();
    }
    return status;
  }

 private:
  struct StepOutcome {
    std::vector<Tensor> values;
    absl::Status lost;  // a task was lost after the step had run
  };

  // Every worker holds all variables, so each one initializes them as a chief does. Only
  // the real chief writes files.
  void UseOwnVariables() {
    if (!options_.is_chief) {
      gets_values_ = true;
      options_.is_chief = true;
      options_.checkpoint_dir.clear();
      options_.summary_dir.clear();
      options_.chief_only_hooks.clear();
      options_.log_step_count_steps = 0;
    }
    const std::vector<std::string> tasks = TasksOf(graph_);
    if (tasks.empty()) return;
    const std::string job = tasks[0].substr(0, tasks[0].find('/', 1));  // "/job:worker"
    if (options_.config.collective_leader.empty()) {
      options_.config.collective_leader = absl::StrCat(job, "/replica:0/task:0");
    }
  }

  // The program's hooks come first, so that a state that they reject is not saved.
  absl::Status MakeHooks() {
    hooks_ = options_.hooks;
    if (!options_.is_chief) return absl::OkStatus();
    hooks_ = std::move(hooks_) + options_.chief_only_hooks;
    if (!options_.summary_dir.empty()) {
      ASSIGN_OR_RETURN(writer_, SummaryWriter::Open(options_.summary_dir, {.suffix = options_.event_file_suffix}));
    }
    if (options_.log_step_count_steps > 0) {
      hooks_.push_back(StepCounter({.every_n_steps = options_.log_step_count_steps}, writer_));
    }
    if (writer_ != nullptr && options_.save_summaries_steps > 0) {
      hooks_.push_back(SummarySaver([this] { return scaffold_.summary_op; }, writer_,
                                    {.every_n_steps = options_.save_summaries_steps}));
    }
    if (options_.checkpoint_dir.empty()) return absl::OkStatus();
    Every every;
    if (options_.save_checkpoint_steps > 0) {
      every.every_n_steps = options_.save_checkpoint_steps;
    } else {
      every.every_n_secs = options_.save_checkpoint_secs;
    }
    if (every.every_n_steps > 0 || every.every_n_secs > 0) {
      hooks_.push_back(
          CheckpointSaver([this] { return scaffold_.saver; }, {.checkpoint_dir = options_.checkpoint_dir,
                                                               .every = every,
                                                               .writer = writer_,
                                                               .after_another_step = options_.own_variables}));
    }
    return absl::OkStatus();
  }

  // Waits a little for the lock, because the previous chief may still be shutting down.
  absl::Status TakeLease() {
    if (!options_.is_chief || options_.checkpoint_dir.empty()) return absl::OkStatus();
    WaitBackoff backoff(std::min(options_.max_wait, kLeaseWait), &interruption_->waits());
    while (true) {
      absl::StatusOr<FolderLease> lease = FolderLease::Take(options_.checkpoint_dir);
      if (lease.ok()) {
        lease_ = *std::move(lease);
        return absl::OkStatus();
      }
      if (!absl::IsFailedPrecondition(lease.status())) return lease.status();
      if (!backoff.Pause(lease.status().message()).ok()) return lease.status();
    }
  }

  // Opens a session and runs the hooks' AfterCreateSession(). Retries if a task is lost meanwhile.
  absl::Status OpenUntilReady(bool again) {
    WaitBackoff backoff(options_.max_wait, &interruption_->waits());
    while (true) {
      // Variables that this training has given values to keep them: other workers may have updated them since.
      absl::Status status = OpenSession(again || session_ != nullptr);
      if (status.ok()) return status;
      CloseSession().IgnoreError();
      if (options_.master.empty() || !IsTaskLost(status)) return status;
      RETURN_IF_ERROR(backoff.Pause(status.message()));
    }
  }

  absl::Status OpenSession(bool again) {
    ASSIGN_OR_RETURN(session_, keeper_->Open(again));
    open_ = true;
    if (keeper_->TakeGaveValues()) {
      for (const auto& hook : hooks_) hook->AfterValuesGiven();
    }
    steps_.emplace(graph_, *session_);
    global_step_ = {};
    if (const Var step = GetGlobalStep(graph_)) {
      ASSIGN_OR_RETURN(const StepResults now, steps_->Run({step.read}, {}, /*trace=*/false));
      global_step_ = now.global_step;
    }
    if (writer_ != nullptr) {
      RETURN_IF_ERROR(writer_->AddSessionEvent(SessionEvent::kStart, global_step_.value));
    }
    coordinator_.emplace();
    StartQueueRunners(scaffold_.queue_runners, *session_, *coordinator_);
    for (const auto& hook : hooks_) RETURN_IF_ERROR(hook->AfterCreateSession(*session_));
    stop_step_ = 0;
    for (const auto& hook : hooks_) {
      finished_ = finished_ || hook->ShouldStop();
      const int64_t stop = hook->stop_step();
      if (stop > 0 && (stop_step_ == 0 || stop < stop_step_)) stop_step_ = stop;
    }
    stop_ = stop_ || finished_;
    return absl::OkStatus();
  }

  // The step has run; only a new session is needed.
  absl::Status RecoverAfter(const absl::Status& lost) {
    if (lost.ok()) return lost;
    RETURN_IF_ERROR(TellHooksOfLoss(lost));
    LOG(WARNING) << "A task was lost after the step had run; opening a new session: " << lost;
    CloseSession().IgnoreError();
    const absl::Status opened = OpenUntilReady(/*again=*/true);
    return opened.ok() ? opened : Fail(Append(opened, absl::StrCat(" (after ", lost.message(), ")")));
  }

  absl::Status TellHooksOfLoss(const absl::Status& why) {
    for (const auto& hook : hooks_) {
      if (absl::Status status = hook->AfterTaskLost(why); !status.ok()) return Fail(status);
    }
    return absl::OkStatus();
  }

  absl::Status CloseSession() {
    absl::Status status;
    if (!open_) return status;
    for (const auto& hook : hooks_) hook->BeforeCloseSession(*session_);
    if (coordinator_) coordinator_->RequestStop();
    // Ignore errors: a session that has lost a task cannot be closed properly.
    session_->Close().IgnoreError();
    if (coordinator_) status = coordinator_->Join(options_.stop_grace);
    coordinator_.reset();
    steps_.reset();
    open_ = false;
    return status;
  }

  absl::Status Fail(const absl::Status& status) {
    stop_ = true;
    return last_run_ = failed_ = status;
  }
  // An error of a hook ends the training, unless a task was lost.
  absl::Status HookError(const absl::Status& status) {
    if (!IsTaskLost(status) && !absl::IsOutOfRange(status)) failed_ = status;
    return status;
  }

  absl::Status CauseOf(const absl::Status& step_error) {
    for (const auto& hook : hooks_) {
      if (const absl::Status cause = hook->CauseOfFailure(step_error); !cause.ok()) return HookError(cause);
    }
    return step_error;
  }

  absl::StatusOr<StepOutcome> RunStep(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds) {
    // Return the error of a queue runner that has failed.
    RETURN_IF_ERROR(coordinator_->status());
    // One step serves the caller and all hooks: results are in the order caller, hook 0, hook 1, ...
    std::vector<Fetch> all_fetches = fetches;
    std::vector<Feed> all_feeds = feeds;
    std::vector<size_t> ends;  // by hook: the end of its fetches
    bool trace = false;
    StepContext before(*session_, nullptr, global_step_);
    for (const auto& hook : hooks_) {
      absl::StatusOr<StepRequest> request = hook->BeforeRun(before);
      if (!request.ok()) return HookError(request.status());
      for (Fetch& fetch : request->fetches) all_fetches.push_back(std::move(fetch));
      for (Feed& feed : request->feeds) all_feeds.push_back(std::move(feed));
      ends.push_back(all_fetches.size());
      trace = trace || request->trace;
    }
    absl::StatusOr<StepResults> ran = steps_->Run(
        all_fetches, all_feeds, trace,
        {.cancellation = &interruption_->steps(), .client = client_, .sequence = sequence_, .stop_step = stop_step_});
    if (!ran.ok()) return CauseOf(ran.status());
    StepResults& results = *ran;
    if (results.global_step.value >= 0) global_step_ = results.global_step;
    StepContext after(*session_, trace ? &results.metadata : nullptr, global_step_);
    StepOutcome outcome;
    size_t begin = fetches.size();
    for (size_t i = 0; i < hooks_.size(); ++i) {
      const auto own = absl::MakeConstSpan(results.values).subspan(begin, ends[i] - begin);
      begin = ends[i];
      const absl::Status status = hooks_[i]->AfterRun(after, own);
      if (!status.ok() && (options_.master.empty() || !IsTaskLost(status))) return HookError(status);
      outcome.lost.Update(status);
    }
    finished_ = finished_ || before.stop_requested() || after.stop_requested();
    stop_ = stop_ || finished_ || interruption_->requested();
    results.values.resize(fetches.size());
    outcome.values = std::move(results.values);
    return outcome;
  }

  Graph& graph_;
  MonitoredTrainingSessionOptions options_;
  bool gets_values_ = false;  // holds variables of its own, which hooks fill with the chief's values
  const std::shared_ptr<Interruption> interruption_ = std::make_shared<Interruption>();
  std::optional<FolderLease> lease_;       // for the chief, if it has a checkpoint_dir
  std::shared_ptr<SummaryWriter> writer_;  // for the chief, if it has a summary_dir
  HookList hooks_;
  Scaffold scaffold_;
  std::optional<SessionManager> keeper_;

  // Identify the step. A step that lost a task is repeated with the same number, so that tasks skip the
  // updates that they have applied.
  const uint64_t client_ = static_cast<uint64_t>(NewRequestId());
  int64_t sequence_ = 0;
  std::unique_ptr<Session> session_;  // kept, closed, until there is a new one
  bool open_ = false;
  std::optional<PreparedSteps> steps_;
  std::optional<Coordinator> coordinator_;
  StepContext::GlobalStep global_step_;
  int64_t stop_step_ = 0;  // the first at which a hook ends the training; 0: not known
  bool stop_ = false;
  bool finished_ = false;  // stopped because the work is done
  bool closed_ = false;
  absl::Status last_run_;
  absl::Status failed_;  // a permanent failure
};

MonitoredTrainingSession::MonitoredTrainingSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
MonitoredTrainingSession::MonitoredTrainingSession(MonitoredTrainingSession&&) noexcept = default;
MonitoredTrainingSession& MonitoredTrainingSession::operator=(MonitoredTrainingSession&&) noexcept = default;
MonitoredTrainingSession::~MonitoredTrainingSession() = default;

absl::StatusOr<MonitoredTrainingSession> MonitoredTrainingSession::Start(
    Graph& graph, const MonitoredTrainingSessionOptions& options) {
  auto state = std::make_unique<State>(graph, options);
  RETURN_IF_ERROR(state->Start());
  return MonitoredTrainingSession(std::move(state));
}

bool MonitoredTrainingSession::ShouldStop() const { return state_->ShouldStop(); }
absl::StatusOr<std::vector<Tensor>> MonitoredTrainingSession::Run(const std::vector<Fetch>& fetches,
                                                                  const std::vector<Feed>& feeds) {
  return state_->Run(fetches, feeds);
}
Session& MonitoredTrainingSession::session() { return state_->session(); }
absl::Status MonitoredTrainingSession::Close() { return state_->Close(); }

}  // namespace thalweg
