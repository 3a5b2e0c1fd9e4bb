// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/master_session.h"

#include <set>
#include <utility>

#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/cluster_def.h"
#include "thalweg/cluster/debug_reports.h"
#include "thalweg/cluster/master/master_partial_run.h"
#include "thalweg/cluster/master/master_step.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/runtime/debug_nodes.h"
#include "thalweg/runtime/functions.h"

namespace thalweg {
namespace {

// Workers that are gone are not waited for when a session ends.
constexpr absl::Duration kCleanupTimeout = absl::Seconds(10);

absl::Duration TimeoutOf(int64_t ms) { return ms > 0 ? absl::Milliseconds(ms) : absl::InfiniteDuration(); }

// Checks that a fetch of a partial run does not depend on a feed that has not been fed yet: the
// call would wait for a later one. Walks backwards from the fetch.
absl::Status CheckComputable(const Graph& graph, const std::string& fetch, const std::set<std::string>& not_fed) {
  ASSIGN_OR_RETURN(const Output start, graph.FindOutput(fetch));
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

}  // namespace

MasterSession::MasterSession(MasterSessionOptions options)
    : options_(std::move(options)),
      steps_({.closing = absl::StrCat("Closing session ", options_.handle),
              .timer = options_.timer,
              .default_timeout = TimeoutOf(options_.config.operation_timeout_in_ms())}) {}

absl::StatusOr<std::unique_ptr<StepScope>> MasterSession::Begin(const CallOptions& options,
                                                                const tensorflow::RunOptions& run_options) {
  auto scope = std::make_unique<StepScope>(steps_);
  RETURN_IF_ERROR(scope->Begin(TimeoutOf(run_options.timeout_in_ms()), options.cancellation));
  return scope;
}

std::vector<Peer> MasterSession::Others() const {
  std::vector<Peer> peers;
  for (const ClusterDevices::Task& task : options_.devices.tasks) {
    if (task.name != options_.self) peers.push_back({task.name, options_.workers->Find(task.name), options_.workers});
  }
  return peers;
}

bool MasterSession::busy() const { return !steps_.empty(); }

// The calls that create worker sessions. Each running call holds a reference.
struct MasterSession::Opening {
  struct Call {
    tensorflow::CreateWorkerSessionRequest request;
    absl::Status status;
  };
  std::vector<Call> calls;
  std::unique_ptr<WatchedCalls> watched;
  Done done;
  Mutex mutex;
  size_t left ABSL_GUARDED_BY(mutex) = 0;
};

absl::StatusOr<tensorflow::CreateWorkerSessionRequest> MasterSession::WorkerSessionRequest(
    const std::string& task, const ClusterSpec* cluster) const {
  tensorflow::CreateWorkerSessionRequest request;
  request.set_session_handle(options_.handle);
  request.set_isolate_session_state(options_.config.isolate_session_state());
  request.set_master_task(options_.self);
  request.set_master_incarnation(static_cast<int64_t>(options_.devices.tasks[0].devices[0].incarnation()));
  if (cluster == nullptr) return request;
  ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(task));
  *request.mutable_server_def()->mutable_cluster() = ClusterSpecToProto(*cluster);
  request.mutable_server_def()->set_protocol("grpc");
  request.mutable_server_def()->set_job_name(*name.job);
  request.mutable_server_def()->set_task_index(*name.task);
  request.set_isolate_session_state(!options_.config.experimental().share_session_state_in_clusterspec_propagation());
  return request;
}

void MasterSession::Open(const CallOptions& options, const ClusterSpec* cluster, Done done) {
  const auto opening = std::make_shared<Opening>();
  // Build all requests before the first call, because a request can fail to build.
  for (const ClusterDevices::Task& task : options_.devices.tasks) {
    absl::StatusOr<tensorflow::CreateWorkerSessionRequest> request = WorkerSessionRequest(task.name, cluster);
    if (!request.ok()) return done(request.status());
    opening->calls.push_back({*std::move(request), absl::OkStatus()});
  }
  opening->done = std::move(done);
  opening->watched = std::make_unique<WatchedCalls>(options_.health, Others(), options.cancellation);
  const CallOptions call{.cancellation = opening->watched->cancellation().get()};
  {
    MutexLock lock(&opening->mutex);
    opening->left = opening->calls.size();
  }
  // Collect the workers first: Opened(), which runs with the last answer, may remove tasks from the list
  // while the loop below still runs.
  std::vector<Worker*> workers;
  for (const ClusterDevices::Task& task : options_.devices.tasks) workers.push_back(options_.workers->Find(task.name));
  for (size_t i = 0; i < workers.size(); ++i) {
    // Every call ends: its task answers or dies, or the client disconnects.
    workers[i]->CreateWorkerSession(call, opening->calls[i].request,
                                    [self = shared_from_this(), opening, i](const absl::Status& status) {
                                      opening->calls[i].status = opening->watched->Explain(status);
                                      {
                                        MutexLock lock(&opening->mutex);
                                        if (--opening->left > 0) return;
                                      }
                                      // `done` may destroy what it watches.
                                      opening->watched.reset();
                                      Done done = std::move(opening->done);
                                      done(self->Opened(*opening));
                                    });
  }
}

absl::Status MasterSession::Opened(const Opening& opening) {
  // Tasks that have left since the discovery count as absent.
  for (size_t i = opening.calls.size(); i-- > 0;) {
    const absl::Status& status = opening.calls[i].status;
    const std::string task = options_.devices.tasks[i].name;
    if (!absl::IsUnavailable(status) || task == options_.self) {
      RETURN_IF_ERROR(status);
      continue;
    }
    LOG(WARNING) << task << " has left; steps that need it will fail: " << status.message();
    options_.devices.absent.push_back(task);
    options_.devices.tasks.erase(options_.devices.tasks.begin() + static_cast<ptrdiff_t>(i));
  }
  ASSIGN_OR_RETURN(prepare_options_, PrepareOptionsOf(options_));
  return absl::OkStatus();
}

absl::Status MasterSession::Create(const tensorflow::GraphDef& def) { return graph_.Import(def); }

absl::StatusOr<int64_t> MasterSession::Extend(const tensorflow::GraphDef& def, int64_t expected_version) {
  RETURN_IF_ERROR(steps_.CheckOpen());
  return graph_.Extend(def, expected_version);
}

MasterSession::PreparedCallable MasterSession::Prepare(const Signature& signature, Cancellation& cancellation) {
  return callables_.FindOrMake(signature.Key(), cancellation, [&]() -> PreparedCallable {
    ASSIGN_OR_RETURN(Graph graph, graph_.Prepare(signature, prepare_options_, cancellation));
    return RegisterParts(std::move(graph), signature, next_number_.fetch_add(1), options_, cancellation);
  });
}

MasterSession::PreparedCallable MasterSession::Prepare(const Signature& signature, const std::vector<Tensor>& feeds,
                                                       Cancellation& cancellation) {
  // Usually a signature does not depend on the values of its feeds. If preparation fails because it needs
  // the value of a string feed (the device of a RemoteCall), the value becomes part of the signature, and
  // preparation is repeated. `by_text_` remembers these feeds for the next step with this signature.
  std::vector<int> places;
  if (any_by_text_.load(std::memory_order_acquire)) {
    MutexLock lock(&mutex_);
    if (const auto it = by_text_.find(signature.Key()); it != by_text_.end()) places = it->second;
  }
  if (places.empty()) {
    PreparedCallable prepared = Prepare(signature, cancellation);
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
  PreparedCallable prepared = Prepare(with_texts, cancellation);
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

MasterSession::PreparedCallable MasterSession::PrepareDebugged(const Signature& signature,
                                                               const tensorflow::DebugOptions& debug,
                                                               Cancellation& cancellation) {
  PrepareOptions options = prepare_options_;
  options.optimizer.fold_constants = options.optimizer.merge_common_subexpressions = false;
  ASSIGN_OR_RETURN(Graph graph, graph_.Prepare(signature, options, cancellation));
  return RegisterParts(std::move(graph), signature, next_number_.fetch_add(1), options_, cancellation, debug);
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
  absl::StatusOr<std::unique_ptr<StepScope>> scope = Begin(options, call.options);
  if (!scope.ok()) return done(scope.status());
  const tensorflow::DebugOptions& debug = call.options.debug_options();
  const bool is_debugged = WatchesTensors(debug);
  PreparedCallable callable = is_debugged ? PrepareDebugged(signature, debug, (*scope)->cancellation())
                                          : Prepare(signature, feeds, (*scope)->cancellation());
  absl::Status ready = callable.status();
  if (ready.ok() && is_debugged) {
    ready = PublishDebuggedStep(debug, debugged_steps_.fetch_add(1), signature);
    done = [self = shared_from_this(), callable = *callable,
            done = std::move(done)](const absl::Status& status) mutable {
      callable->Deregister(self->handle());
      done(status);
    };
  }
  if (ready.ok()) ready = FailPoint("master.run_step", options_.self);
  if (!ready.ok()) {
    scope->reset();
    return done(ready);
  }
  Run({.options = options,
       .scope = *std::move(scope),
       .callable = *std::move(callable),
       .feeds = std::move(feeds),
       .run_options = std::move(call.options),
       .result = result,
       .done = std::move(done)});
}

void MasterSession::Run(MasterStepCall call) {
  if (call.callable->collective_graph_key != 0) return RunCollective(std::move(call));
  Start(std::move(call));
}

void MasterSession::Start(MasterStepCall call) {
  // A step that saves pauses the updates of all masters; a step that updates waits for such pauses.
  if (call.run_options.thalweg().cut() || call.callable->saves) return RunAtOneMoment(std::move(call));
  if (!call.callable->updates || options_.gate == nullptr) return Launch(std::move(call));
  const uint64_t client = call.run_options.thalweg().client();
  call.done = [gate = options_.gate, client, done = std::move(call.done)](const absl::Status& status) mutable {
    gate->Leave(client, status);
    done(status);
  };
  options_.gate->Enter([self = shared_from_this(), call = std::move(call)]() mutable { self->Launch(std::move(call)); },
                       client);
}

void MasterSession::Launch(MasterStepCall call) {
  std::make_shared<MasterStep>(shared_from_this(), std::move(call))->Start();
}

absl::StatusOr<std::string> MasterSession::SetUpPartialRun(const Signature& signature) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StepScope> scope, Begin({}, {}));
  ASSIGN_OR_RETURN(std::shared_ptr<const ClusterCallable> callable, Prepare(signature, scope->cancellation()));
  if (callable->collective_graph_key != 0) return InvalidArgument("PartialRun does not support Collective ops.");
  auto run = std::make_shared<MasterPartialRun>(handle(), std::move(callable), options_.health);
  MutexLock lock(&mutex_);
  std::string handle = absl::StrCat(next_handle_++);
  partial_runs_.emplace(handle, std::move(run));
  return handle;
}

absl::Status MasterSession::CheckComputable(const std::string& fetch, const std::set<std::string>& not_fed) const {
  return graph_.Read([&](const Graph& graph) { return thalweg::CheckComputable(graph, fetch, not_fed); });
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

absl::StatusOr<int64_t> MasterSession::MakeCallable(const CallOptions& call,
                                                    const tensorflow::CallableOptions& options) {
  if (options.tensor_connection_size() > 0) return Unimplemented("A callable with tensor connections");
  const Signature signature{.feeds = {options.feed().begin(), options.feed().end()},
                            .fetches = {options.fetch().begin(), options.fetch().end()},
                            .targets = {options.target().begin(), options.target().end()}};
  ASSIGN_OR_RETURN(const std::unique_ptr<StepScope> scope, Begin(call, options.run_options()));
  const tensorflow::DebugOptions& debug = options.run_options().debug_options();
  ASSIGN_OR_RETURN(std::shared_ptr<const ClusterCallable> callable,
                   WatchesTensors(debug) ? PrepareDebugged(signature, debug, scope->cancellation())
                                         : Prepare(signature, scope->cancellation()));
  MutexLock lock(&mutex_);
  const int64_t handle = next_handle_++;
  client_callables_[handle] = {std::move(callable), options.run_options()};
  return handle;
}

void MasterSession::RunCallable(const CallOptions& options, RunCallableCall call, RunStepResult* result, Done done) {
  std::shared_ptr<const ClusterCallable> callable;
  {
    MutexLock lock(&mutex_);
    if (const auto it = client_callables_.find(call.handle); it != client_callables_.end()) {
      callable = it->second.callable;
      if (!call.options.has_value()) call.options = it->second.run_options;
    }
  }
  if (callable == nullptr) {
    const absl::Status open = steps_.CheckOpen();  // a closed session has no callables
    return done(open.ok() ? InvalidArgument("No such callable handle: ", call.handle) : open);
  }
  const std::vector<std::string>& expected = callable->signature.feeds;
  if (call.feeds.size() != expected.size()) {
    return done(InvalidArgument("Expected ", expected.size(), " feeds, got ", call.feeds.size()));
  }
  absl::StatusOr<std::unique_ptr<StepScope>> scope = Begin(options, *call.options);
  if (!scope.ok()) return done(scope.status());
  if (const absl::Status ready = FailPoint("master.run_step", options_.self); !ready.ok()) {
    scope->reset();
    return done(ready);
  }
  Run({.options = options,
       .scope = *std::move(scope),
       .callable = std::move(callable),
       .feeds = std::move(call.feeds),
       .run_options = *std::move(call.options),
       .result = result,
       .done = std::move(done)});
}

absl::Status MasterSession::ReleaseCallable(int64_t handle) {
  MutexLock lock(&mutex_);
  if (client_callables_.erase(handle) == 1) return absl::OkStatus();
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
  steps_.Close();
  callables_.Clear();
  absl::flat_hash_map<std::string, std::shared_ptr<MasterPartialRun>> partial;
  absl::flat_hash_map<int64_t, ClientCallable> client_callables;  // destroyed after the lock is released
  {
    MutexLock lock(&mutex_);
    partial.swap(partial_runs_);
    client_callables.swap(client_callables_);
  }
  for (const auto& [handle, run] : partial) run->CleanUp();
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
