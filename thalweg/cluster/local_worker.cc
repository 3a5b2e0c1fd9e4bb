#include "thalweg/cluster/local_worker.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"
#include "thalweg/runtime/executor.h"

namespace thalweg {
namespace {

constexpr absl::Duration kReportAfter = absl::Seconds(10);

// A call may come without a cancellation; a step always has one.
class StepCancellation {
 public:
  explicit StepCancellation(Cancellation* outside) : use_(outside != nullptr ? outside : &own_) {}
  Cancellation& get() { return *use_; }

 private:
  Cancellation own_;
  Cancellation* const use_;
};

}  // namespace

// One step of one graph, from the call to its answer. Owned by itself.
class LocalWorker::StepRun : public std::enable_shared_from_this<StepRun> {
 public:
  StepRun(LocalWorker& worker, const CallOptions& options, RunGraphCall call, std::shared_ptr<WorkerSession> session,
          std::shared_ptr<RegisteredGraph> graph, RunGraphResult* result, Done done)
      : worker_(worker),
        cancellation_(options.cancellation),
        call_(std::move(call)),
        session_(std::move(session)),
        graph_(std::move(graph)),
        rendezvous_(graph_->has_transfers ? worker.steps_.FindOrCreate(call_.step_id) : nullptr),
        result_(result),
        done_(std::move(done)) {
    if (rendezvous_ != nullptr) {
      // What a part without waits sends to its master goes with the answer.
      const bool hold = !graph_->executable->plan.has_waits && graph_->rules->master_task != session_->task();
      rendezvous_->SetCluster(session_->task(), session_->workers(), graph_->rules,
                              hold ? graph_->rules->master_task : "");
    }
    step_ = {.id = call_.step_id,
             .rendezvous = rendezvous_.get(),
             .cancellation = &cancellation_.get(),
             .pool = &worker.options_.devices->pool(),
             .resources = &resources_,
             .session_resources = &session_->resources()};
    if (graph_->collectives != nullptr) {
      const int64_t step_id = call_.collective_step_id != 0 ? call_.collective_step_id : call_.step_id;
      collectives_ = worker.collectives_.ForStep(graph_->collectives, step_id);
      CHECK(resources_.Create<Collectives>("", Collectives::kName, collectives_).ok());
    }
    if (call_.trace || call_.record_costs) stats_.emplace();
  }

  void Start() {
    self_ = shared_from_this();
    std::vector<Tensor> args;
    if (absl::Status status = Bind(&args); !status.ok()) return End(std::move(status));
    // Waits for other tasks end when the step is cancelled.
    if (rendezvous_ != nullptr) {
      abort_ =
          step_.cancellation->Register([rendezvous = rendezvous_](const absl::Status& why) { rendezvous->Abort(why); });
      if (!abort_.has_value()) return End(step_.cancellation->status());
    }
    execution_.emplace(*graph_->executable, step_, stats_.has_value() ? &*stats_ : nullptr);
    worker_.Watch(this, true);
    watched_ = true;
    const StepRendezvous::Batch batch(rendezvous_);
    execution_->Start(args, [this](const absl::Status& status) { End(status); });
  }

  std::string Describe() const {
    const std::string waits = execution_->DescribeWaits();
    return absl::StrCat("step ", call_.step_id, " of session ", call_.session_handle, " waits for ",
                        waits.empty() ? "other tasks to take what it has sent" : waits);
  }
  int64_t id() const { return call_.step_id; }
  bool waits() const { return graph_->executable->plan.has_waits || rendezvous_ != nullptr; }
  void Cancel(const absl::Status& why) { step_.cancellation->Cancel(why); }

 private:
  // What the master gave, in the order of the arguments.
  absl::Status Bind(std::vector<Tensor>* args) {
    const Plan& plan = graph_->executable->plan;
    args->resize(graph_->arg_by_key.size());
    for (auto& [key, tensor] : call_.send) {
      const auto it = graph_->arg_by_key.find(key);
      if (it == graph_->arg_by_key.end()) return InvalidArgument("No node of the graph receives ", key);
      const Node* arg = it->second < plan.arg_nodes.size() ? plan.arg_nodes[it->second] : nullptr;
      if (arg != nullptr && arg->output_type(0) != tensor.dtype()) {
        return Internal("Output 0 of type ", tensor.dtype(), " does not match declared output type ",
                        arg->output_type(0), " for node {{node ", arg->name(), "}}");
      }
      (*args)[it->second] = std::move(tensor);
    }
    for (const auto& [key, index] : graph_->arg_by_key) {
      if (!(*args)[index].has_value()) return InvalidArgument("The step was given no value for ", key);
    }
    for (const std::string& key : call_.recv_keys) {
      if (!graph_->result_by_key.contains(key)) return InvalidArgument("No node of the graph sends ", key);
    }
    return absl::OkStatus();
  }

  // The part has run; what it sent must have arrived before the master hears of
  // it.
  void End(absl::Status status) {
    if (rendezvous_ == nullptr || !status.ok()) return Finish(std::move(status));
    result_->pushed = rendezvous_->TakeHeld();
    rendezvous_->FinishPushes([this](const absl::Status& pushed) { Finish(pushed); });
  }

  void Finish(absl::Status status) {
    const std::shared_ptr<StepRun> self = std::move(self_);
    if (watched_) worker_.Watch(this, false);
    if (abort_.has_value()) step_.cancellation->TryDeregister(*abort_);
    // A call that was cancelled with the step does not know why.
    if (absl::IsCancelled(status) && step_.cancellation->cancelled()) status = step_.cancellation->status();
    if (status.ok()) status = TakeResults();
    if (stats_.has_value()) {
      stats_->AddResident(graph_->executable->graph);
      stats_->Fill(&result_->step_stats);
    }
    if (call_.partition_graphs) result_->partition_graphs.push_back(graph_->executable->graph.Export());
    if (collectives_ != nullptr && !status.ok()) collectives_->Failed(status);
    if (rendezvous_ != nullptr) {
      // Peers that wait for something of this part learn that it will not come.
      if (!status.ok()) rendezvous_->Abort(status);
      if (status.ok() && graph_->rules->all_pushed) worker_.steps_.Forget(call_.step_id);
    }
    execution_.reset();
    Done done = std::move(done_);
    done(status);
  }

  absl::Status TakeResults() {
    if (graph_->result_by_key.empty()) return absl::OkStatus();
    std::vector<Tensor> values;
    RETURN_IF_ERROR(execution_->TakeResults(&values));
    result_->recv.reserve(call_.recv_keys.size());
    for (std::string& key : call_.recv_keys) {
      Tensor& value = values[graph_->result_by_key.at(key)];
      result_->recv.emplace_back(std::move(key), value);
    }
    return absl::OkStatus();
  }

  LocalWorker& worker_;
  StepCancellation cancellation_;
  RunGraphCall call_;
  const std::shared_ptr<WorkerSession> session_;
  const std::shared_ptr<RegisteredGraph> graph_;
  const std::shared_ptr<StepRendezvous> rendezvous_;
  RunGraphResult* const result_;
  Done done_;
  ResourceManager resources_;
  std::shared_ptr<TaskCollectives::StepPart> collectives_;  // if its graph has any
  Step step_;
  std::optional<StepStatsCollector> stats_;
  std::optional<Execution> execution_;
  std::optional<Cancellation::CallbackId> abort_;
  bool watched_ = false;
  std::shared_ptr<StepRun> self_;  // while it runs
};

// A step that the master feeds and fetches in several calls. The first starts
// it; each gives and takes through the rendezvous; the last waits for its end.
class LocalWorker::PartialRun : public std::enable_shared_from_this<PartialRun> {
 public:
  PartialRun(LocalWorker& worker, int64_t step_id, std::shared_ptr<WorkerSession> session,
             std::shared_ptr<Executable> executable)
      : session_(std::move(session)),
        executable_(std::move(executable)),
        rendezvous_(worker.steps_.FindOrCreate(step_id)) {
    rendezvous_->SetCluster(session_->task(), session_->workers());
    step_ = {.id = step_id,
             .rendezvous = rendezvous_.get(),
             .cancellation = &cancellation_,
             .pool = &worker.options_.devices->pool(),
             .resources = &resources_,
             .session_resources = &session_->resources()};
  }

  void Start() {
    const auto self = shared_from_this();
    const auto abort = cancellation_.Register([this](const absl::Status& why) { rendezvous_->Abort(why); });
    CHECK(abort.has_value());
    execution_.emplace(*executable_, step_, nullptr);
    execution_->Start({}, [self](const absl::Status& status) { self->Ended(status); });
  }
  void Cancel(const absl::Status& why) { cancellation_.Cancel(why); }

  // One call of the master's.
  void Exchange(const CallOptions& options, RunGraphCall call, RunGraphResult* result, Done done) {
    struct Call {
      std::shared_ptr<PartialRun> run;
      Mutex mutex;
      int left ABSL_GUARDED_BY(mutex) = 0;
      absl::Status status ABSL_GUARDED_BY(mutex);
      Done done;
      Cancellation* outside = nullptr;
      std::optional<Cancellation::CallbackId> id;
    };
    for (auto& [key, tensor] : call.send) {
      if (absl::Status status = rendezvous_->Send(key, {std::move(tensor), false}); !status.ok()) return done(status);
    }
    auto shared = std::make_shared<Call>();
    shared->run = shared_from_this();
    shared->done = std::move(done);
    if (options.cancellation != nullptr) {
      shared->outside = options.cancellation;
      shared->id =
          options.cancellation->Register([run = shared_from_this()](const absl::Status& why) { run->Cancel(why); });
      if (!shared->id.has_value()) Cancel(options.cancellation->status());
    }
    const int waits = static_cast<int>(call.recv_keys.size()) + (call.is_last_partial ? 1 : 0) + 1;
    {
      MutexLock lock(&shared->mutex);
      shared->left = waits;
    }
    const auto count_down = [shared](const absl::Status& status) {
      absl::Status first;
      {
        MutexLock lock(&shared->mutex);
        if (shared->status.ok()) shared->status = status;
        if (--shared->left > 0) return;
        first = shared->status;
      }
      if (shared->id.has_value()) shared->outside->TryDeregister(*shared->id);
      Done done = std::move(shared->done);
      done(first);
    };
    result->recv.resize(call.recv_keys.size());
    for (size_t i = 0; i < call.recv_keys.size(); ++i) {
      result->recv[i].first = call.recv_keys[i];
      rendezvous_->RecvLocalAsync(call.recv_keys[i],
                                  [count_down, &to = result->recv[i].second, key = call.recv_keys[i]](
                                      absl::Status status, Rendezvous::Value value) {
                                    if (status.ok() && value.dead) {
                                      status = InvalidArgument("The tensor returned for ", key, " was not valid.");
                                    }
                                    to = std::move(value.tensor);
                                    count_down(status);
                                  });
    }
    if (call.is_last_partial) OnEnd(count_down);
    count_down(absl::OkStatus());
  }

 private:
  void OnEnd(Done done) {
    {
      MutexLock lock(&mutex_);
      if (!ended_) {
        on_end_ = std::move(done);
        return;
      }
    }
    done(status_);
  }
  void Ended(const absl::Status& status) {
    if (!status.ok()) rendezvous_->Abort(status);
    Done on_end;
    {
      MutexLock lock(&mutex_);
      ended_ = true;
      status_ = status;
      on_end = std::move(on_end_);
      on_end_ = nullptr;
    }
    if (on_end) on_end(status);
  }

  const std::shared_ptr<WorkerSession> session_;
  const std::shared_ptr<Executable> executable_;
  const std::shared_ptr<StepRendezvous> rendezvous_;
  Cancellation cancellation_;
  ResourceManager resources_;
  Step step_;
  std::optional<Execution> execution_;
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_;  // written once, before ended_
  Done on_end_ ABSL_GUARDED_BY(mutex_);
};

LocalWorker::LocalWorker(const LocalWorkerOptions& options)
    : options_(options),
      collectives_(
          {.task = options.task.ToString(), .membership = options.membership, .peer_timeout = options.peer_timeout}) {
  watcher_ = std::make_unique<Thread>("waits", [this] { ReportWaits(); });
}

LocalWorker::~LocalWorker() {
  Shutdown(Cancelled(options_.task.ToString(), " ends"));
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  watcher_.reset();
}

void LocalWorker::SetWorkers(std::shared_ptr<Workers> workers) {
  default_session_ =
      std::make_shared<WorkerSession>(options_.task.ToString(), std::move(workers), options_.devices->devices());
}

void LocalWorker::Shutdown(const absl::Status& why) {
  std::vector<std::shared_ptr<StepRun>> running;
  absl::flat_hash_map<int64_t, std::shared_ptr<PartialRun>> partial;
  {
    MutexLock lock(&mutex_);
    if (shut_down_.ok()) shut_down_ = why;
    for (const auto& [step, since] : running_) running.push_back(step->shared_from_this());
    partial.swap(partial_runs_);
  }
  for (const auto& step : running) step->Cancel(why);
  for (const auto& [id, run] : partial) run->Cancel(why);
  running.clear();
  steps_.AbortAll(why);
  collectives_.Shutdown(why);
  MutexLock lock(&mutex_);
  while (!running_.empty()) {
    if (changed_.WaitWithTimeout(&mutex_, kReportAfter)) {
      LOG(INFO) << options_.task.ToString() << " still waits for the end of " << running_.size() << " steps";
    }
  }
}

void LocalWorker::Watch(StepRun* step, bool running) {
  MutexLock lock(&mutex_);
  if (running) {
    running_.emplace(step, absl::Now());
  } else {
    running_.erase(step);
    if (running_.empty() && !shut_down_.ok()) changed_.SignalAll();
  }
}

// Says what steps wait for once they have waited for 10 s, and again each time
// that has doubled.
void LocalWorker::ReportWaits() {
  absl::flat_hash_map<int64_t, absl::Duration> reported;
  MutexLock lock(&mutex_);
  while (!closing_) {
    changed_.WaitWithTimeout(&mutex_, kReportAfter / 2);
    const absl::Time now = absl::Now();
    absl::flat_hash_map<int64_t, absl::Duration> seen;
    for (const auto& [step, since] : running_) {
      if (!step->waits() || now - since < kReportAfter) continue;
      absl::Duration& last = seen[step->id()];
      if (const auto it = reported.find(step->id()); it != reported.end()) last = it->second;
      if (now - since < 2 * last) continue;
      last = now - since;
      LOG(INFO) << options_.task.ToString() << ": " << step->Describe();
    }
    reported = std::move(seen);
  }
}

absl::StatusOr<std::shared_ptr<WorkerSession>> LocalWorker::FindSession(const std::string& handle,
                                                                        bool has_session) const {
  MutexLock lock(&mutex_);
  if (!shut_down_.ok()) return shut_down_;
  if (!has_session) return default_session_;
  const auto it = sessions_.find(handle);
  if (it != sessions_.end()) return it->second;
  return Aborted("Session handle is not found: ", handle, ". Possibly this worker (\"", options_.task,
                 "\") just restarted.");
}

void LocalWorker::GetStatus(const CallOptions&, tensorflow::GetStatusResponse* response, Done done) {
  for (const auto& device : options_.devices->devices()) *response->add_device_attributes() = device->Attributes();
  for (std::string& task : options_.membership->SeenTasks()) {
    response->mutable_thalweg()->add_seen_task(std::move(task));
  }
  response->mutable_thalweg()->set_takes_pushes(true);
  done(absl::OkStatus());
}

void LocalWorker::CreateWorkerSession(const CallOptions&, const tensorflow::CreateWorkerSessionRequest& request,
                                      Done done) {
  const auto create = [&]() -> absl::Status {
    if (request.session_handle().empty()) return InvalidArgument("A worker session needs a handle");
    std::shared_ptr<Workers> workers = default_session_->workers();
    TaskId task = options_.task;
    if (request.server_def().cluster().job_size() > 0) {
      ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::FromProto(request.server_def().cluster()));
      task = {request.server_def().job_name(), request.server_def().task_index()};
      RETURN_IF_ERROR(cluster.Address(task).status());
      ASSIGN_OR_RETURN(workers, options_.make_workers(cluster, task));
    } else if (workers->Find(request.master_task()) != nullptr) {
      options_.membership->MarkSeen(request.master_task());
    }
    const bool as_it_is = !request.isolate_session_state() && task == options_.task;
    auto session = std::make_shared<WorkerSession>(
        task.ToString(), std::move(workers),
        as_it_is ? options_.devices->devices()
                 : options_.devices->ViewAs(task.job, task.index, !request.isolate_session_state()));
    MutexLock lock(&mutex_);
    if (!shut_down_.ok()) return shut_down_;
    if (!sessions_.emplace(request.session_handle(), std::move(session)).second) {
      return AlreadyExists("Session ", request.session_handle(), " exists already on ", options_.task);
    }
    return absl::OkStatus();
  };
  collectives_.groups().MarkOld();
  done(create());
}

void LocalWorker::DeleteWorkerSession(const CallOptions&, const tensorflow::DeleteWorkerSessionRequest& request,
                                      Done done) {
  std::shared_ptr<WorkerSession> removed;
  {
    MutexLock lock(&mutex_);
    if (const auto it = sessions_.find(request.session_handle()); it != sessions_.end()) {
      removed = std::move(it->second);
      sessions_.erase(it);
    }
  }
  removed.reset();
  collectives_.groups().MarkOld();
  done(absl::OkStatus());
}

void LocalWorker::RegisterGraph(const CallOptions&, const tensorflow::RegisterGraphRequest& request,
                                tensorflow::RegisterGraphResponse* response, Done done) {
  const auto compile = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto session, FindSession(request.session_handle(), request.create_worker_session_called()));
    const std::string& master = request.thalweg().master_task();
    const std::string& leader = !options_.collective_leader.empty() ? options_.collective_leader
                                : !master.empty()                   ? master
                                                                    : session->task();
    ASSIGN_OR_RETURN(*response->mutable_graph_handle(), session->Register(request, leader));
    return absl::OkStatus();
  };
  done(compile());
}

void LocalWorker::DeregisterGraph(const CallOptions&, const tensorflow::DeregisterGraphRequest& request, Done done) {
  const auto session = FindSession(request.session_handle(), request.create_worker_session_called());
  done(session.ok() ? (*session)->Deregister(request.graph_handle()) : session.status());
}

void LocalWorker::RunGraph(const CallOptions& options, RunGraphCall call, RunGraphResult* result, Done done) {
  absl::StatusOr<std::shared_ptr<WorkerSession>> session = FindSession(call.session_handle, call.has_session);
  if (!session.ok()) return done(session.status());
  if (call.is_partial) return RunPartial(options, std::move(call), *std::move(session), result, std::move(done));
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> graph = (*session)->Find(call.graph_handle);
  if (!graph.ok()) return done(graph.status());
  std::make_shared<StepRun>(*this, options, std::move(call), *std::move(session), *std::move(graph), result,
                            std::move(done))
      ->Start();
}

void LocalWorker::RunPartial(const CallOptions& options, RunGraphCall call, std::shared_ptr<WorkerSession> session,
                             RunGraphResult* result, Done done) {
  std::shared_ptr<PartialRun> run;
  {
    MutexLock lock(&mutex_);
    if (const auto it = partial_runs_.find(call.step_id); it != partial_runs_.end()) run = it->second;
  }
  if (run == nullptr) {
    absl::StatusOr<std::shared_ptr<Executable>> executable = session->FindPartial(call.graph_handle);
    if (!executable.ok()) return done(executable.status());
    run = std::make_shared<PartialRun>(*this, call.step_id, std::move(session), *std::move(executable));
    bool is_new = false;
    {
      MutexLock lock(&mutex_);
      is_new = partial_runs_.emplace(call.step_id, run).second;
    }
    if (!is_new) return done(Aborted("Step ", call.step_id, " was started twice"));
    run->Start();
  }
  run->Exchange(options, std::move(call), result, std::move(done));
}

void LocalWorker::CleanupGraph(const CallOptions&, int64_t step_id, Done done) {
  const absl::Status why = Cancelled("Step ", step_id, " has ended");
  std::shared_ptr<PartialRun> partial;
  {
    MutexLock lock(&mutex_);
    if (const auto it = partial_runs_.find(step_id); it != partial_runs_.end()) {
      partial = std::move(it->second);
      partial_runs_.erase(it);
    }
  }
  if (partial != nullptr) partial->Cancel(why);
  steps_.Remove(step_id, why);
  done(absl::OkStatus());
}

void LocalWorker::CleanupAll(const CallOptions&, const tensorflow::CleanupAllRequest& request, Done done) {
  for (const auto& device : options_.devices->devices()) {
    if (request.container().empty()) device->resources().Clear("");
    for (const std::string& container : request.container()) device->resources().Clear(container);
  }
  done(absl::OkStatus());
}

void LocalWorker::RecvTensor(const CallOptions& options, const tensorflow::RecvTensorRequest& request,
                             Rendezvous::Value* value, Done done) {
  const absl::StatusOr<RendezvousKey> key = RendezvousKey::Parse(request.rendezvous_key());
  if (!key.ok()) return done(key.status());
  // Sessions may know this task by another name, but not by another number.
  const auto& devices = options_.devices->devices();
  const bool known = std::any_of(devices.begin(), devices.end(),
                                 [&](const auto& device) { return device->incarnation() == key->source_incarnation; });
  if (!known) {
    return done(Aborted("RecvTensor expects a different device incarnation: ", key->source_incarnation, " vs. ",
                        devices[0]->incarnation(), ". Your worker job (\"", options_.task,
                        "\") was probably restarted. Check your worker job for the reason why it was restarted."));
  }
  struct Call {
    Done done;
    Cancellation* cancellation;
    std::optional<Cancellation::CallbackId> id;
  };
  const auto step = steps_.FindOrCreate(request.step_id());
  auto call = std::make_shared<Call>();
  call->done = std::move(done);
  call->cancellation = options.cancellation;
  if (options.cancellation != nullptr) {
    call->id = options.cancellation->Register([step](const absl::Status& why) {
      step->Abort(Cancelled("A task stopped waiting for a tensor of this step: ", why.message()));
    });
    if (!call->id.has_value()) return call->done(options.cancellation->status());
  }
  step->RecvLocalAsync(request.rendezvous_key(), [call, value](const absl::Status& status, Rendezvous::Value received) {
    if (call->id.has_value()) call->cancellation->TryDeregister(*call->id);
    *value = std::move(received);
    call->done(status);
  });
}

void LocalWorker::Push(const CallOptions&, int64_t step_id, std::vector<Transfer> tensors, Done done) {
  done(steps_.FindOrCreate(step_id)->Deliver(std::move(tensors)));
}

}  // namespace thalweg
