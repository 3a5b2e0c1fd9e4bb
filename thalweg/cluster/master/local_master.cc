// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/local_master.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/cluster_def.h"
#include "thalweg/cluster/request_id.h"

namespace thalweg {
namespace {

// Finds this master in a session's own cluster: the task whose address the client used to call it.
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

// One call of CreateSession: discovers the tasks, creates the session, opens its worker sessions, and
// adds it to the table. It is asynchronous; the pending callbacks keep it alive.
class LocalMaster::Creation : public std::enable_shared_from_this<Creation> {
 public:
  Creation(LocalMaster& master, const CallOptions& options, const tensorflow::CreateSessionRequest& request,
           tensorflow::CreateSessionResponse* response, Done done)
      : master_(master),
        outside_(options.cancellation),
        call_(options),
        request_(request),
        response_(response),
        done_(std::move(done)) {
    call_.cancellation = &limited_;
  }

  // `limited_` is cancelled when the client gives up or the timeout expires.
  void Start() {
    const int64_t timeout_ms = request_.config().operation_timeout_in_ms() > 0
                                   ? request_.config().operation_timeout_in_ms()
                                   : master_.options_.default_config.operation_timeout_in_ms();
    if (outside_ != nullptr) {
      outside_id_ =
          outside_->Register([self = shared_from_this()](const absl::Status& why) { self->limited_.Cancel(why); });
      if (!outside_id_.has_value()) return End(outside_->status());
    }
    if (timeout_ms > 0) {
      alarm_ =
          master_.timer_.Set(absl::Now() + absl::Milliseconds(timeout_ms), [self = shared_from_this(), timeout_ms] {
            self->limited_.Cancel(DeadlineExceeded("CreateSession had ", timeout_ms, " ms (operation_timeout_in_ms)"));
          });
    }
    if (const absl::Status status = Discover(); !status.ok()) End(status);
  }

 private:
  absl::Status Discover() {
    const LocalMasterOptions& o = master_.options_;
    RETURN_IF_ERROR(FailPoint("master.create_session", o.task.ToString()));
    session_ = {.handle = NewHandle(),
                .self = o.task.ToString(),
                .config = o.default_config,
                .workers = o.workers,
                .folding_device = o.devices->devices()[0],
                .timer = &master_.timer_,
                .health = o.health,
                .membership = o.membership,
                .gate = o.gate,
                .sequences = o.sequences,
                .monitor = o.monitor};
    session_.config.MergeFrom(request_.config());
    if (session_.config.session_inter_op_thread_pool_size() > 0) {
      return InvalidArgument("Distributed session does not support session thread pool options.");
    }
    if (session_.config.cluster_def().job_size() > 0) {
      ASSIGN_OR_RETURN(cluster_, ClusterSpecFromProto(session_.config.cluster_def()));
      ASSIGN_OR_RETURN(const TaskId self, FindSelf(*cluster_, request_.target()));
      ASSIGN_OR_RETURN(session_.workers, o.make_workers(*cluster_, self));
      session_.self = self.ToString();
      session_.membership = nullptr;
    }
    ASSIGN_OR_RETURN(const std::vector<DeviceName> filters, ParseFilters(session_.config));
    Membership& membership = cluster_.has_value() ? own_membership_ : *o.membership;
    membership.Discover(
        call_, master_.timer_, session_.workers, session_.self, filters,
        [self = shared_from_this()](absl::StatusOr<ClusterDevices> devices) { self->Discovered(std::move(devices)); });
    return absl::OkStatus();
  }

  void Discovered(absl::StatusOr<ClusterDevices> devices) {
    if (!devices.ok()) return End(devices.status());
    session_.devices = *std::move(devices);
    for (const std::string& task : session_.devices.restarted) {
      if (session_.monitor == nullptr) break;
      session_.monitor->AddEvent("task restarted", absl::StrCat(ShortTaskName(task), " has a new process"));
    }
    made_ = std::make_shared<MasterSession>(std::move(session_));
    if (const absl::Status status = made_->Create(request_.graph_def()); !status.ok()) return End(status);
    made_->Open(call_, cluster_.has_value() ? &*cluster_ : nullptr, [self = shared_from_this()](absl::Status status) {
      // If the client has disconnected, close the session: the client never learns its handle.
      if (status.ok() && self->limited_.cancelled()) status = self->limited_.status();
      if (status.ok()) status = self->master_.Add(self->made_);
      if (!status.ok()) self->made_->Close().IgnoreError();
      if (status.ok()) self->response_->set_session_handle(self->made_->handle());
      self->End(status);
    });
  }

  void End(const absl::Status& status) {
    if (alarm_.has_value()) master_.timer_.Unset(*alarm_);
    if (outside_id_.has_value()) outside_->TryDeregister(*outside_id_);
    Done done = std::move(done_);
    done(status);
  }

  LocalMaster& master_;
  Cancellation* const outside_;
  Cancellation limited_;
  CallOptions call_;
  const tensorflow::CreateSessionRequest& request_;
  tensorflow::CreateSessionResponse* const response_;
  Done done_;
  std::optional<Cancellation::CallbackId> outside_id_;
  std::optional<Timer::AlarmId> alarm_;
  MasterSessionOptions session_;
  std::optional<ClusterSpec> cluster_;  // set if the session has its own cluster definition
  Membership own_membership_;           // for that cluster, in which the same names are other tasks
  std::shared_ptr<MasterSession> made_;
};

void LocalMaster::CreateSession(const CallOptions& options, const tensorflow::CreateSessionRequest& request,
                                tensorflow::CreateSessionResponse* response, Done done) {
  std::make_shared<Creation>(*this, options, request, response, std::move(done))->Start();
}

absl::Status LocalMaster::Add(const std::shared_ptr<MasterSession>& session) {
  MutexLock lock(&mutex_);
  if (static_cast<int>(sessions_.size()) >= options_.max_sessions) {
    return ResourceExhausted("The master has reached its limit of ", sessions_.size(), " sessions; close some of them");
  }
  sessions_.emplace(session->handle(), Entry{session, NowNanos()});
  SetAlarm();
  return absl::OkStatus();
}

void LocalMaster::SetAlarm() {
  if (options_.client_lease == absl::InfiniteDuration() || std::exchange(alarm_set_, true)) return;
  // Checking eight times per lease, a session is closed at most an eighth too late.
  timer_.Set(absl::Now() + options_.client_lease / 8, [this] { CloseAbandoned(); });
}

void LocalMaster::CloseAbandoned() {
  std::vector<std::shared_ptr<MasterSession>> abandoned;
  {
    MutexLock lock(&mutex_);
    const int64_t old = NowNanos() - absl::ToInt64Nanoseconds(options_.client_lease);
    absl::erase_if(sessions_, [&](const auto& item) {
      if (item.second.used_nanos > old || item.second.session->busy()) return false;
      abandoned.push_back(item.second.session);
      return true;
    });
    alarm_set_ = false;
    if (!sessions_.empty()) SetAlarm();
  }
  for (const auto& session : abandoned) {
    LOG(INFO) << "Closing session " << session->handle() << ": its client has not called for "
              << absl::FormatDuration(options_.client_lease);
    session->Close().IgnoreError();
  }
}

// Every call of a client renews the lease of its session.
absl::StatusOr<std::shared_ptr<MasterSession>> LocalMaster::Find(const std::string& handle) {
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(handle);
  if (it == sessions_.end()) return Aborted("Session ", handle, " is not found.");
  it->second.used_nanos = NowNanos();
  return it->second.session;
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
      session = std::move(it->second.session);
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
    const std::string self = options_.task.ToString();
    return options_.membership->Discover(
        options, timer_, options_.workers, self, {},
        [self, response, done = std::move(done)](const absl::StatusOr<ClusterDevices>& found) mutable {
          if (!found.ok()) return done(found.status());
          for (const ClusterDevices::Task& task : found->tasks) {
            for (const auto& device : task.devices) {
              *(task.name == self ? response->add_local_device() : response->add_remote_device()) = device;
            }
          }
          done(absl::OkStatus());
        });
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
  absl::flat_hash_map<std::string, Entry> sessions;
  {
    MutexLock lock(&mutex_);
    sessions.swap(sessions_);
  }
  for (const auto& [handle, entry] : sessions) entry.session->Close().IgnoreError();
}

// As in TensorFlow, closes all sessions of this master and clears the containers on all matching tasks.
void LocalMaster::Reset(const CallOptions& options, const tensorflow::ResetRequest& request, Done done) {
  CloseAll();
  tensorflow::ConfigProto config;
  *config.mutable_device_filters() = request.device_filters();
  const absl::StatusOr<std::vector<DeviceName>> filters = ParseFilters(config);
  if (!filters.ok()) return done(filters.status());
  options_.membership->Discover(
      options, timer_, options_.workers, options_.task.ToString(), *filters,
      [this, options, &request, done = std::move(done)](const absl::StatusOr<ClusterDevices>& found) mutable {
        if (!found.ok()) return done(found.status());
        CleanUpAll(options, *found, request, std::move(done));
      });
}

void LocalMaster::CleanUpAll(const CallOptions& options, const ClusterDevices& devices,
                             const tensorflow::ResetRequest& request, Done done) {
  struct Calls {
    Mutex mutex;
    size_t left ABSL_GUARDED_BY(mutex) = 0;
    absl::Status status ABSL_GUARDED_BY(mutex);
    tensorflow::CleanupAllRequest request;
    std::unique_ptr<WatchedCalls> watched;
    Done done;
  };
  const auto calls = std::make_shared<Calls>();
  std::vector<Peer> peers;
  for (const ClusterDevices::Task& task : devices.tasks) {
    if (task.name == options_.task.ToString()) continue;
    peers.push_back({task.name, options_.workers->Find(task.name), options_.workers});
  }
  calls->watched = std::make_unique<WatchedCalls>(options_.health, std::move(peers), options.cancellation);
  const CallOptions call{.cancellation = calls->watched->cancellation().get()};
  *calls->request.mutable_container() = request.container();
  calls->done = std::move(done);
  {
    MutexLock lock(&calls->mutex);
    calls->left = devices.tasks.size();
  }
  for (const ClusterDevices::Task& task : devices.tasks) {
    options_.workers->Find(task.name)->CleanupAll(call, calls->request, [calls](const absl::Status& status) {
      absl::Status first;
      {
        MutexLock lock(&calls->mutex);
        calls->status.Update(calls->watched->Explain(status));
        if (--calls->left > 0) return;
        first = calls->status;
      }
      calls->watched.reset();  // `done` may destroy what it watches
      Done done = std::move(calls->done);
      done(first);
    });
  }
}

int LocalMaster::num_sessions() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(sessions_.size());
}

void LocalMaster::MakeCallable(const CallOptions& options, const tensorflow::MakeCallableRequest& request,
                               tensorflow::MakeCallableResponse* response, Done done) {
  const auto make = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto session, Find(request.session_handle()));
    ASSIGN_OR_RETURN(const int64_t handle, session->MakeCallable(options, request.options()));
    response->set_handle(handle);
    response->set_thalweg_takes_options(true);
    return absl::OkStatus();
  };
  done(make());
}

void LocalMaster::RunCallable(const CallOptions& options, RunCallableCall call, RunStepResult* result, Done done) {
  const auto session = Find(call.session_handle);
  if (!session.ok()) return done(session.status());
  (*session)->RunCallable(options, std::move(call), result, std::move(done));
}

void LocalMaster::ReleaseCallable(const CallOptions&, const tensorflow::ReleaseCallableRequest& request, Done done) {
  const auto session = Find(request.session_handle());
  done(session.ok() ? (*session)->ReleaseCallable(request.handle()) : session.status());
}

}  // namespace thalweg
