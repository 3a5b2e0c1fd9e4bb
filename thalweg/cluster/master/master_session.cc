#include "thalweg/cluster/master/master_session.h"

#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/master/master_partial_run.h"
#include "thalweg/cluster/master/master_step.h"
#include "thalweg/runtime/functions.h"

namespace thalweg {
namespace {

// Workers that are gone are not waited for when a session ends.
constexpr absl::Duration kCleanupTimeout = absl::Seconds(10);

}  // namespace

MasterSession::MasterSession(MasterSessionOptions options) : options_(std::move(options)) {}

absl::Status MasterSession::Enter(const std::shared_ptr<Cancellation>& step) {
  MutexLock lock(&mutex_);
  if (closed_) return FailedPrecondition("Session has been closed.");
  running_.insert(step);
  return absl::OkStatus();
}

void MasterSession::Leave(const std::shared_ptr<Cancellation>& step) {
  MutexLock lock(&mutex_);
  running_.erase(step);
  if (closed_) step_ended_.SignalAll();
}

absl::Status MasterSession::Open(const CallOptions& options, const ClusterSpec* cluster) {
  struct Call {
    tensorflow::CreateWorkerSessionRequest request;
    absl::Status status;
  };
  std::vector<Call> calls(options_.devices.tasks.size());
  BlockingCounter left(static_cast<int>(calls.size()));
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string& task = options_.devices.tasks[i].name;
    tensorflow::CreateWorkerSessionRequest& request = calls[i].request;
    request.set_session_handle(options_.handle);
    request.set_isolate_session_state(options_.config.isolate_session_state());
    request.set_master_task(options_.self);
    request.set_master_incarnation(static_cast<int64_t>(options_.devices.tasks[0].devices[0].incarnation()));
    if (cluster != nullptr) {
      ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(task));
      *request.mutable_server_def()->mutable_cluster() = cluster->ToProto();
      request.mutable_server_def()->set_protocol("grpc");
      request.mutable_server_def()->set_job_name(*name.job);
      request.mutable_server_def()->set_task_index(*name.task);
      request.set_isolate_session_state(
          !options_.config.experimental().share_session_state_in_clusterspec_propagation());
    }
    options_.workers->Find(task)->CreateWorkerSession(options, request, [&calls, &left, i](const absl::Status& status) {
      calls[i].status = status;
      left.DecrementCount();
    });
  }
  left.Wait();  // every call ends: its task answers, goes away, or the client does
  // A task that has left since it told its devices is one that has left.
  for (size_t i = calls.size(); i-- > 0;) {
    const std::string task = options_.devices.tasks[i].name;
    if (!absl::IsUnavailable(calls[i].status) || task == options_.self) {
      RETURN_IF_ERROR(calls[i].status);
      continue;
    }
    LOG(WARNING) << task << " has left; steps that need it will fail: " << calls[i].status.message();
    options_.devices.absent.push_back(task);
    options_.devices.tasks.erase(options_.devices.tasks.begin() + static_cast<ptrdiff_t>(i));
  }
  return absl::OkStatus();
}

absl::Status MasterSession::Create(const tensorflow::GraphDef& def) {
  MutexLock lock(&graph_mutex_);
  return graph_.Import(def);
}

absl::StatusOr<int64_t> MasterSession::Extend(const tensorflow::GraphDef& def, int64_t expected_version) {
  {
    MutexLock lock(&mutex_);
    if (closed_) return FailedPrecondition("Session has been closed.");
  }
  MutexLock lock(&graph_mutex_);
  if (graph_version_ != expected_version) {
    return Aborted("Current version is ", graph_version_, " but caller expected ", expected_version, ".");
  }
  for (const tensorflow::NodeDef& node : def.node()) {
    if (graph_.FindNode(node.name()) != nullptr) {
      return InvalidArgument("GraphDef argument to Extend includes node '", node.name(),
                             "', which was created by a previous call to Create or Extend in this session.");
    }
  }
  RETURN_IF_ERROR(graph_.Import(def));
  return ++graph_version_;
}

absl::StatusOr<std::shared_ptr<const PreparedParts>> MasterSession::Prepare(const Signature& signature,
                                                                            Cancellation& cancellation) {
  const std::string key = signature.Key();
  {
    MutexLock lock(&mutex_);
    if (closed_) return FailedPrecondition("Session has been closed.");
    if (const auto it = prepared_.find(key); it != prepared_.end()) return it->second;
  }
  MutexLock graph_lock(&graph_mutex_);
  {
    MutexLock lock(&mutex_);  // another call may have compiled it meanwhile
    if (const auto it = prepared_.find(key); it != prepared_.end()) return it->second;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const PreparedParts> prepared,
                   PrepareParts(graph_, states_, signature, next_number_++, options_, cancellation));
  MutexLock lock(&mutex_);
  prepared_.emplace(key, prepared);
  return prepared;
}

absl::StatusOr<std::shared_ptr<const PreparedParts>> MasterSession::Prepare(const Signature& signature,
                                                                            const std::vector<Tensor>& feeds,
                                                                            Cancellation& cancellation) {
  std::vector<int> places;
  if (any_by_text_.load(std::memory_order_acquire)) {
    MutexLock lock(&mutex_);
    if (const auto it = by_text_.find(signature.Key()); it != by_text_.end()) places = it->second;
  }
  if (places.empty()) {
    absl::StatusOr<std::shared_ptr<const PreparedParts>> prepared = Prepare(signature, cancellation);
    if (!MissingArgument(prepared.status()).has_value()) return prepared;
  }
  Signature with_texts = signature;
  const auto add_text = [&](int place) {
    const size_t i = static_cast<size_t>(place);
    if (i >= feeds.size() || feeds[i].dtype() != kString || feeds[i].rank() != 0) return false;
    if (i < with_texts.texts.size() && with_texts.texts[i].has_value()) return false;
    with_texts.texts.resize(feeds.size());
    with_texts.texts[i] = feeds[i].scalar<std::string>();
    return true;
  };
  const size_t known = places.size();
  for (const int place : places) add_text(place);
  absl::StatusOr<std::shared_ptr<const PreparedParts>> prepared = Prepare(with_texts, cancellation);
  for (auto place = MissingArgument(prepared.status()); place.has_value() && add_text(*place);
       place = MissingArgument(prepared.status())) {
    places.push_back(*place);
    prepared = Prepare(with_texts, cancellation);
  }
  if (prepared.ok() && places.size() > known) {
    MutexLock lock(&mutex_);
    by_text_[signature.Key()] = std::move(places);
    any_by_text_.store(true, std::memory_order_release);
  }
  return prepared;
}

void MasterSession::RunStep(const CallOptions& options, RunStepCall call, RunStepResult* result, Done done) {
  if (!call.partial_run_handle.empty()) return RunPartial(options, std::move(call), result, std::move(done));
  Signature signature;
  std::vector<Tensor> feeds;
  signature.feeds.reserve(call.feeds.size());
  feeds.reserve(call.feeds.size());
  for (auto& [name, value] : call.feeds) {
    signature.feeds.push_back(std::move(name));
    feeds.push_back(std::move(value));
  }
  signature.fetches = std::move(call.fetches);
  signature.targets = std::move(call.targets);
  absl::StatusOr<std::unique_ptr<StepLimits>> limits = StepLimits::Begin(shared_from_this(), options, call.options);
  if (!limits.ok()) return done(limits.status());
  absl::StatusOr<std::shared_ptr<const PreparedParts>> prepared = Prepare(signature, feeds, *(*limits)->cancellation());
  if (!prepared.ok()) {
    limits->reset();
    return done(prepared.status());
  }
  Run({.options = options,
       .limits = *std::move(limits),
       .prepared = *std::move(prepared),
       .feeds = std::move(feeds),
       .num_fetches = signature.fetches.size(),
       .run_options = std::move(call.options),
       .result = result,
       .done = std::move(done)});
}

void MasterSession::Run(MasterStepCall call) {
  if (call.prepared->collective_graph_key != 0) return RunCollective(std::move(call));
  Start(std::move(call));
}

void MasterSession::Start(MasterStepCall call) {
  std::make_shared<MasterStep>(shared_from_this(), std::move(call))->Start();
}

absl::StatusOr<std::string> MasterSession::SetUpPartialRun(const Signature& signature) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StepLimits> limits, StepLimits::Begin(shared_from_this(), {}, {}));
  ASSIGN_OR_RETURN(std::shared_ptr<const PreparedParts> prepared, Prepare(signature, *limits->cancellation()));
  if (prepared->collective_graph_key != 0) return InvalidArgument("PartialRun does not support Collective ops.");
  auto run = std::make_shared<MasterPartialRun>(handle(), signature, std::move(prepared));
  MutexLock lock(&mutex_);
  std::string handle = absl::StrCat(next_handle_++);
  partial_runs_.emplace(handle, std::move(run));
  return handle;
}

// A fetch of a partial run must not need what has not been fed yet: it would
// wait for a later call.
absl::Status MasterSession::CheckComputable(const std::string& fetch, const std::set<std::string>& not_fed) {
  MutexLock lock(&graph_mutex_);
  ASSIGN_OR_RETURN(const Output start, graph_.FindOutput(fetch));
  std::set<const Node*> seen{start.node};
  std::vector<const Node*> stack{start.node};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    for (const Output& input : node->inputs()) {
      if (not_fed.contains(input.name())) {
        return InvalidArgument("Tensor ", fetch, " can't be computed from the feeds that have been fed so far.");
      }
      if (seen.insert(input.node).second) stack.push_back(input.node);
    }
    for (const Node* control : node->control_inputs()) {
      if (seen.insert(control).second) stack.push_back(control);
    }
  }
  return absl::OkStatus();
}

void MasterSession::RunPartial(const CallOptions& options, RunStepCall call, RunStepResult* result, Done done) {
  std::shared_ptr<MasterPartialRun> run;
  {
    MutexLock lock(&mutex_);
    if (const auto it = partial_runs_.find(call.partial_run_handle); it != partial_runs_.end()) run = it->second;
  }
  if (run == nullptr) return done(InvalidArgument("Must run PartialRunSetup before performing partial runs"));
  bool is_last = false;
  const absl::Status taken = run->Take(
      call,
      [this](const std::string& fetch, const std::set<std::string>& not_fed) {
        return CheckComputable(fetch, not_fed);
      },
      &is_last);
  if (!taken.ok()) return done(taken);
  if (is_last) {
    MutexLock lock(&mutex_);
    partial_runs_.erase(call.partial_run_handle);
  }
  run->Exchange(options, std::move(call), is_last, result, std::move(done));
}

absl::StatusOr<int64_t> MasterSession::MakeCallable(const tensorflow::CallableOptions& options) {
  if (options.tensor_connection_size() > 0) return Unimplemented("A callable with tensor connections");
  Signature signature{.feeds = {options.feed().begin(), options.feed().end()},
                      .fetches = {options.fetch().begin(), options.fetch().end()},
                      .targets = {options.target().begin(), options.target().end()}};
  ASSIGN_OR_RETURN(const std::unique_ptr<StepLimits> limits, StepLimits::Begin(shared_from_this(), {}, {}));
  ASSIGN_OR_RETURN(std::shared_ptr<const PreparedParts> prepared, Prepare(signature, *limits->cancellation()));
  MutexLock lock(&mutex_);
  const int64_t handle = next_handle_++;
  callables_[handle] = {std::move(prepared), std::move(signature), options.run_options()};
  return handle;
}

void MasterSession::RunCallable(const CallOptions& options, int64_t handle, std::vector<Tensor> feeds,
                                RunStepResult* result, Done done) {
  Callable callable;
  {
    MutexLock lock(&mutex_);
    if (const auto it = callables_.find(handle); it != callables_.end()) callable = it->second;
  }
  if (callable.prepared == nullptr) return done(InvalidArgument("No such callable handle: ", handle));
  if (feeds.size() != callable.signature.feeds.size()) {
    return done(InvalidArgument("Expected ", callable.signature.feeds.size(), " feeds, got ", feeds.size()));
  }
  absl::StatusOr<std::unique_ptr<StepLimits>> limits =
      StepLimits::Begin(shared_from_this(), options, callable.run_options);
  if (!limits.ok()) return done(limits.status());
  Run({.options = options,
       .limits = *std::move(limits),
       .prepared = std::move(callable.prepared),
       .feeds = std::move(feeds),
       .num_fetches = callable.signature.fetches.size(),
       .run_options = std::move(callable.run_options),
       .result = result,
       .done = std::move(done)});
}

absl::Status MasterSession::ReleaseCallable(int64_t handle) {
  MutexLock lock(&mutex_);
  if (callables_.erase(handle) == 1) return absl::OkStatus();
  return InvalidArgument("No such callable handle: ", handle);
}

void MasterSession::ListDevices(tensorflow::ListDevicesResponse* response) const {
  for (const ClusterDevices::Task& task : options_.devices.tasks) {
    for (const tensorflow::DeviceAttributes& device : task.devices) {
      *(task.name == options_.self ? response->add_local_device() : response->add_remote_device()) = device;
    }
  }
}

absl::Status MasterSession::Close() {
  const absl::Status why = Cancelled("Step was cancelled by an explicit call to `Session::Close()`.");
  std::vector<std::shared_ptr<Cancellation>> running;
  absl::flat_hash_map<std::string, std::shared_ptr<MasterPartialRun>> partial;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    running.assign(running_.begin(), running_.end());
    partial.swap(partial_runs_);
  }
  for (const auto& cancellation : running) cancellation->Cancel(why);
  for (const auto& [handle, run] : partial) run->CleanUp();
  {
    MutexLock lock(&mutex_);
    const absl::Time start = absl::Now();
    while (!running_.empty()) {
      if (step_ended_.WaitWithTimeout(&mutex_, absl::Seconds(10))) {
        LOG(INFO) << "Closing session " << handle() << " still waits for the end of " << running_.size()
                  << " steps, since " << absl::FormatDuration(absl::Now() - start);
      }
    }
    prepared_.clear();
    callables_.clear();
  }
  options_.sequences->Forget(handle());
  for (const ClusterDevices::Task& task : options_.devices.tasks) {
    auto request = std::make_shared<tensorflow::DeleteWorkerSessionRequest>();
    request->set_session_handle(handle());
    options_.workers->Find(task.name)->DeleteWorkerSession({.timeout = kCleanupTimeout}, *request,
                                                           [request](const absl::Status&) {});
  }
  return absl::OkStatus();
}

}  // namespace thalweg
