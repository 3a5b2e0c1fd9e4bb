#include "thalweg/cluster/master/local_master.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"

namespace thalweg {
namespace {

// The task of a session's own cluster that this master is: the one with the
// address by which the client called it.
absl::StatusOr<TaskId> FindSelf(const ClusterSpec& cluster, absl::string_view target) {
  absl::ConsumePrefix(&target, "grpc://");
  for (const TaskId& task : cluster.tasks()) {
    if (*cluster.Address(task) == target) return task;
  }
  return InvalidArgument("The master's address, ", target, ", is not in the cluster of the session");
}

absl::StatusOr<std::vector<DeviceName>> ParseFilters(const tensorflow::ConfigProto& config) {
  std::vector<DeviceName> filters;
  for (const std::string& text : config.device_filters()) {
    absl::StatusOr<DeviceName> name = DeviceName::Parse(text);
    if (!name.ok()) return InvalidArgument("Invalid device filter: ", text, ": ", name.status().message());
    filters.push_back(*std::move(name));
  }
  return filters;
}

}  // namespace

absl::StatusOr<std::shared_ptr<MasterSession>> LocalMaster::Create(const CallOptions& options,
                                                                   const tensorflow::CreateSessionRequest& request) {
  MasterSessionOptions session{.handle = NewHandle(),
                               .self = options_.task.ToString(),
                               .config = options_.default_config,
                               .workers = options_.workers,
                               .folding_device = options_.devices->devices()[0],
                               .timer = &timer_,
                               .health = options_.health,
                               .gate = options_.gate,
                               .sequences = options_.sequences};
  session.config.MergeFrom(request.config());
  if (session.config.session_inter_op_thread_pool_size() > 0) {
    return InvalidArgument("Distributed session does not support session thread pool options.");
  }
  std::optional<ClusterSpec> cluster;
  if (session.config.cluster_def().job_size() > 0) {
    ASSIGN_OR_RETURN(cluster, ClusterSpec::FromProto(session.config.cluster_def()));
    ASSIGN_OR_RETURN(const TaskId self, FindSelf(*cluster, request.target()));
    ASSIGN_OR_RETURN(session.workers, options_.make_workers(*cluster, self));
    session.self = self.ToString();
  }
  ASSIGN_OR_RETURN(const std::vector<DeviceName> filters, ParseFilters(session.config));
  Membership of_its_own;  // the same names are other tasks in another cluster
  Membership& membership = cluster.has_value() ? of_its_own : *options_.membership;
  ASSIGN_OR_RETURN(session.devices, membership.Discover(options, *session.workers, session.self, filters));
  auto made = std::make_shared<MasterSession>(std::move(session));
  RETURN_IF_ERROR(made->Create(request.graph_def()));
  RETURN_IF_ERROR(made->Open(options, cluster.has_value() ? &*cluster : nullptr));
  MutexLock lock(&mutex_);
  sessions_.emplace(made->handle(), made);
  return made;
}

absl::StatusOr<std::shared_ptr<MasterSession>> LocalMaster::Find(const std::string& handle) const {
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(handle);
  if (it == sessions_.end()) return Aborted("Session ", handle, " is not found.");
  return it->second;
}

void LocalMaster::CreateSession(const CallOptions& options, const tensorflow::CreateSessionRequest& request,
                                tensorflow::CreateSessionResponse* response, Done done) {
  const int64_t timeout_ms = request.config().operation_timeout_in_ms() > 0
                                 ? request.config().operation_timeout_in_ms()
                                 : options_.default_config.operation_timeout_in_ms();
  // Ended by the client, or by time.
  Cancellation limited;
  CallOptions call = options;
  call.cancellation = &limited;
  std::optional<Cancellation::CallbackId> outside;
  if (options.cancellation != nullptr) {
    outside = options.cancellation->Register([&](const absl::Status& why) { limited.Cancel(why); });
    if (!outside.has_value()) return done(options.cancellation->status());
  }
  std::optional<Timer::AlarmId> alarm;
  if (timeout_ms > 0) {
    alarm = timer_.Set(absl::Now() + absl::Milliseconds(timeout_ms), [&] {
      limited.Cancel(DeadlineExceeded("CreateSession had ", timeout_ms, " ms (operation_timeout_in_ms)"));
    });
  }
  const absl::StatusOr<std::shared_ptr<MasterSession>> session = Create(call, request);
  if (alarm.has_value()) timer_.Unset(*alarm);
  if (outside.has_value()) options.cancellation->Deregister(*outside);
  if (session.ok()) response->set_session_handle((*session)->handle());
  done(session.status());
}

void LocalMaster::ExtendSession(const CallOptions&, const tensorflow::ExtendSessionRequest& request,
                                tensorflow::ExtendSessionResponse* response, Done done) {
  const auto extend = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto session, Find(request.session_handle()));
    ASSIGN_OR_RETURN(const int64_t version, session->Extend(request.graph_def(), request.current_graph_version()));
    response->set_new_graph_version(version);
    return absl::OkStatus();
  };
  done(extend());
}

void LocalMaster::RunStep(const CallOptions& options, RunStepCall call, RunStepResult* result, Done done) {
  const absl::StatusOr<std::shared_ptr<MasterSession>> session = Find(call.session_handle);
  if (!session.ok()) return done(session.status());
  (*session)->RunStep(options, std::move(call), result, std::move(done));
}

void LocalMaster::PartialRunSetup(const CallOptions&, const tensorflow::PartialRunSetupRequest& request,
                                  tensorflow::PartialRunSetupResponse* response, Done done) {
  const auto set_up = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto session, Find(request.session_handle()));
    ASSIGN_OR_RETURN(*response->mutable_partial_run_handle(),
                     session->SetUpPartialRun({.feeds = {request.feed().begin(), request.feed().end()},
                                               .fetches = {request.fetch().begin(), request.fetch().end()},
                                               .targets = {request.target().begin(), request.target().end()}}));
    return absl::OkStatus();
  };
  done(set_up());
}

void LocalMaster::CloseSession(const CallOptions&, const tensorflow::CloseSessionRequest& request, Done done) {
  std::shared_ptr<MasterSession> session;
  {
    MutexLock lock(&mutex_);
    if (const auto it = sessions_.find(request.session_handle()); it != sessions_.end()) {
      session = std::move(it->second);
      sessions_.erase(it);
    }
  }
  if (session == nullptr) {
    return done(Aborted("Session ", request.session_handle(), " is not found. Possibly, this master has restarted."));
  }
  done(session->Close());
}

void LocalMaster::ListDevices(const CallOptions& options, const tensorflow::ListDevicesRequest& request,
                              tensorflow::ListDevicesResponse* response, Done done) {
  if (request.session_handle().empty()) {
    // No session: the devices of the whole cluster.
    const auto found = options_.membership->Discover(options, *options_.workers, options_.task.ToString(), {});
    if (!found.ok()) return done(found.status());
    for (const ClusterDevices::Task& task : found->tasks) {
      for (const auto& device : task.devices) {
        *(task.name == options_.task.ToString() ? response->add_local_device() : response->add_remote_device()) =
            device;
      }
    }
    return done(absl::OkStatus());
  }
  const auto session = Find(request.session_handle());
  if (!session.ok()) {
    return done(
        InvalidArgument("Session ", request.session_handle(), " is not found. Possibly, this master has restarted."));
  }
  (*session)->ListDevices(response);
  done(absl::OkStatus());
}

void LocalMaster::CloseAll() {
  absl::flat_hash_map<std::string, std::shared_ptr<MasterSession>> sessions;
  {
    MutexLock lock(&mutex_);
    sessions.swap(sessions_);
  }
  for (const auto& [handle, session] : sessions) session->Close().IgnoreError();
}

void LocalMaster::Reset(const CallOptions& options, const tensorflow::ResetRequest& request, Done done) {
  CloseAll();
  const auto reset = [&]() -> absl::Status {
    tensorflow::ConfigProto config;
    *config.mutable_device_filters() = request.device_filters();
    ASSIGN_OR_RETURN(const std::vector<DeviceName> filters, ParseFilters(config));
    ASSIGN_OR_RETURN(const ClusterDevices found,
                     options_.membership->Discover(options, *options_.workers, options_.task.ToString(), filters));
    tensorflow::CleanupAllRequest cleanup;
    *cleanup.mutable_container() = request.container();
    std::vector<Peer> peers;
    for (const ClusterDevices::Task& task : found.tasks) {
      if (task.name == options_.task.ToString()) continue;
      peers.push_back({task.name, options_.workers->Find(task.name), options_.workers});
    }
    const WatchedCalls watched(options_.health, std::move(peers), options.cancellation);
    const CallOptions call{.cancellation = watched.cancellation().get()};
    std::vector<absl::Status> statuses(found.tasks.size());
    BlockingCounter left(static_cast<int>(statuses.size()));
    for (size_t i = 0; i < statuses.size(); ++i) {
      options_.workers->Find(found.tasks[i].name)->CleanupAll(call, cleanup, [&, i](const absl::Status& status) {
        statuses[i] = status;
        left.DecrementCount();
      });
    }
    left.Wait();
    for (const absl::Status& status : statuses) RETURN_IF_ERROR(watched.Explain(status));
    return absl::OkStatus();
  };
  done(reset());
}

void LocalMaster::MakeCallable(const CallOptions&, const tensorflow::MakeCallableRequest& request,
                               tensorflow::MakeCallableResponse* response, Done done) {
  const auto make = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto session, Find(request.session_handle()));
    ASSIGN_OR_RETURN(const int64_t handle, session->MakeCallable(request.options()));
    response->set_handle(handle);
    return absl::OkStatus();
  };
  done(make());
}

void LocalMaster::RunCallable(const CallOptions& options, const std::string& session_handle, int64_t handle,
                              std::vector<Tensor> feeds, RunStepResult* result, Done done) {
  const auto session = Find(session_handle);
  if (!session.ok()) return done(session.status());
  (*session)->RunCallable(options, handle, std::move(feeds), result, std::move(done));
}

void LocalMaster::ReleaseCallable(const CallOptions&, const tensorflow::ReleaseCallableRequest& request, Done done) {
  const auto session = Find(request.session_handle());
  done(session.ok() ? (*session)->ReleaseCallable(request.handle()) : session.status());
}

}  // namespace thalweg
