// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/faults/network_faults.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/client/session_backend.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/cluster/peer_health.h"
#include "thalweg/rpc/grpc_master.h"
#include "thalweg/rpc/grpc_worker.h"
#include "thalweg/rpc/in_process_master.h"

namespace thalweg {
namespace {

// The server ends a step at its deadline; if it cannot be heard any more, the
// call ends this much later.
constexpr absl::Duration kDeadlineGrace = absl::Seconds(5);
// The server of a call that takes longer than this is watched; if it does not
// answer for kServerTimeout, it is taken for dead.
constexpr absl::Duration kWatchAfter = absl::Seconds(1);
constexpr absl::Duration kServerTimeout = absl::Seconds(10);

// The end of a call. A call that is dropped without an answer, because memory has run out, ends too.
class CallEnd {
 public:
  // Runs as the call's `done`. It may be moved, and counts once.
  class Done {
   public:
    explicit Done(CallEnd* end) : end_(end) {}
    Done(Done&& other) noexcept : end_(std::exchange(other.end_, nullptr)) {}
    ~Done() {
      if (end_ != nullptr) End(Internal("The call was dropped"));
    }
    Done& operator=(Done&&) = delete;
    void operator()(const absl::Status& status) { End(status); }

   private:
    void End(absl::Status status) {
      CallEnd* const end = std::exchange(end_, nullptr);
      end->status_ = std::move(status);
      end->ended_.Notify();
    }
    CallEnd* end_;
  };

  Done done() { return Done(this); }
  bool Wait(absl::Duration timeout) const { return ended_.WaitForNotificationWithTimeout(timeout); }
  const absl::Status& status() const { return status_; }  // once it has ended

 private:
  absl::Status status_;
  Notification ended_;
};

class RemoteBackend : public SessionBackend {
 public:
  explicit RemoteBackend(const SessionOptions& options)
      : options_(options),
        in_process_(InProcessMaster::Find(Address(options))),
        master_(MakeGrpcMaster(client_.Connect(Address(options)))),
        server_(MakeGrpcWorker(options.target, Address(options), client_.Connect(Address(options)))) {}
  ~RemoteBackend() override {
    if (!handle_.empty()) Close().IgnoreError();
  }

  absl::Status Open() {
    tensorflow::CreateSessionRequest request;
    tensorflow::CreateSessionResponse response;
    request.set_target(options_.target);
    tensorflow::ConfigProto& config = *request.mutable_config();
    config.set_allow_soft_placement(options_.allow_soft_placement);
    config.set_log_device_placement(options_.log_device_placement);
    config.set_isolate_session_state(options_.isolate_session_state);
    for (const std::string& filter : options_.device_filters) config.add_device_filters(filter);
    config.mutable_experimental()->set_collective_group_leader(options_.collective_leader);
    if (options_.operation_timeout != absl::InfiniteDuration()) {
      config.set_operation_timeout_in_ms(absl::ToInt64Milliseconds(options_.operation_timeout));
    }
    if (!options_.optimizer.fold_constants && !options_.optimizer.merge_common_subexpressions) {
      config.mutable_graph_options()->mutable_optimizer_options()->set_opt_level(tensorflow::OptimizerOptions::L0);
    }
    // The server does not know of open_timeout: the call ends by itself.
    const absl::Duration timeout = std::min(options_.operation_timeout, options_.open_timeout - kDeadlineGrace);
    const absl::Status opened = Wait(
        "opens a session", options_.cancellation, timeout,
        [&](const CallOptions& call, auto done) { master_->CreateSession(call, request, &response, std::move(done)); });
    if (!opened.ok()) return Append(opened, absl::StrCat(" (opening a session on ", options_.target, ")"));
    handle_ = response.session_handle();
    MutexLock lock(&extend_mutex_);
    version_ = response.graph_version();
    return absl::OkStatus();
  }

  absl::Status Extend(const tensorflow::GraphDef& def) override {
    MutexLock lock(&extend_mutex_);
    tensorflow::ExtendSessionRequest request;
    tensorflow::ExtendSessionResponse response;
    request.set_session_handle(handle_);
    request.set_current_graph_version(version_);
    *request.mutable_graph_def() = def;
    RETURN_IF_ERROR(
        Wait("extends the graph", nullptr, options_.operation_timeout, [&](const CallOptions& call, auto done) {
          master_->ExtendSession(call, request, &response, std::move(done));
        }));
    version_ = response.new_graph_version();
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const BackendCallable>> Prepare(const Signature& signature) override;

  absl::StatusOr<std::vector<tensorflow::DeviceAttributes>> ListDevices() override {
    RETURN_IF_ERROR(CheckOpen());
    tensorflow::ListDevicesRequest request;
    tensorflow::ListDevicesResponse response;
    request.set_session_handle(handle_);
    RETURN_IF_ERROR(Wait("lists devices", nullptr, options_.operation_timeout, [&](const CallOptions& call, auto done) {
      master_->ListDevices(call, request, &response, std::move(done));
    }));
    std::vector<tensorflow::DeviceAttributes> devices(response.local_device().begin(), response.local_device().end());
    devices.insert(devices.end(), response.remote_device().begin(), response.remote_device().end());
    return devices;
  }

  absl::Status Run(const Signature& signature, absl::Span<const Tensor> feeds, const RunOptions& options,
                   std::vector<Tensor>* results, tensorflow::RunMetadata* metadata) override {
    if (feeds.size() != signature.feeds.size()) {
      return InvalidArgument("expected ", signature.feeds.size(), " feeds, got ", feeds.size());
    }
    RETURN_IF_ERROR(CheckOpen());
    RunStepCall call{.session_handle = handle_, .fetches = signature.fetches, .targets = signature.targets};
    call.feeds.reserve(feeds.size());
    for (size_t i = 0; i < feeds.size(); ++i) call.feeds.emplace_back(signature.feeds[i], feeds[i]);
    call.options = ProtoOf(options);
    RunStepResult result;
    RETURN_IF_ERROR(RunOnMaster(
        options, [](const InProcessMasterOptions& master) { return master.run_step.get(); },
        [&](Master& master, const CallOptions& call_options, auto done) {
          master.RunStep(call_options, std::move(call), &result, std::move(done));
        }));
    *results = std::move(result.fetches);
    if (metadata != nullptr) *metadata = std::move(result.metadata);
    return absl::OkStatus();
  }

  // The same for a callable of the master.
  absl::Status RunCallable(int64_t callable, absl::Span<const Tensor> feeds, const RunOptions& options,
                           std::vector<Tensor>* results, tensorflow::RunMetadata* metadata) {
    RunCallableCall call{.session_handle = handle_,
                         .handle = callable,
                         .feeds = {feeds.begin(), feeds.end()},
                         .options = ProtoOf(options)};
    RunStepResult result;
    RETURN_IF_ERROR(RunOnMaster(
        options, [](const InProcessMasterOptions& master) { return master.run_callable.get(); },
        [&](Master& master, const CallOptions& call_options, auto done) {
          master.RunCallable(call_options, std::move(call), &result, std::move(done));
        }));
    *results = std::move(result.fetches);
    if (metadata != nullptr) *metadata = std::move(result.metadata);
    return absl::OkStatus();
  }

  // Has the master compile a signature. nullopt if steps of this master's callables have no options of
  // their own (TensorFlow's), or if the signature depends on the values of its feeds.
  absl::StatusOr<std::optional<int64_t>> MakeCallable(const Signature& signature, const RunOptions& options) {
    tensorflow::MakeCallableRequest request;
    tensorflow::MakeCallableResponse response;
    request.set_session_handle(handle_);
    tensorflow::CallableOptions& callable = *request.mutable_options();
    for (const std::string& name : signature.feeds) callable.add_feed(name);
    for (const std::string& name : signature.fetches) callable.add_fetch(name);
    for (const std::string& name : signature.targets) callable.add_target(name);
    if (const absl::Duration timeout = TimeoutOf(options); timeout != absl::InfiniteDuration()) {
      callable.mutable_run_options()->set_timeout_in_ms(std::max<int64_t>(1, absl::ToInt64Milliseconds(timeout)));
    }
    const absl::Status made = Wait(
        "prepares a step", options.cancellation, TimeoutOf(options),
        [&](const CallOptions& call, auto done) { master_->MakeCallable(call, request, &response, std::move(done)); });
    if (absl::IsInvalidArgument(made) || absl::IsUnimplemented(made)) return std::nullopt;
    RETURN_IF_ERROR(made);
    if (response.thalweg_takes_options()) return response.handle();
    ReleaseCallable(response.handle());
    return std::nullopt;
  }

  // Does not wait for the answer.
  void ReleaseCallable(int64_t callable) {
    if (!CheckOpen().ok()) return;
    const auto request = std::make_shared<tensorflow::ReleaseCallableRequest>();
    request->set_session_handle(handle_);
    request->set_handle(callable);
    master_->ReleaseCallable({.timeout = kDeadlineGrace}, *request, [request](const absl::Status&) {});
  }

  absl::Status Close() override {
    {
      MutexLock lock(&close_mutex_);
      if (closed_) return absl::OkStatus();
      closed_ = true;
    }
    tensorflow::CloseSessionRequest request;
    request.set_session_handle(handle_);
    return Wait("closes the session", nullptr, options_.operation_timeout,
                [&](const CallOptions& call, auto done) { master_->CloseSession(call, request, std::move(done)); });
  }

  absl::Status CheckOpen() {
    MutexLock lock(&close_mutex_);
    return closed_ ? FailedPrecondition("Session has been closed.") : absl::OkStatus();
  }

 private:
  static std::string Address(const SessionOptions& options) {
    return std::string(absl::StripPrefix(options.target, "grpc://"));
  }
  absl::Duration TimeoutOf(const RunOptions& options) const {
    return options.timeout != absl::InfiniteDuration() ? options.timeout : options_.operation_timeout;
  }
  tensorflow::RunOptions ProtoOf(const RunOptions& options) const {
    tensorflow::RunOptions proto;
    if (options.trace) proto.set_trace_level(tensorflow::RunOptions::FULL_TRACE);
    proto.set_output_partition_graphs(options.output_partition_graphs);
    if (options.one_moment) proto.mutable_thalweg()->set_cut(true);
    if (options.stop_step > 0) proto.mutable_thalweg()->set_stop_step(options.stop_step);
    if (options.client != 0) {
      proto.mutable_thalweg()->set_client(options.client);
      proto.mutable_thalweg()->set_sequence(options.sequence);
    }
    if (const absl::Duration timeout = TimeoutOf(options); timeout != absl::InfiniteDuration()) {
      proto.set_timeout_in_ms(std::max<int64_t>(1, absl::ToInt64Milliseconds(timeout)));
    }
    return proto;
  }

  // Runs a step on the master: directly if it is in this process, unless faults of the network are
  // injected, which such a step would not meet.
  template <typename Counts, typename F>
  absl::Status RunOnMaster(const RunOptions& options, Counts&& counts, F&& call) {
    if (in_process_ != nullptr && ActiveNetworkFaults() == nullptr) {
      if (const InProcessMaster::Use master(in_process_.get()); master) {
        absl::Status status = master->gate->EnterStep();
        if (status.ok()) {
          status = RunDirectly(options, *master->master, call);
          master->gate->LeaveStep();
        }
        counts(*master.operator->())->Add(static_cast<int>(status.code()));
        return Locate(status);
      }
    }
    return Wait("runs a step", options.cancellation, TimeoutOf(options),
                [&](const CallOptions& call_options, auto done) { call(*master_, call_options, std::move(done)); });
  }

  // The master ends the step at its deadline, and when it is cancelled.
  template <typename F>
  absl::Status RunDirectly(const RunOptions& options, Master& master, F&& call) {
    CallEnd end;
    const absl::Status thrown =
        CatchExceptions([&] { call(master, CallOptions{.cancellation = options.cancellation}, end.done()); });
    LogWhileWaiting("runs a step", absl::ZeroDuration(), end);
    return thrown.ok() ? end.status() : thrown;
  }

  void LogWhileWaiting(const char* what, absl::Duration waited, const CallEnd& end) const {
    if (end.Wait(absl::Seconds(10))) return;
    const absl::Time start = absl::Now() - waited - absl::Seconds(10);
    do {
      LOG(INFO) << "Has waited for " << absl::FormatDuration(absl::Trunc(absl::Now() - start, absl::Seconds(1)))
                << " for " << options_.target << ", which " << what;
    } while (!end.Wait(absl::Seconds(10)));
  }

  // Says of a lost task which session has lost it.
  absl::Status Locate(const absl::Status& status) const {
    if (!absl::IsUnavailable(status) || handle_.empty()) return status;
    return Append(status, absl::StrCat(" (session on ", options_.target, ")"));
  }

  // Makes a call and waits for its end; says every 10 s that it does.
  template <typename F>
  absl::Status Wait(const char* what, Cancellation* cancellation, absl::Duration timeout, F&& call) {
    CallEnd end;
    const WatchedCalls watched(nullptr, {}, cancellation);
    CallOptions options{.cancellation = watched.cancellation().get(), .wait_for_ready = handle_.empty()};
    if (timeout != absl::InfiniteDuration()) options.timeout = timeout + kDeadlineGrace;
    call(options, end.done());
    std::optional<WatchedServer> server;
    // A server that is not there yet is waited for.
    if (!end.Wait(kWatchAfter) && !handle_.empty()) server.emplace(*this, watched);
    LogWhileWaiting(what, kWatchAfter, end);
    // Why the call was cancelled says more than that it was.
    return Locate(absl::IsCancelled(end.status()) ? watched.Explain(end.status()) : end.status());
  }

  // Watches the server while a call of it waits: one that hangs or is cut off is
  // found so.
  class WatchedServer {
   public:
    WatchedServer(RemoteBackend& target, const WatchedCalls& calls) : health_(target.Health()) {
      const std::vector<Peer> peers = {{target.options_.target, target.server_.get(), nullptr}};
      id_ = health_.Watch(std::make_shared<const std::vector<Peer>>(peers), calls.cancellation());
    }
    ~WatchedServer() { health_.Unwatch(id_); }

   private:
    PeerHealth& health_;
    int64_t id_ = 0;
  };
  PeerHealth& Health() {
    MutexLock lock(&close_mutex_);
    if (health_ == nullptr) health_ = std::make_unique<PeerHealth>(kServerTimeout);
    return *health_;
  }

  const SessionOptions options_;
  const std::shared_ptr<InProcessMaster> in_process_;  // nullptr: the server is not in this process
  RpcClient client_;
  const std::unique_ptr<Master> master_;
  const std::unique_ptr<Worker> server_;  // for its status
  std::string handle_;                    // constant once it is open
  Mutex extend_mutex_;
  int64_t version_ ABSL_GUARDED_BY(extend_mutex_) = 0;
  Mutex close_mutex_;
  bool closed_ ABSL_GUARDED_BY(close_mutex_) = false;
  std::unique_ptr<PeerHealth> health_ ABSL_GUARDED_BY(close_mutex_);  // once a call has waited
};

// The first step has the master compile the signature. Later ones name the compiled callable.
class RemoteCallable : public BackendCallable {
 public:
  RemoteCallable(RemoteBackend& backend, Signature signature) : backend_(backend), signature_(std::move(signature)) {}
  ~RemoteCallable() override {
    if (const int64_t callable = callable_.load(); callable >= 0) backend_.ReleaseCallable(callable);
  }

  absl::Status Run(absl::Span<const Tensor> feeds, const RunOptions& options, std::vector<Tensor>* results,
                   tensorflow::RunMetadata* metadata) const override {
    if (feeds.size() != signature_.feeds.size()) {
      return InvalidArgument("expected ", signature_.feeds.size(), " feeds, got ", feeds.size());
    }
    RETURN_IF_ERROR(backend_.CheckOpen());
    int64_t callable = callable_.load(std::memory_order_acquire);
    if (callable == kUnknown) {
      ASSIGN_OR_RETURN(callable, Make(options));
    }
    if (callable == kByNames) return backend_.Run(signature_, feeds, options, results, metadata);
    return backend_.RunCallable(callable, feeds, options, results, metadata);
  }

 private:
  static constexpr int64_t kUnknown = -1;
  static constexpr int64_t kByNames = -2;  // the master cannot run it as a callable

  absl::StatusOr<int64_t> Make(const RunOptions& options) const {
    ASSIGN_OR_RETURN(const std::optional<int64_t> made, backend_.MakeCallable(signature_, options));
    int64_t known = kUnknown;
    const int64_t callable = made.value_or(kByNames);
    if (callable_.compare_exchange_strong(known, callable)) return callable;
    if (callable >= 0) backend_.ReleaseCallable(callable);  // another thread was faster
    return known;
  }

  RemoteBackend& backend_;
  const Signature signature_;
  mutable std::atomic<int64_t> callable_{kUnknown};
};

absl::StatusOr<std::shared_ptr<const BackendCallable>> RemoteBackend::Prepare(const Signature& signature) {
  return std::make_shared<const RemoteCallable>(*this, signature);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionBackend>> MakeRemoteBackend(const SessionOptions& options) {
  const absl::string_view address = absl::StripPrefix(options.target, "grpc://");
  if (address == options.target) {
    return InvalidArgument("\"", options.target, "\" is not a valid session target: expected grpc://host:port");
  }
  RETURN_IF_ERROR(HostPort::Parse(address).status());
  auto backend = std::make_unique<RemoteBackend>(options);
  RETURN_IF_ERROR(backend->Open());
  return std::unique_ptr<SessionBackend>(std::move(backend));
}

}  // namespace thalweg
