#include "thalweg/runtime/direct_session.h"

#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/runtime/executor.h"
#include "thalweg/runtime/functions.h"
#include "thalweg/runtime/planner.h"

namespace thalweg {

// A step, as others see it.
struct DirectSession::RunningStep {
  Cancellation cancellation;
  const Execution* waits = nullptr;  // where it can wait; guarded by the session's mutex_
};

// What ends a step, or its preparation, early: its deadline, a cancellation from
// outside, Close().
class DirectSession::Limits {
 public:
  explicit Limits(DirectSession& session) : session_(session) {}
  ~Limits() {
    if (outside_id_.has_value()) outside_->Deregister(*outside_id_);
    if (alarm_.has_value()) session_.timer_.Unset(*alarm_);
    MutexLock lock(&session_.mutex_);
    session_.running_.erase(step_);
    if (session_.closed_) session_.step_ended_.SignalAll();
  }

  absl::Status Begin(const StepOptions& options) {
    {
      MutexLock lock(&session_.mutex_);
      if (session_.closed_) return FailedPrecondition("Session has been closed.");
      session_.running_.insert(step_);
    }
    const absl::Duration timeout =
        options.timeout != absl::InfiniteDuration() ? options.timeout : session_.options_.operation_timeout;
    if (timeout != absl::InfiniteDuration()) {
      alarm_ = session_.timer_.Set(absl::Now() + timeout, [this, timeout] {
        step_->cancellation.Cancel(
            DeadlineExceeded("Timed out waiting for the step: it had ", absl::FormatDuration(timeout)));
      });
    }
    outside_ = options.cancellation;
    if (outside_ == nullptr) return absl::OkStatus();
    outside_id_ = outside_->Register([this](const absl::Status& why) { step_->cancellation.Cancel(why); });
    return outside_id_.has_value() ? absl::OkStatus() : outside_->status();
  }

  RunningStep& step() { return *step_; }

 private:
  DirectSession& session_;
  // Shared with Close(), which may cancel it while the step ends.
  const std::shared_ptr<RunningStep> step_ = std::make_shared<RunningStep>();
  Cancellation* outside_ = nullptr;
  std::optional<Cancellation::CallbackId> outside_id_;
  std::optional<Timer::AlarmId> alarm_;
};

DirectSession::DirectSession(const DirectSessionOptions& options)
    : options_(options), devices_({.cpus = options.cpus, .threads = options.threads}) {}

DirectSession::~DirectSession() { Close().IgnoreError(); }

absl::Status DirectSession::CheckOpen() const {
  MutexLock lock(&mutex_);
  if (closed_) return FailedPrecondition("Session has been closed.");
  return absl::OkStatus();
}

absl::Status DirectSession::Extend(const tensorflow::GraphDef& def) {
  RETURN_IF_ERROR(CheckOpen());
  MutexLock lock(&graph_mutex_);
  return graph_.Import(def);
}

absl::StatusOr<std::shared_ptr<Executable>> DirectSession::Build(const Signature& signature,
                                                                 Cancellation& cancellation) {
  graph_mutex_.AssertHeld();
  ASSIGN_OR_RETURN(Graph graph, Extract(graph_, signature));
  std::vector<std::string> targets = signature.targets;
  RETURN_IF_ERROR(InlineFunctions(graph, &targets));
  PlacerOptions placer{.allow_soft_placement = options_.allow_soft_placement};
  for (const auto& device : devices_.devices()) placer.devices.push_back({device->parsed_name()});
  states_.Update(graph_, placer);
  placer.states = &states_;
  ASSIGN_OR_RETURN(const std::vector<Placed> placed, Place(graph, placer));
  if (options_.log_device_placement) {
    for (const Placed& p : placed) LOG(INFO) << DescribePlacement(p);
  }
  RETURN_IF_ERROR(Optimize(graph, targets, *devices_.devices()[0], options_.optimizer, &cancellation));
  RETURN_IF_ERROR(cancellation.status());
  ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable,
                   Compile(
                       std::move(graph), [this](const std::string& name) { return devices_.Find(name); },
                       [this](const Node& node, Device& device) { return kernels_.Make(node, device); }));
  return std::shared_ptr<Executable>(std::move(executable));
}

absl::StatusOr<DirectSession::Callable> DirectSession::Prepare(const Signature& signature) {
  Limits limits(*this);
  RETURN_IF_ERROR(limits.Begin({}));
  return Prepare(signature, limits.step().cancellation);
}

absl::StatusOr<DirectSession::Callable> DirectSession::Prepare(const Signature& signature, Cancellation& cancellation) {
  const std::string key = signature.Key();
  {
    MutexLock lock(&mutex_);
    if (const auto it = callables_.find(key); it != callables_.end()) return it->second;
  }
  MutexLock graph_lock(&graph_mutex_);
  {
    // Another thread may have compiled it meanwhile.
    MutexLock lock(&mutex_);
    if (const auto it = callables_.find(key); it != callables_.end()) return it->second;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, Build(signature, cancellation));
  Callable callable(std::move(executable), signature);
  MutexLock lock(&mutex_);
  callables_.emplace(key, callable);
  return callable;
}

absl::Status DirectSession::CheckFeeds(const Executable& executable, const Signature& signature,
                                       absl::Span<const Tensor> feeds) const {
  if (feeds.size() != signature.feeds.size()) {
    return InvalidArgument("expected ", signature.feeds.size(), " feeds, got ", feeds.size());
  }
  for (size_t i = 0; i < executable.plan.arg_nodes.size(); ++i) {
    const Node* arg = executable.plan.arg_nodes[i];
    if (arg == nullptr) continue;
    if (feeds[i].dtype() != arg->output_type(0)) {
      return InvalidArgument("Feed '", signature.feeds[i], "' is of type ", feeds[i].dtype(), ", expected ",
                             arg->output_type(0));
    }
    if (!arg->output_shape(0).Accepts(feeds[i].shape())) {
      return InvalidArgument("Feed '", signature.feeds[i], "' has shape ", feeds[i].shape(), ", expected ",
                             arg->output_shape(0));
    }
  }
  return absl::OkStatus();
}

absl::Status DirectSession::Run(const Callable& callable, const StepOptions& options, absl::Span<const Tensor> feeds,
                                std::vector<Tensor>* results, tensorflow::RunMetadata* metadata) {
  if (callable.executable_ == nullptr) return InvalidArgument("a callable that was not prepared");
  Limits limits(*this);
  RETURN_IF_ERROR(limits.Begin(options));
  return Execute(callable, options, limits.step(), feeds, results, metadata);
}

absl::Status DirectSession::Run(const Signature& signature, const StepOptions& options, absl::Span<const Tensor> feeds,
                                std::vector<Tensor>* results, tensorflow::RunMetadata* metadata) {
  Limits limits(*this);
  RETURN_IF_ERROR(limits.Begin(options));
  ASSIGN_OR_RETURN(const Callable callable, Prepare(signature, limits.step().cancellation));
  return Execute(callable, options, limits.step(), feeds, results, metadata);
}

absl::Status DirectSession::Execute(const Callable& callable, const StepOptions& options, RunningStep& running,
                                    absl::Span<const Tensor> feeds, std::vector<Tensor>* results,
                                    tensorflow::RunMetadata* metadata) {
  Executable& executable = *callable.executable_;
  RETURN_IF_ERROR(CheckFeeds(executable, *callable.signature_, feeds));

  LocalRendezvous rendezvous;
  ResourceManager step_resources;
  Step step{.id = next_step_.fetch_add(1, std::memory_order_relaxed),
            .rendezvous = &rendezvous,
            .cancellation = &running.cancellation,
            .pool = &devices_.pool(),
            .resources = &step_resources,
            .session_resources = &resources_};
  std::optional<StepStatsCollector> stats;
  if (options.trace) stats.emplace();
  Execution execution(executable, step, stats.has_value() ? &*stats : nullptr);
  absl::Status status;
  if (executable.plan.has_waits) {
    const auto show = [&](const Execution* waits) {
      MutexLock lock(&mutex_);
      running.waits = waits;
    };
    // What nobody sends is not waited for any longer than the rest.
    const auto abort = running.cancellation.Register([&](const absl::Status& why) { rendezvous.Abort(why); });
    if (!abort.has_value()) return running.cancellation.status();
    show(&execution);
    status = execution.Run(feeds, options_.report_after);
    show(nullptr);
    running.cancellation.Deregister(*abort);
  } else {
    status = execution.Run(feeds);
  }
  if (status.ok()) status = execution.TakeResults(results);
  if (metadata != nullptr) {
    if (stats.has_value()) {
      stats->AddResident(executable.graph);
      stats->Fill(metadata->mutable_step_stats());
    }
    if (options.partition_graphs) *metadata->add_partition_graphs() = executable.graph.Export();
  }
  return status;
}

std::string DirectSession::DescribeWaits() const {
  std::vector<std::string> waits;
  for (const auto& step : running_) {
    std::string names = step->waits != nullptr ? step->waits->DescribeWaits() : "";
    waits.push_back(names.empty() ? "a computation" : std::move(names));
  }
  return absl::StrJoin(waits, "; ");
}

absl::Status DirectSession::Close() {
  std::vector<std::shared_ptr<RunningStep>> running;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    running.assign(running_.begin(), running_.end());
  }
  for (const auto& step : running) {
    step->cancellation.Cancel(Cancelled("Step was cancelled by an explicit call to `Session::Close()`."));
  }
  {
    MutexLock lock(&mutex_);
    const absl::Time start = absl::Now();
    while (!running_.empty()) {
      if (step_ended_.WaitWithTimeout(&mutex_, options_.report_after)) {
        LOG(INFO) << "Session::Close still waits for " << running_.size() << " steps, since "
                  << absl::FormatDuration(absl::Now() - start) << ": " << DescribeWaits();
      }
    }
    callables_.clear();
  }
  kernels_.Clear();
  return absl::OkStatus();
}

}  // namespace thalweg
