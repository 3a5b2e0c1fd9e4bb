// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/server.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/exported_memory.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/idle_memory.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/malloc.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/cluster_def.h"
#include "thalweg/cluster/job_completion.h"
#include "thalweg/cluster/master/local_master.h"
#include "thalweg/cluster/worker/local_worker.h"
#include "thalweg/kernel/script_functions.h"
#include "thalweg/kernel/task_observer.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/rpc/call_gate.h"
#include "thalweg/rpc/grpc_job_peers.h"
#include "thalweg/rpc/grpc_worker.h"
#include "thalweg/rpc/in_process_master.h"
#include "thalweg/rpc/rpc_server.h"
#include "thalweg/rpc/services.h"
#include "thalweg/server/http_port.h"
#include "thalweg/server/job_monitor.h"
#include "thalweg/server/listen_hosts.h"
#include "thalweg/server/save_variables.h"
#include "thalweg/server/status_pages.h"
#include "thalweg/server/task_reporter.h"
#include "thalweg/transport/host_join.h"

namespace thalweg {

namespace {

// Memory for tensors that nobody has used for this long goes back to the system.
constexpr absl::Duration kIdleMemory = absl::Seconds(30);

// The chief or master, or else the first worker, or else the first task.
TaskId CollectorOf(const ClusterSpec& cluster) {
  for (const char* job : {"chief", "master", "worker"}) {
    if (const TaskId first{job, 0}; cluster.Address(first).ok()) return first;
  }
  return cluster.tasks().front();
}

// Calls `late` if it lives for longer than `timeout`.
class Watchdog {
 public:
  Watchdog(absl::Duration timeout, std::function<void()> late) {
    LogExceptions("a watchdog", [&] {
      thread_ = std::make_unique<Thread>("watchdog", [this, timeout, late = std::move(late)] {
        if (!ended_.WaitForNotificationWithTimeout(timeout)) late();
      });
    });
  }
  ~Watchdog() { ended_.Notify(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  Notification ended_;
  std::unique_ptr<Thread> thread_;  // destroyed first
};

}  // namespace

// Members are destroyed from the last to the first. The order ensures that no member is
// called after its destruction.
class Server::State {
 public:
  State(const TaskId& task, const RpcClientOptions& client) : task(task), monitor(task.ToString()), client(client) {}

  const TaskId task;
  absl::Duration stop_timeout = absl::InfiniteDuration();
  bool exit_when_stuck = false;
  TaskMonitor monitor;
  std::string target;
  std::string http_address;  // set once, under the mutex
  std::string orphan_checkpoint;
  CallGate gate;
  std::optional<LocalDevices> devices;
  Membership membership;
  CollectiveStepIds sequences;
  UpdateGate gate_of_updates;        // the master's
  std::optional<PeerHealth> health;  // calls that end with the client still use it
  std::optional<LocalWorker> worker;
  std::shared_ptr<Workers> workers;
  RpcClient client;
  std::unique_ptr<JobPeers> peers;
  std::optional<JobCompletion> watch;
  std::optional<LocalMaster> master;
  std::optional<JobMonitor> job;  // asks the reporter only for those that are below
  std::optional<TaskReporter> reporter;
  std::unique_ptr<RpcServer> rpc;
  std::shared_ptr<InProcessMaster> in_process;  // the master, for sessions of this process
  std::unique_ptr<HttpPort> http;
  std::atomic<bool> draining{false};
  Timer timer;

  Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::set<std::string> finished ABSL_GUARDED_BY(mutex);              // tasks whose programs have announced their end
  std::map<TaskId, absl::Time> reported_lost ABSL_GUARDED_BY(mutex);  // tasks, and when they were lost
  Notification stopped;

  // `session_config` has the options of every session, under what the session asks for.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ClusterSpec& cluster, const TaskId& task,
                                                       const ServerOptions& options,
                                                       const tensorflow::ConfigProto& session_config);
  void StartReports(const ClusterSpec& cluster, const std::vector<RpcMethod>& methods, const ServerOptions& options);
  // `reached_at` is the host by which other machines reach this one.
  absl::Status StartHttp(const ServerOptions& options, const std::string& reached_at);
  JobStatus Status(const GetMonitorRequest& request);
  void TrimIdleMemoryLater();
  void TaskFinished(const TaskId& done);
  void MasterSeen(const std::string& name);
  // Records tasks that were lost, each once. Programs that use them record their failed steps themselves.
  void RecordLost(const std::map<TaskId, TaskFailure>& failed);
  // Stop() takes too long.
  void ReportStuck();
};

void Server::State::TrimIdleMemoryLater() {
  timer.Set(absl::Now() + kIdleMemory, [this] {
    TrimIdleMemory(kIdleMemory);
    TrimIdleMemoryLater();
  });
}

void Server::State::TaskFinished(const TaskId& done) {
  MutexLock lock(&mutex);
  finished.insert(done.ToString());
}

void Server::State::MasterSeen(const std::string& name) {
  {
    MutexLock lock(&mutex);
    finished.erase(name);  // it was started again
  }
  watch->MasterSeen(name);
}

void Server::State::RecordLost(const std::map<TaskId, TaskFailure>& failed) {
  std::vector<std::string> texts;
  {
    MutexLock lock(&mutex);
    for (const auto& [lost, failure] : failed) {
      if (const auto it = reported_lost.find(lost); it != reported_lost.end() && it->second == failure.when) continue;
      reported_lost[lost] = failure.when;
      texts.push_back(absl::StrCat(ShortTaskName(lost.ToString()), failure.unreachable
                                                                       ? " does not answer any more"
                                                                       : " has announced that its program failed"));
    }
  }
  for (const std::string& text : texts) monitor.AddFault("task lost", text);
}

void Server::State::ReportStuck() {
  const std::vector<std::string> steps = worker->DescribeSteps();
  LOG(ERROR) << task.ToString() << " has not stopped within " << absl::FormatDuration(stop_timeout)
             << (exit_when_stuck ? " and exits; " : "; ") << steps.size()
             << " steps do not end: " << absl::StrJoin(steps, "; ");
  if (exit_when_stuck) _exit(1);
}

void Server::State::StartReports(const ClusterSpec& cluster, const std::vector<RpcMethod>& methods,
                                 const ServerOptions& options) {
  TaskReporterOptions reports{.monitor = &monitor,
                              .devices = devices->devices(),
                              .cluster = cluster,
                              .traffic = [this] { return client.traffic(); },
                              .sessions =
                                  [this](TaskStatus* status) {
                                    status->set_master_sessions(master->num_sessions());
                                    status->set_worker_sessions(worker->num_sessions());
                                    {
                                      MutexLock lock(&mutex);  // a peer may ask while the server starts
                                      status->set_http(http_address);
                                      for (const std::string& name : finished) {
                                        status->add_finished_tasks(ShortTaskName(name));
                                      }
                                    }
                                    if (draining) status->set_state("stopping");
                                  }};
  for (const RpcMethod& method : methods) reports.calls.emplace_back(method.path, method.counts);
  reports.flight_folder = options.flight_folder.empty() ? DefaultFlightFolder() : options.flight_folder;
  if (options.flight_folder == "off") reports.flight_folder.clear();
  // When something fails, many tasks notice it. One of them collects the records of all.
  reports.collects = task == CollectorOf(cluster);
  reports.whole_job = [this](const GetMonitorRequest& request) { return job->Ask(request); };
  reports.sample = options.recorder;
  job.emplace(cluster, task, &client,
              [this](const GetMonitorRequest& request, TaskStatus* status) { reporter->Fill(request, status); });
  reporter.emplace(std::move(reports));
}

absl::Status Server::State::StartHttp(const ServerOptions& options, const std::string& reached_at) {
  if (options.http.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      http, HttpPort::Start(
                {.address = options.http,
                 .token = options.http_token,
                 .handler = [this](const HttpRequest& request) { return ServeStatusPage(request, *job, *reporter); },
                 .blocks = &TakesLong}));
  const std::string host = options.http.substr(0, options.http.rfind(':'));
  const bool all = host == "0.0.0.0" || host == "[::]";
  const std::string address = absl::StrCat("http://", all ? reached_at : host, ":", http->port(), "/");
  {
    MutexLock lock(&mutex);
    http_address = address;
  }
  LOG(INFO) << task.ToString() << " shows the job's status at " << address;
  return absl::OkStatus();
}

JobStatus Server::State::Status(const GetMonitorRequest& request) {
  if (request.whole_job()) return job->Ask(request);
  JobStatus status;
  reporter->Fill(request, status.add_tasks());
  return status;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ClusterSpec& cluster, const TaskId& task,
                                                      const ServerOptions& options) {
  return State::Start(cluster, task, options, tensorflow::ConfigProto());
}

absl::StatusOr<std::unique_ptr<Server>> Server::State::Start(const ClusterSpec& cluster, const TaskId& task,
                                                             const ServerOptions& options,
                                                             const tensorflow::ConfigProto& session_config) {
  ConfigureMalloc();
  ASSIGN_OR_RETURN(const std::string address, cluster.Address(task));
  ASSIGN_OR_RETURN(const HostPort host_port, HostPort::Parse(address));
  const LocalDevicesOptions devices{
      .job = task.job, .task = task.index, .cpus = options.cpu_devices, .threads = options.threads};
  RETURN_IF_ERROR(devices.Check());
  if (options.local_links && cluster.tasks().size() > 1) {
    const absl::Status shares = ExportedMemory::Global().Enable();
    if (!shares.ok()) LOG(INFO) << "Tensors are copied to other tasks of this host: " << shares.message();
  }
  auto state = std::make_unique<State>(
      task, RpcClientOptions{.local_links = options.local_links, .tcp_links = options.tcp_links, .address = address});
  State* s = state.get();
  s->orphan_checkpoint = options.orphan_checkpoint;
  s->stop_timeout = options.stop_timeout;
  s->exit_when_stuck = options.exit_when_stuck;
  s->devices.emplace(devices);
  if (options.script != nullptr) {
    for (const auto& device : s->devices->devices()) {
      RETURN_IF_ERROR(ScriptFunctions::Install(options.script, *device));
    }
  }
  s->health.emplace(options.peer_timeout);
  TaskMonitor* const monitor = options.recorder ? &s->monitor : nullptr;
  const WorkersFactory make_workers = [s](const ClusterSpec& c, const TaskId& self) {
    return MakeGrpcWorkers(c, self, &*s->worker, &s->client);
  };
  const std::vector<std::string> hosts = ListenHosts(cluster, task, options.bind);
  DirectCollectivesOptions direct_collectives{.host = !options.local_links              ? ""
                                                      : options.collective_host.empty() ? HostIdentity()
                                                                                        : options.collective_host};
  if (options.collective_links) {
    direct_collectives.listen_on = hosts;
    direct_collectives.reach_at = host_port.host;
  }
  s->worker.emplace(LocalWorkerOptions{.task = task,
                                       .devices = &*s->devices,
                                       .membership = &s->membership,
                                       .make_workers = make_workers,
                                       .sequences = &s->sequences,
                                       .collective_leader = session_config.experimental().collective_group_leader(),
                                       .health = &*s->health,
                                       .direct_collectives = direct_collectives,
                                       .gate = &s->gate_of_updates,
                                       .monitor = monitor,
                                       .master_lease = options.master_lease,
                                       .on_master = [s](const std::string& name) { s->MasterSeen(name); }});
  ASSIGN_OR_RETURN(s->workers, make_workers(cluster, task));
  s->worker->SetWorkers(s->workers);
  s->master.emplace(LocalMasterOptions{.task = task,
                                       .devices = &*s->devices,
                                       .membership = &s->membership,
                                       .workers = s->workers,
                                       .make_workers = make_workers,
                                       .default_config = session_config,
                                       .health = &*s->health,
                                       .gate = &s->gate_of_updates,
                                       .sequences = &s->sequences,
                                       .monitor = monitor,
                                       .client_lease = options.client_lease});
  s->peers = MakeGrpcJobPeers(cluster, &s->client);
  s->watch.emplace(JobCompletionOptions{.cluster = cluster,
                                        .self = task,
                                        .peers = s->peers.get(),
                                        .membership = &s->membership,
                                        .on_task_done =
                                            [s, tell = options.release_tokens_of_tasks_that_left](const TaskId& done) {
                                              s->TaskFinished(done);
                                              if (!tell) return;
                                              for (const auto& device : s->devices->devices()) {
                                                TellTaskLeft(device->resources(), done.ToString());
                                              }
                                            },
                                        .on_tasks_failed =
                                            [s, limit = options.failed_after](const auto& failed) {
                                              s->RecordLost(failed);
                                              std::map<std::string, TaskFailure> names;
                                              for (const auto& [name, how] : failed) names[name.ToString()] = how;
                                              for (const auto& device : s->devices->devices()) {
                                                TellTasksFailed(device->resources(), names, limit);
                                              }
                                            },
                                        .last_used = [s] { return s->gate.last_call(); },
                                        .clients_left = [s] { return s->worker->ForeignClientsLeft(); },
                                        .orphan_after = options.orphan_after,
                                        .gone_after = options.gone_after,
                                        .idle_after = options.idle_after,
                                        .failed_after = options.failed_after});
  std::vector<RpcMethod> methods = MasterService(*s->master);
  for (RpcMethod& method : WorkerService(*s->worker)) methods.push_back(std::move(method));
  methods = s->gate.Guard(std::move(methods));
  for (RpcMethod& method : JobService(*s->watch)) methods.push_back(std::move(method));
  methods.push_back(MonitorMethod([s](const GetMonitorRequest& request) { return s->Status(request); }));
  s->StartReports(cluster, methods, options);
  InProcessMasterOptions in_process{.master = &*s->master, .gate = &s->gate};
  for (const RpcMethod& method : methods) {
    if (method.path == "/tensorflow.MasterService/RunStep") in_process.run_step = method.counts;
    if (method.path == "/tensorflow.MasterService/RunCallable") in_process.run_callable = method.counts;
  }
  ASSIGN_OR_RETURN(
      s->rpc,
      RpcServer::Start(
          {.hosts = hosts, .port = host_port.port, .links = options.local_links, .tcp_links = options.tcp_links},
          std::move(methods)));
  in_process.address = absl::StrCat(TargetHost(hosts), ":", s->rpc->port());
  s->target = absl::StrCat("grpc://", in_process.address);
  RETURN_IF_ERROR(s->StartHttp(options, host_port.host));
  s->in_process = InProcessMaster::Register(std::move(in_process));
  s->TrimIdleMemoryLater();
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

absl::StatusOr<std::unique_ptr<Server>> Server::StartFromServerDef(absl::string_view server_def,
                                                                   const ServerOptions& options) {
  tensorflow::ServerDef def;
  if (!def.ParseFromArray(server_def.data(), static_cast<int>(server_def.size()))) {
    return InvalidArgument(server_def.size(), " bytes that are not a ServerDef");
  }
  if (!def.protocol().empty() && def.protocol() != "grpc") {
    return InvalidArgument("ServerDef.protocol is \"", def.protocol(), "\", expected \"grpc\"");
  }
  ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpecFromProto(def.cluster()));
  const auto& counts = def.default_session_config().device_count();
  ServerOptions with_devices = options;
  if (const auto it = counts.find("CPU"); it != counts.end()) {
    with_devices.cpu_devices = std::max(with_devices.cpu_devices, it->second);
  }
  return State::Start(cluster, {def.job_name(), def.task_index()}, with_devices, def.default_session_config());
}

absl::StatusOr<std::unique_ptr<Server>> Server::StartLocal(const ServerOptions& options) {
  ClusterSpec cluster;
  RETURN_IF_ERROR(cluster.AddTask({"local", 0}, "localhost:0"));
  return Start(cluster, {"local", 0}, options);
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() { Stop(); }

const std::string& Server::target() const { return state_->target; }
const TaskId& Server::task() const { return state_->task; }
int Server::port() const { return state_->rpc->port(); }
const std::string& Server::http_address() const { return state_->http_address; }

void Server::SetStopStep(int64_t step) { state_->monitor.SetStopStep(step); }
absl::StatusOr<std::string> Server::DumpFlightRecorder() { return state_->reporter->Dump(); }

void Server::Stop() {
  {
    MutexLock lock(&state_->mutex);
    if (state_->stopping) return;
    state_->stopping = true;
  }
  const Watchdog watchdog(state_->stop_timeout, [this] { state_->ReportStuck(); });
  PassFailPoint("server.stop", state_->task.ToString());
  state_->watch->Stop();
  state_->job->Stop();
  state_->http.reset();
  state_->in_process->Close();
  // Steps end first, so that every call can be answered.
  state_->worker->Shutdown(Unavailable("Server ", state_->task, " was stopped"));
  state_->gate_of_updates.Open();  // a step that it holds back could not end
  state_->master->CloseAll();
  state_->in_process->WaitForCalls();
  state_->rpc->Shutdown();
  state_->health->Stop();
  state_->stopped.Notify();
}

void Server::Drain(absl::Duration timeout) {
  // Workers that were stopped at the same time need this task for their last checkpoint. So
  // steps are accepted until none has arrived for a while, at most for half of the timeout.
  constexpr absl::Duration kQuiet = absl::Milliseconds(300);
  PassFailPoint("server.drain", state_->task.ToString());
  const absl::Time deadline = absl::Now() + timeout;
  const absl::Status why = Unavailable(state_->task, " is leaving");
  state_->draining = true;
  state_->rpc->StopAnnouncingHealth();
  state_->gate.CloseForSessions(why);
  state_->gate.WaitUntilQuiet(kQuiet, timeout / 2);
  if (!state_->gate.Close(why, deadline - absl::Now())) {
    LOG(WARNING) << state_->task.ToString() << " cancels the steps that have not ended after "
                 << absl::FormatDuration(timeout) << " and exits";
  }
  Stop();
}

// Saves the variables of an orphan, so that the job can be continued from there.
absl::Status Server::SaveOrphan(const absl::Status& orphaned) {
  if (state_->orphan_checkpoint.empty()) return orphaned;
  // Refuse steps from now on: their updates would not be saved.
  state_->gate.Close(Unavailable(state_->task, " is leaving: ", orphaned.message()), absl::Seconds(1));
  const std::string prefix = absl::StrCat(state_->orphan_checkpoint, "-", state_->task.job, "-", state_->task.index);
  const absl::StatusOr<int> saved = SaveVariables(PosixFileSystem(), state_->devices->devices(), prefix);
  if (!saved.ok()) {
    return Append(orphaned, absl::StrCat("; its variables are lost: saving ", prefix, ": ", saved.status().message()));
  }
  if (*saved == 0) return Append(orphaned, "; it had no variables");
  return Append(orphaned, absl::StrCat("; its ", *saved, " variables are in ", prefix));
}

absl::Status Server::Join() {
  if (const absl::Status waited = state_->watch->Wait(); !waited.ok()) return SaveOrphan(waited);
  bool stopping = false;
  {
    MutexLock lock(&state_->mutex);
    stopping = state_->stopping;
  }
  if (stopping) state_->stopped.WaitForNotification();
  return absl::OkStatus();
}

}  // namespace thalweg
