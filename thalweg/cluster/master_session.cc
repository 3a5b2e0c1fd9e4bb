#include "thalweg/cluster/master_session.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"
#include "thalweg/runtime/functions.h"
#include "thalweg/runtime/optimizer.h"
#include "thalweg/runtime/partitioner.h"
#include "thalweg/runtime/placer.h"

namespace thalweg {
namespace {

// Workers that are gone are not waited for when a session ends.
constexpr absl::Duration kCleanupTimeout = absl::Seconds(10);

OptimizerOptions OptimizerOptionsOf(const tensorflow::ConfigProto& config) {
  const auto& options = config.graph_options().optimizer_options();
  const auto& rewrite = config.graph_options().rewrite_options();
  OptimizerOptions result;
  if (options.opt_level() == tensorflow::OptimizerOptions::L0) {
    result.fold_constants = result.merge_common_subexpressions = false;
  }
  if (rewrite.disable_meta_optimizer() || rewrite.constant_folding() == tensorflow::RewriterConfig::OFF) {
    result.fold_constants = false;
  }
  return result;
}

// "/job:x/replica:0/task:0" becomes the text that clients know an error of a
// task by.
absl::Status FromTask(const absl::Status& status, const std::string& task) {
  return Prepend(status, absl::StrCat("From ", task, ":\n"));
}

// An error that only says that the step was ended for another one.
bool IsDerived(const absl::Status& status) { return absl::IsCancelled(status); }

}  // namespace

// A step under way. Lives until its last part has ended.
class MasterSession::StepCall : public std::enable_shared_from_this<StepCall> {
 public:
  StepCall(std::shared_ptr<MasterSession> session, std::shared_ptr<const Prepared> prepared, RunStepResult* result,
           Done done)
      : session_(std::move(session)),
        prepared_(std::move(prepared)),
        result_(result),
        done_(std::move(done)),
        results_(prepared_->parts.size()) {}

  void Start(const CallOptions& options, std::vector<Tensor> feeds, size_t num_fetches,
             const tensorflow::RunOptions& run_options, int64_t collective_step_id) {
    if (absl::Status status = Begin(options, run_options); !status.ok()) return Finish(status);
    result_->fetches.resize(num_fetches);
    // Other masters run steps of the same collective number, maybe in the same
    // tasks: those of ours tell the two apart.
    step_id_ = collective_step_id != 0 && !prepared_->cleans_up ? collective_step_id : NewStepId();
    if (!prepared_->peers->empty()) watch_ = session_->options_.health->Watch(prepared_->peers, cancellation_);
    const size_t parts = prepared_->parts.size();
    left_.store(static_cast<int>(parts), std::memory_order_relaxed);
    const auto self = shared_from_this();
    for (size_t i = 0; i < parts; ++i) {
      const Prepared::Part& part = prepared_->parts[i];
      RunGraphCall call{.session_handle = session_->handle(),
                        .graph_handle = part.graph_handle,
                        .step_id = step_id_,
                        .collective_step_id = collective_step_id,
                        .request_id = NewRequestId(),
                        .trace = run_options.trace_level() > tensorflow::RunOptions::NO_TRACE,
                        .partition_graphs = run_options.output_partition_graphs()};
      call.send.reserve(part.feeds.size());
      for (const auto& [index, key] : part.feeds) call.send.emplace_back(key, feeds[index]);
      call.recv_keys.reserve(part.fetches.size());
      for (const auto& [index, key] : part.fetches) call.recv_keys.push_back(key);
      part.worker->RunGraph({.cancellation = cancellation_.get()}, std::move(call), &results_[i],
                            [self, i](const absl::Status& status) { self->PartEnded(i, status); });
    }
  }

 private:
  absl::Status Begin(const CallOptions& options, const tensorflow::RunOptions& run_options) {
    {
      MutexLock lock(&session_->mutex_);
      if (session_->closed_) return FailedPrecondition("Session has been closed.");
      session_->running_.insert(cancellation_);
      registered_ = true;
    }
    if (options.cancellation != nullptr) {
      outside_ = options.cancellation;
      outside_id_ = outside_->Register([c = cancellation_](const absl::Status& why) { c->Cancel(why); });
      if (!outside_id_.has_value()) return outside_->status();
    }
    const int64_t timeout_ms = run_options.timeout_in_ms() > 0 ? run_options.timeout_in_ms()
                                                               : session_->options_.config.operation_timeout_in_ms();
    if (timeout_ms > 0) {
      alarm_ =
          session_->options_.timer->Set(absl::Now() + absl::Milliseconds(timeout_ms), [c = cancellation_, timeout_ms] {
            c->Cancel(DeadlineExceeded("Timed out waiting for the step to finish: it had ", timeout_ms, " ms."));
          });
    }
    return absl::OkStatus();
  }

  void PartEnded(size_t i, const absl::Status& status) {
    if (!status.ok()) {
      bool first = false;
      {
        MutexLock lock(&mutex_);
        if (status_.ok() || (IsDerived(status_) && !IsDerived(status))) {
          first = status_.ok();
          status_ = FromTask(status, prepared_->parts[i].task);
        }
      }
      if (first) cancellation_->Cancel(status);
    }
    if (!results_[i].pushed.empty()) {
      // An error of the part that it is for is that part's to tell.
      session_->options_.workers->Find(session_->options_.self)
          ->Push({}, step_id_, std::move(results_[i].pushed), [](const absl::Status&) {});
    }
    if (left_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    absl::Status result;
    {
      MutexLock lock(&mutex_);
      result = status_;
    }
    if (!result.ok() || !prepared_->cleans_up) {
      for (const Prepared::Part& part : prepared_->parts) {
        part.worker->CleanupGraph({.timeout = kCleanupTimeout}, step_id_, [](const absl::Status&) {});
      }
    }
    // What cancelled the step from outside (its deadline, a Close) is what the client hears.
    if (!result.ok() && IsDerived(result) && !IsDerived(cancellation_->status())) result = cancellation_->status();
    if (result.ok()) {
      Collect();
    } else {
      result_->step_failed = true;
    }
    Finish(result);
  }

  void Collect() {
    for (size_t i = 0; i < results_.size(); ++i) {
      const Prepared::Part& part = prepared_->parts[i];
      RunGraphResult& r = results_[i];
      for (size_t k = 0; k < part.fetches.size() && k < r.recv.size(); ++k) {
        result_->fetches[part.fetches[k].first] = std::move(r.recv[k].second);
      }
      if (r.step_stats.dev_stats_size() > 0) result_->metadata.mutable_step_stats()->MergeFrom(r.step_stats);
      for (tensorflow::GraphDef& graph : r.partition_graphs) {
        *result_->metadata.add_partition_graphs() = std::move(graph);
      }
    }
  }

  void Finish(const absl::Status& status) {
    if (outside_id_.has_value()) outside_->TryDeregister(*outside_id_);
    if (alarm_.has_value()) session_->options_.timer->Unset(*alarm_);
    if (watch_.has_value()) session_->options_.health->Unwatch(*watch_);
    Done done = std::move(done_);
    if (registered_) {
      MutexLock lock(&session_->mutex_);
      session_->running_.erase(cancellation_);
      if (session_->closed_) session_->step_ended_.SignalAll();
    }
    done(status);
  }

  const std::shared_ptr<MasterSession> session_;
  const std::shared_ptr<const Prepared> prepared_;
  RunStepResult* const result_;
  Done done_;
  std::vector<RunGraphResult> results_;
  int64_t step_id_ = 0;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  bool registered_ = false;
  Cancellation* outside_ = nullptr;
  std::optional<Cancellation::CallbackId> outside_id_;
  std::optional<Timer::AlarmId> alarm_;
  std::optional<int64_t> watch_;
  std::atomic<int> left_{0};
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// A step that the client feeds and fetches piece by piece.
struct MasterSession::PartialRun {
  std::shared_ptr<const Prepared> prepared;
  Signature signature;
  int64_t step_id = 0;
  Mutex mutex;
  std::set<std::string> feeds_left ABSL_GUARDED_BY(mutex);
  std::set<std::string> fetches_left ABSL_GUARDED_BY(mutex);
};

MasterSession::MasterSession(MasterSessionOptions options)
    : options_(std::move(options)), client_device_(options_.devices.tasks[0].devices[0].name()) {}

absl::Status MasterSession::Start(const CallOptions& options, const ClusterSpec* cluster) {
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

absl::StatusOr<std::shared_ptr<const MasterSession::Prepared>> MasterSession::Build(const Signature& signature) {
  ASSIGN_OR_RETURN(Graph graph, Extract(graph_, signature));
  std::vector<std::string> targets = signature.targets;
  RETURN_IF_ERROR(InlineFunctions(graph, &targets));
  PlacerOptions placer{.default_device = client_device_,
                       .allow_soft_placement = options_.config.allow_soft_placement()};
  for (const ClusterDevices::Task& task : options_.devices.tasks) {
    for (const tensorflow::DeviceAttributes& device : task.devices) {
      ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(device.name()));
      placer.devices.push_back({std::move(name)});
    }
  }
  const absl::StatusOr<std::vector<Placed>> placed = Place(graph, placer);
  if (!placed.ok()) {
    if (options_.devices.absent.empty()) return placed.status();
    // Most likely it asks for a device of a task that has left.
    return Unavailable(absl::StrJoin(options_.devices.absent, ", "),
                       " has left the cluster: ", placed.status().message());
  }
  if (options_.config.log_device_placement()) {
    for (const Placed& p : *placed) LOG(INFO) << p.node << ": (" << p.op << "): " << p.device;
  }
  RETURN_IF_ERROR(Optimize(graph, targets, *options_.folding_device, OptimizerOptionsOf(options_.config)));
  const auto prepared = std::make_shared<Prepared>();
  prepared->collective_graph_key = CollectiveGraphKey(graph);
  ASSIGN_OR_RETURN(std::vector<GraphPart> parts,
                   Partition(std::move(graph), signature, {.incarnation = [this](const std::string& device) {
                               return options_.devices.Incarnation(device);
                             }}));

  prepared->parts.resize(parts.size());
  std::vector<tensorflow::RegisterGraphRequest> requests(parts.size());
  std::vector<tensorflow::RegisterGraphResponse> responses(parts.size());
  std::vector<absl::Status> statuses(parts.size());
  // The master's own part runs on the thread that starts the others, after them.
  std::stable_partition(parts.begin(), parts.end(), [&](const GraphPart& p) { return p.task != options_.self; });
  tensorflow::ThalwegTransfers transfers;
  transfers.set_master_task(options_.self);
  for (const ClusterDevices::Task& task : options_.devices.tasks) {
    if (task.takes_pushes) transfers.add_push_task(task.name);
  }
  const auto& push_tasks = transfers.push_task();
  prepared->cleans_up = std::all_of(parts.begin(), parts.end(), [&](const GraphPart& p) {
    return std::find(push_tasks.begin(), push_tasks.end(), p.task) != push_tasks.end();
  });
  transfers.set_all_pushed(prepared->cleans_up);
  BlockingCounter left(static_cast<int>(parts.size()));
  std::vector<Peer> peers;
  for (size_t i = 0; i < parts.size(); ++i) {
    Prepared::Part& part = prepared->parts[i];
    part.task = parts[i].task;
    part.worker = options_.workers->Find(part.task);
    part.feeds = std::move(parts[i].feeds);
    part.fetches = std::move(parts[i].fetches);
    CHECK(part.worker != nullptr) << part.task;
    if (part.task != options_.self) peers.push_back({part.task, part.worker});
    requests[i].set_session_handle(options_.handle);
    requests[i].set_create_worker_session_called(true);
    *requests[i].mutable_graph_def() = std::move(parts[i].graph);
    *requests[i].mutable_graph_options() = options_.config.graph_options();
    *requests[i].mutable_thalweg() = transfers;
    if (prepared->collective_graph_key != 0) {
      requests[i].set_collective_graph_key(prepared->collective_graph_key);
      *requests[i].mutable_config_proto() = options_.config;
    }
    part.worker->RegisterGraph({}, requests[i], &responses[i], [&statuses, &left, i](const absl::Status& status) {
      statuses[i] = status;
      left.DecrementCount();
    });
  }
  left.Wait();
  prepared->peers = std::make_shared<const std::vector<Peer>>(std::move(peers));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!statuses[i].ok()) return FromTask(statuses[i], prepared->parts[i].task);
    prepared->parts[i].graph_handle = responses[i].graph_handle();
  }
  return std::shared_ptr<const Prepared>(prepared);
}

absl::StatusOr<std::shared_ptr<const MasterSession::Prepared>> MasterSession::Prepare(const Signature& signature) {
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
  ASSIGN_OR_RETURN(std::shared_ptr<const Prepared> prepared, Build(signature));
  MutexLock lock(&mutex_);
  prepared_.emplace(key, prepared);
  return prepared;
}

absl::StatusOr<std::shared_ptr<const MasterSession::Prepared>> MasterSession::Prepare(
    const Signature& signature, const std::vector<Tensor>& feeds) {
  const auto depends_on_text = [&] {
    MutexLock lock(&mutex_);
    return by_text_.contains(signature.Key());
  };
  const bool by_text = any_by_text_.load(std::memory_order_acquire) && depends_on_text();
  if (!by_text) {
    absl::StatusOr<std::shared_ptr<const Prepared>> prepared = Prepare(signature);
    if (!absl::IsUnimplemented(prepared.status())) return prepared;
  }
  Signature with_texts = signature;
  with_texts.texts.resize(feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i].dtype() == kString && feeds[i].rank() == 0) with_texts.texts[i] = feeds[i].scalar<std::string>();
  }
  absl::StatusOr<std::shared_ptr<const Prepared>> prepared = Prepare(with_texts);
  if (prepared.ok() && !by_text) {
    MutexLock lock(&mutex_);
    by_text_.insert(signature.Key());
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
  absl::StatusOr<std::shared_ptr<const Prepared>> prepared = Prepare(signature, feeds);
  if (!prepared.ok()) return done(prepared.status());
  RunPrepared(options, *std::move(prepared), std::move(feeds), signature.fetches.size(), call.options, result,
              std::move(done));
}

void MasterSession::RunPrepared(const CallOptions& options, std::shared_ptr<const Prepared> prepared,
                                std::vector<Tensor> feeds, size_t num_fetches,
                                const tensorflow::RunOptions& run_options, RunStepResult* result, Done done) {
  if (prepared->collective_graph_key != 0) {
    return RunCollective(options, std::move(prepared), std::move(feeds), num_fetches, run_options, result,
                         std::move(done));
  }
  StartStep(options, std::move(prepared), std::move(feeds), num_fetches, run_options, 0, result, std::move(done));
}

void MasterSession::StartStep(const CallOptions& options, std::shared_ptr<const Prepared> prepared,
                              std::vector<Tensor> feeds, size_t num_fetches, const tensorflow::RunOptions& run_options,
                              int64_t collective_step_id, RunStepResult* result, Done done) {
  std::make_shared<StepCall>(shared_from_this(), std::move(prepared), result, std::move(done))
      ->Start(options, std::move(feeds), num_fetches, run_options, collective_step_id);
}

absl::StatusOr<std::string> MasterSession::SetUpPartialRun(const Signature& signature) {
  auto run = std::make_shared<PartialRun>();
  ASSIGN_OR_RETURN(run->prepared, Prepare(signature));
  if (run->prepared->collective_graph_key != 0) return InvalidArgument("PartialRun does not support Collective ops.");
  run->signature = signature;
  run->step_id = NewStepId();
  {
    MutexLock lock(&run->mutex);
    run->feeds_left.insert(signature.feeds.begin(), signature.feeds.end());
    run->fetches_left.insert(signature.fetches.begin(), signature.fetches.end());
  }
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
  std::shared_ptr<PartialRun> run;
  {
    MutexLock lock(&mutex_);
    if (const auto it = partial_runs_.find(call.partial_run_handle); it != partial_runs_.end()) run = it->second;
  }
  if (run == nullptr) return done(InvalidArgument("Must run PartialRunSetup before performing partial runs"));

  std::set<std::string> not_fed;
  bool is_last = false;
  const auto take = [&]() -> absl::Status {
    MutexLock lock(&run->mutex);
    std::set<std::string> feeds = run->feeds_left;
    std::set<std::string> fetches = run->fetches_left;
    const auto take_one = [](const char* what, const std::string& name, const std::vector<std::string>& all,
                             std::set<std::string>& left) -> absl::Status {
      if (left.erase(name) == 1) return absl::OkStatus();
      const bool known = std::find(all.begin(), all.end(), name) != all.end();
      return InvalidArgument("The ", what, " ", name,
                             known
                                 ? absl::StrCat(" has already been ", what == std::string("feed") ? "fed." : "fetched.")
                                 : " was not specified in partial_run_setup.");
    };
    for (const auto& [name, value] : call.feeds) RETURN_IF_ERROR(take_one("feed", name, run->signature.feeds, feeds));
    for (const std::string& name : call.fetches) {
      RETURN_IF_ERROR(take_one("fetch", name, run->signature.fetches, fetches));
    }
    for (const std::string& name : call.fetches) RETURN_IF_ERROR(CheckComputable(name, feeds));
    is_last = feeds.empty() && fetches.empty();
    run->feeds_left = std::move(feeds);
    run->fetches_left = std::move(fetches);
    return absl::OkStatus();
  };
  if (const absl::Status status = take(); !status.ok()) return done(status);
  if (is_last) {
    MutexLock lock(&mutex_);
    partial_runs_.erase(call.partial_run_handle);
  }

  struct Exchange {
    std::vector<RunGraphResult> results;
    std::vector<std::vector<int>> fetches;  // by part: places in the result
    Mutex mutex;
    size_t left ABSL_GUARDED_BY(mutex) = 0;
    absl::Status status ABSL_GUARDED_BY(mutex);
    Done done;
  };
  const Prepared& prepared = *run->prepared;
  const auto exchange = std::make_shared<Exchange>();
  exchange->results.resize(prepared.parts.size());
  exchange->fetches.resize(prepared.parts.size());
  exchange->done = std::move(done);
  result->fetches.resize(call.fetches.size());
  {
    MutexLock lock(&exchange->mutex);
    exchange->left = prepared.parts.size();
  }
  for (size_t i = 0; i < prepared.parts.size(); ++i) {
    const Prepared::Part& part = prepared.parts[i];
    RunGraphCall graph_call{.session_handle = handle(),
                            .graph_handle = part.graph_handle,
                            .step_id = run->step_id,
                            .request_id = NewRequestId(),
                            .is_partial = true,
                            .is_last_partial = is_last};
    for (const auto& [index, key] : part.feeds) {
      for (const auto& [name, value] : call.feeds) {
        if (name == run->signature.feeds[index]) graph_call.send.emplace_back(key, value);
      }
    }
    for (const auto& [index, key] : part.fetches) {
      for (size_t k = 0; k < call.fetches.size(); ++k) {
        if (call.fetches[k] != run->signature.fetches[index]) continue;
        graph_call.recv_keys.push_back(key);
        exchange->fetches[i].push_back(static_cast<int>(k));
      }
    }
    part.worker->RunGraph(
        options, std::move(graph_call), &exchange->results[i],
        [self = shared_from_this(), exchange, run, result, i, is_last](const absl::Status& status) {
          const Prepared& prepared = *run->prepared;
          absl::Status first;
          {
            MutexLock lock(&exchange->mutex);
            if (exchange->status.ok() && !status.ok()) exchange->status = FromTask(status, prepared.parts[i].task);
            if (--exchange->left > 0) return;
            first = exchange->status;
          }
          for (size_t p = 0; p < prepared.parts.size() && first.ok(); ++p) {
            for (size_t k = 0; k < exchange->fetches[p].size(); ++k) {
              result->fetches[exchange->fetches[p][k]] = std::move(exchange->results[p].recv[k].second);
            }
          }
          if (is_last || !first.ok()) {
            for (const Prepared::Part& part : prepared.parts) {
              part.worker->CleanupGraph({.timeout = kCleanupTimeout}, run->step_id, [](const absl::Status&) {});
            }
          }
          result->step_failed = !first.ok();
          exchange->done(first);
        });
  }
}

absl::StatusOr<int64_t> MasterSession::MakeCallable(const tensorflow::CallableOptions& options) {
  if (options.tensor_connection_size() > 0) return Unimplemented("A callable with tensor connections");
  Signature signature{.feeds = {options.feed().begin(), options.feed().end()},
                      .fetches = {options.fetch().begin(), options.fetch().end()},
                      .targets = {options.target().begin(), options.target().end()}};
  ASSIGN_OR_RETURN(std::shared_ptr<const Prepared> prepared, Prepare(signature));
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
  RunPrepared(options, std::move(callable.prepared), std::move(feeds), callable.signature.fetches.size(),
              callable.run_options, result, std::move(done));
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
  absl::flat_hash_map<std::string, std::shared_ptr<PartialRun>> partial;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    running.assign(running_.begin(), running_.end());
    partial.swap(partial_runs_);
  }
  for (const auto& cancellation : running) cancellation->Cancel(why);
  for (const auto& [handle, run] : partial) {
    for (const Prepared::Part& part : run->prepared->parts) {
      part.worker->CleanupGraph({.timeout = kCleanupTimeout}, run->step_id, [](const absl::Status&) {});
    }
  }
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
