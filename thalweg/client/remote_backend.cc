// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/client/session_backend.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/cluster/peer_health.h"
#include "thalweg/rpc/grpc_master.h"
#include "thalweg/rpc/grpc_worker.h"

namespace thalweg {
namespace {

// The server ends a step at its deadline; if it cannot be heard any more, the
// call ends this much later.
constexpr absl::Duration kDeadlineGrace = absl::Seconds(5);
// The server of a call that takes longer than this is watched; if it does not
// answer for kServerTimeout, it is taken for dead.
constexpr absl::Duration kWatchAfter = absl::Seconds(1);
constexpr absl::Duration kServerTimeout = absl::Seconds(10);

class RemoteBackend : public SessionBackend {
 public:
  explicit RemoteBackend(const SessionOptions& options)
      : options_(options),
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
    for (size_t i = 0; i < feeds.size(); ++i) call.feeds.emplace_back(signature.feeds[i], feeds[i]);
    if (options.trace) call.options.set_trace_level(tensorflow::RunOptions::FULL_TRACE);
    call.options.set_output_partition_graphs(options.output_partition_graphs);
    if (options.one_moment) call.options.mutable_thalweg()->set_cut(true);
    if (options.stop_step > 0) call.options.mutable_thalweg()->set_stop_step(options.stop_step);
    if (options.client != 0) {
      call.options.mutable_thalweg()->set_client(options.client);
      call.options.mutable_thalweg()->set_sequence(options.sequence);
    }
    const absl::Duration timeout =
        options.timeout != absl::InfiniteDuration() ? options.timeout : options_.operation_timeout;
    if (timeout != absl::InfiniteDuration()) {
      call.options.set_timeout_in_ms(std::max<int64_t>(1, absl::ToInt64Milliseconds(timeout)));
    }
    RunStepResult result;
    RETURN_IF_ERROR(Wait("runs a step", options.cancellation, timeout, [&](const CallOptions& call_options, auto done) {
      master_->RunStep(call_options, std::move(call), &result, std::move(done));
    }));
    *results = std::move(result.fetches);
    if (metadata != nullptr) *metadata = std::move(result.metadata);
    return absl::OkStatus();
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

 private:
  static std::string Address(const SessionOptions& options) {
    return std::string(absl::StripPrefix(options.target, "grpc://"));
  }
  absl::Status CheckOpen() {
    MutexLock lock(&close_mutex_);
    return closed_ ? FailedPrecondition("Session has been closed.") : absl::OkStatus();
  }

  // Makes a call and waits for its end; says every 10 s that it does.
  template <typename F>
  absl::Status Wait(const char* what, Cancellation* cancellation, absl::Duration timeout, F&& call) {
    Notification ended;
    absl::Status result;
    const WatchedCalls watched(nullptr, {}, cancellation);
    CallOptions options{.cancellation = watched.cancellation().get(), .wait_for_ready = handle_.empty()};
    if (timeout != absl::InfiniteDuration()) options.timeout = timeout + kDeadlineGrace;
    call(options, [&](const absl::Status& status) {
      result = status;
      ended.Notify();
    });
    std::optional<WatchedServer> server;
    // A server that is not there yet is waited for.
    if (!ended.WaitForNotificationWithTimeout(kWatchAfter) && !handle_.empty()) server.emplace(*this, watched);
    const absl::Time start = absl::Now() - kWatchAfter;
    while (!ended.WaitForNotificationWithTimeout(absl::Seconds(10))) {
      LOG(INFO) << "Has waited for " << absl::FormatDuration(absl::Trunc(absl::Now() - start, absl::Seconds(1)))
                << " for " << options_.target << ", which " << what;
    }
    // Why the call was cancelled says more than that it was.
    if (absl::IsCancelled(result)) result = watched.Explain(result);
    if (absl::IsCancelled(result)) return result;
    if (!absl::IsUnavailable(result) || handle_.empty()) return result;
    return Append(result, absl::StrCat(" (session on ", options_.target, ")"));
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

class RemoteCallable : public BackendCallable {
 public:
  RemoteCallable(RemoteBackend& backend, Signature signature) : backend_(backend), signature_(std::move(signature)) {}
  absl::Status Run(absl::Span<const Tensor> feeds, const RunOptions& options, std::vector<Tensor>* results,
                   tensorflow::RunMetadata* metadata) const override {
    return backend_.Run(signature_, feeds, options, results, metadata);
  }

 private:
  RemoteBackend& backend_;
  const Signature signature_;
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
