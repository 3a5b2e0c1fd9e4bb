// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/local_worker.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/cluster_def.h"
#include "thalweg/kernel/session_owner.h"

namespace thalweg {
namespace {

// The same for equal messages: maps have an order.
std::string OrderedText(const google::protobuf::MessageLite& message) {
  std::string text;
  {
    google::protobuf::io::StringOutputStream out(&text);
    google::protobuf::io::CodedOutputStream coded(&out);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return text;
}

// Every master has a few. More are of clients that come and never close theirs.
constexpr size_t kMaxSessions = 10'000;

}  // namespace

LocalWorker::LocalWorker(const LocalWorkerOptions& options)
    : options_(options),
      rendezvous_(StepTableOptions{.health = options.health}),
      collectives_({.task = options.task.ToString(),
                    .membership = options.membership,
                    .health = options.health,
                    .direct = options.direct_collectives}),
      running_(options.task.ToString(), options.log_wait_after),
      environment_{.pool = &options.devices->pool(),
                   .rendezvous = &rendezvous_,
                   .collectives = &collectives_,
                   .running = &running_,
                   .health = options.health,
                   .monitor = options.monitor},
      partial_runs_(environment_),
      leases_(options.master_lease, [this](const std::vector<std::string>& handles, const std::string& why) {
        LOG(INFO) << options_.task.ToString() << " removes " << handles.size() << " sessions: " << why;
        DropSessions(handles);
      }) {
  if (options.health == nullptr) return;
  suspensions_.emplace(options.health->earliest_death(), [this](absl::Duration gap) {
    LOG(WARNING) << options_.task.ToString() << " did not run for " << absl::FormatDuration(gap)
                 << " (was the process stopped?): it ends the steps of other masters";
    running_.CancelForOthers(Unavailable("Task ", options_.task, " did not run for ", absl::FormatDuration(gap),
                                         ", so its master has given up the step"));
  });
}

LocalWorker::~LocalWorker() { Shutdown(Cancelled(options_.task.ToString(), " ends")); }

void LocalWorker::SetWorkers(std::shared_ptr<Workers> workers) {
  default_session_ = std::make_shared<WorkerSession>(options_.task.ToString(), std::move(workers),
                                                     options_.devices->devices(), &ledger_);
}

// The order matters: first refuse new sessions, then cancel the steps, then end everything that a
// cancelled step may wait for, and only then wait for the steps.
void LocalWorker::Shutdown(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    if (shut_down_.ok()) shut_down_ = why;
  }
  leases_.Stop();
  running_.CancelAll(why);
  partial_runs_.CancelAll(why);
  rendezvous_.AbortAll(why);
  collectives_.Shutdown(why);
  running_.WaitForEnds();
}

absl::StatusOr<std::shared_ptr<WorkerSession>> LocalWorker::FindSession(const std::string& handle,
                                                                        bool has_session) const {
  MutexLock lock(&mutex_);
  if (!shut_down_.ok()) return shut_down_;
  // TensorFlow's masters create a worker session only if they need one of its options.
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
    RETURN_IF_ERROR(FailPoint("worker.create_session", default_session_->task()));
    if (request.session_handle().empty()) return InvalidArgument("A worker session needs a handle");
    const size_t request_hash = absl::HashOf(OrderedText(request));
    std::shared_ptr<Workers> workers = default_session_->workers();
    TaskId task = options_.task;
    if (request.server_def().cluster().job_size() > 0) {
      // ClusterSpec propagation: the session has its own cluster, in which this task may have another name.
      ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpecFromProto(request.server_def().cluster()));
      task = {request.server_def().job_name(), request.server_def().task_index()};
      RETURN_IF_ERROR(cluster.Address(task).status());
      ASSIGN_OR_RETURN(workers, options_.make_workers(cluster, task));
    } else if (workers != nullptr && workers->Find(request.master_task()) != nullptr) {
      options_.membership->MarkSeen(request.master_task());
    }
    const bool as_it_is = !request.isolate_session_state() && task == options_.task;
    auto session = std::make_shared<WorkerSession>(
        task.ToString(), std::move(workers),
        as_it_is ? options_.devices->devices()
                 : options_.devices->ViewAs(task.job, task.index, !request.isolate_session_state()),
        &ledger_, request.master_task(), request_hash);
    RETURN_IF_ERROR(
        session->resources().Create("", SessionOwner::kName, std::make_shared<SessionOwner>(request.master_task())));
    SessionLeases::Master master{.task = request.master_task(),
                                 .cluster = OrderedText(request.server_def().cluster()),
                                 .incarnation = request.master_incarnation(),
                                 .workers = session->workers()};
    {
      MutexLock lock(&mutex_);
      if (!shut_down_.ok()) return shut_down_;
      if (sessions_.size() >= kMaxSessions) {
        return ResourceExhausted(options_.task, " has ", sessions_.size(),
                                 " sessions, which is its limit; close some of them");
      }
      const auto [it, is_new] = sessions_.emplace(request.session_handle(), std::move(session));
      if (!is_new) {
        if (it->second->request_hash() == request_hash) return absl::OkStatus();  // the call arrived twice
        return AlreadyExists("Session ", request.session_handle(), " exists already on ", options_.task);
      }
    }
    leases_.Add(request.session_handle(), std::move(master));
    return absl::OkStatus();
  };
  collectives_.groups().MarkOld();
  const absl::Status created = create();
  if (created.ok()) RelayPauses(request.session_handle());
  done(created);
}

void LocalWorker::DeleteWorkerSession(const CallOptions&, const tensorflow::DeleteWorkerSessionRequest& request,
                                      Done done) {
  leases_.Remove(request.session_handle());
  DropSessions({request.session_handle()});
  done(absl::OkStatus());
}

void LocalWorker::DropSessions(const std::vector<std::string>& handles) {
  std::vector<std::shared_ptr<WorkerSession>> dropped;  // destroyed without the lock
  {
    MutexLock lock(&mutex_);
    for (const std::string& handle : handles) {
      const auto it = sessions_.find(handle);
      if (it == sessions_.end()) continue;
      RememberMaster(*it->second);
      dropped.push_back(std::move(it->second));
      sessions_.erase(it);
    }
  }
  for (const auto& session : dropped) partial_runs_.RemoveOf(*session, Cancelled("The session of the step is gone"));
  collectives_.groups().MarkOld();
}

void LocalWorker::RegisterGraph(const CallOptions&, const tensorflow::RegisterGraphRequest& request,
                                tensorflow::RegisterGraphResponse* response, Done done) {
  const auto compile = [&]() -> absl::Status {
    RETURN_IF_ERROR(FailPoint("worker.register_graph", default_session_->task()));
    ASSIGN_OR_RETURN(const auto session, FindSession(request.session_handle(), request.create_worker_session_called()));
    const std::string& master = request.thalweg().master_task();
    const std::string& leader = !options_.collective_leader.empty() ? options_.collective_leader
                                : !master.empty()                   ? master
                                                                    : session->task();
    // Only Thalweg's masters send their task name.
    (master.empty() ? had_foreign_clients_ : had_own_clients_).store(true);
    if (!master.empty()) options_.on_master(master);
    ASSIGN_OR_RETURN(*response->mutable_graph_handle(), session->Register(request, leader));
    return absl::OkStatus();
  };
  done(compile());
}

bool LocalWorker::ForeignClientsLeft() const {
  if (!had_foreign_clients_.load() || had_own_clients_.load() || default_session_->num_graphs() > 0) return false;
  MutexLock lock(&mutex_);
  return sessions_.empty();
}

int LocalWorker::num_sessions() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(sessions_.size());
}

void LocalWorker::DeregisterGraph(const CallOptions&, const tensorflow::DeregisterGraphRequest& request, Done done) {
  const auto session = FindSession(request.session_handle(), request.create_worker_session_called());
  done(session.ok() ? (*session)->Deregister(request.graph_handle()) : session.status());
}

void LocalWorker::RunGraph(const CallOptions& options, RunGraphCall call, RunGraphResult* result, Done done) {
  const auto refuse = [&](const absl::Status& why) {
    // Members of its collectives elsewhere learn that this one does not take part.
    if (call.collective_step_id != 0)
      collectives_.AbortStep(call.collective_step_id, GivenUpBy(options_.task.ToString(), why));
    done(why);
  };
  absl::StatusOr<std::shared_ptr<WorkerSession>> session = FindSession(call.session_handle, call.has_session);
  if (!session.ok()) return refuse(session.status());
  if (const absl::Status fault = FailPoint("worker.run_graph", default_session_->task()); !fault.ok()) {
    return refuse(fault);
  }
  CheckSuspension();
  if (const absl::Status fresh = CheckFresh(call, **session); !fresh.ok()) return refuse(fresh);
  if (call.is_partial) {
    return partial_runs_.Run(options, std::move(call), *std::move(session), result, std::move(done));
  }
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> graph = (*session)->Find(call.graph_handle);
  if (!graph.ok()) return refuse(graph.status());
  std::make_shared<WorkerStep>(environment_, options, std::move(call), *std::move(session), *std::move(graph), result,
                               std::move(done))
      ->Start();
}

absl::Status LocalWorker::CheckFresh(const RunGraphCall& call, WorkerSession& session) const {
  if (call.sent_nanos == 0) return absl::OkStatus();  // a TensorFlow master
  // Call Age() for every step, also for those without a limit: it keeps the estimate of the clock offset up to date.
  const absl::Duration age = session.master_clock().Age(call.sent_nanos, NowNanos());
  if (call.valid_nanos == 0 || age <= absl::Nanoseconds(call.valid_nanos)) return absl::OkStatus();
  return Unavailable("Step ", call.step_id, " came to ", options_.task, " ", absl::FormatDuration(age),
                     " after it was sent: its master has given it up");
}

void LocalWorker::CleanupGraph(const CallOptions&, int64_t step_id, Done done) {
  const absl::Status why = Cancelled("Step ", step_id, " has ended");
  partial_runs_.Remove(step_id, why);
  rendezvous_.Remove(step_id, why);
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
  // Sessions may know this task by another name, but not by another incarnation.
  const auto& devices = options_.devices->devices();
  const bool known = std::any_of(devices.begin(), devices.end(),
                                 [&](const auto& device) { return device->incarnation() == key->source_incarnation; });
  if (!known) {
    return done(Aborted("RecvTensor expects a different device incarnation: ", key->source_incarnation, " vs. ",
                        devices[0]->incarnation(), ". Your worker job (\"", options_.task,
                        "\") was probably restarted. Check your worker job for the reason why it was restarted."));
  }
  // If the requesting task gives up, the step is aborted here, too: its peer will never get the tensor.
  struct Call {
    Done done;
    Cancellation* cancellation;
    std::optional<Cancellation::CallbackId> id;
  };
  if (const absl::Status status = rendezvous_.Admit(request.step_id(), 0); !status.ok()) return done(status);
  const auto step = rendezvous_.Find(request.step_id());
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
  CheckSuspension();
  done(rendezvous_.Find(step_id)->Deliver(std::move(tensors)));
}

}  // namespace thalweg
