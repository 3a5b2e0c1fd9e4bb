// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/rpc_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/monitor/traffic.h"
#include "thalweg/proto/link.pb.h"
#include "thalweg/rpc/event_loop.h"
#include "thalweg/rpc/faulty_network.h"
#include "thalweg/rpc/link_channel.h"
#include "thalweg/rpc/message.h"
#include "thalweg/rpc/same_host_target.h"
#include "thalweg/rpc/status.h"
#include "thalweg/rpc/tcp_connector.h"

namespace thalweg {

class RpcClient::State {
 public:
  explicit State(const RpcClientOptions& options) : options(options), network(std::in_place, options.address) {}

  const RpcClientOptions options;
  std::unique_ptr<SocketLoop> links;  // nullptr: none
  std::vector<std::weak_ptr<LinkChannel>> link_channels ABSL_GUARDED_BY(mutex);
  std::vector<std::weak_ptr<TcpConnector>> connectors ABSL_GUARDED_BY(mutex);
  grpc::CompletionQueue queue;
  std::unique_ptr<EventLoop> loop;

  Mutex mutex;
  CondVar changed;
  bool closed ABSL_GUARDED_BY(mutex) = false;
  absl::flat_hash_set<PendingCall*> pending ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Traffic>> traffic ABSL_GUARDED_BY(mutex);  // by address

  // Sessions may bring clusters of their own, so the number of addresses is limited; the rest
  // share the last counter.
  Traffic* TrafficWith(const std::string& address) {
    constexpr size_t kMaxAddresses = 4096;
    MutexLock lock(&mutex);
    for (const auto& known : traffic) {
      if (known->address() == address) return known.get();
    }
    if (traffic.size() == kMaxAddresses) return traffic.back().get();
    traffic.push_back(std::make_unique<Traffic>(address));
    return traffic.back().get();
  }

  Timer timer;                           // deadlines of calls over links; destroyed before the members above
  std::optional<FaultyNetwork> network;  // used while faults are injected; destroyed first
};

// If a call could not connect, it was not sent. The task may have just started while gRPC is
// still in the backoff of an earlier attempt. In that case the client connects immediately
// and repeats the call.
class RpcClient::PendingCall : public RpcEvent {
 public:
  PendingCall(State* state, Traffic* traffic, std::shared_ptr<grpc::Channel> channel, const char* method,
              const grpc::ByteBuffer& request, const CallOptions& options, RpcChannel::Done done)
      : state_(state),
        traffic_(traffic),
        channel_(std::move(channel)),
        method_(method),
        request_(request),
        options_(options),
        deadline_(options.timeout == absl::InfiniteDuration() ? absl::InfiniteFuture() : absl::Now() + options.timeout),
        done_(std::move(done)) {}

  void Start() {
    absl::Status status;
    {
      MutexLock lock(&state_->mutex);
      if (!state_->closed) state_->pending.insert(this);
      if (state_->closed) status = Cancelled("The client of the call is closing");
    }
    if (status.ok() && options_.cancellation != nullptr) {
      id_ = options_.cancellation->Register([this](const absl::Status&) { Cancel(); });
      if (!id_.has_value()) status = options_.cancellation->status();
    }
    if (!status.ok()) return End(status);
    Send();
  }

  void Run(bool, EventLoop& loop) override {
    loop.End();
    loop.PassOn();
    if (connecting_) return Connect();
    const absl::Status status = FromGrpc(status_);
    if (absl::IsCancelled(status) && cancelled()) return End(Cancelled("The call was cancelled"));
    if (absl::IsUnavailable(status) && !connected_again_ && absl::StrContains(status.message(), "failed to connect")) {
      connected_again_ = connecting_ = true;
      connect_until_ = std::min(absl::Now() + kConnectTime, deadline_);
      grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
      return Connect();
    }
    End(status);
  }

  void Cancel() {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }

 private:
  static constexpr absl::Duration kConnectTime = absl::Milliseconds(400);

  void Send() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_wait_for_ready(options_.wait_for_ready);
    if (deadline_ != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline_));
    {
      MutexLock lock(&mutex_);
      context_ = std::move(context);
      if (cancelled_) context_->TryCancel();
    }
    state_->loop->Begin();
    reader_ = grpc::GenericStub(channel_).PrepareUnaryCall(context_.get(), method_, request_, &state_->queue);
    traffic_->Sent(Traffic::kGrpc, static_cast<int64_t>(request_.Length()));
    reader_->StartCall();
    reader_->Finish(&response_, &status_, Publish());
  }

  bool cancelled() {
    MutexLock lock(&mutex_);
    return cancelled_;
  }

  // Waits until the channel is connected and repeats the call, or until the time for that is
  // over. A running connection attempt is not interrupted: it reports its own failure, which
  // may take long on a busy machine.
  void Connect() {
    const bool cancelled = this->cancelled();
    const grpc_connectivity_state now = channel_->GetState(/*try_to_connect=*/true);
    const absl::Time until =
        now == GRPC_CHANNEL_CONNECTING ? std::min(absl::Now() + kConnectTime, deadline_) : connect_until_;
    if (now != GRPC_CHANNEL_READY && !cancelled && absl::Now() < until) {
      state_->loop->Begin();
      channel_->NotifyOnStateChange(now, absl::ToChronoTime(until), &state_->queue, Publish());
      return;
    }
    connecting_ = false;
    if (now == GRPC_CHANNEL_READY && !cancelled) return Send();
    End(cancelled ? Cancelled("The call was cancelled") : FromGrpc(status_));
  }

  void End(const absl::Status& status) {
    if (id_.has_value()) options_.cancellation->Deregister(*id_);
    traffic_->Received(Traffic::kGrpc, static_cast<int64_t>(response_.Length()), status.ok());
    LogExceptions("an answer", [&] { done_(status, response_); });
    State* state = state_;
    {
      MutexLock lock(&state->mutex);
      state->pending.erase(this);
      if (state->closed && state->pending.empty()) state->changed.SignalAll();
    }
    delete this;
  }

  State* const state_;
  Traffic* const traffic_;
  const std::shared_ptr<grpc::Channel> channel_;
  const char* const method_;
  const grpc::ByteBuffer request_;  // shares the bytes
  const CallOptions options_;
  const absl::Time deadline_;
  RpcChannel::Done done_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
  grpc::ByteBuffer response_;
  grpc::Status status_;
  bool connecting_ = false;
  bool connected_again_ = false;
  absl::Time connect_until_;
  std::optional<Cancellation::CallbackId> id_;

  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::ClientContext> context_;  // replaced under the mutex
};

class RpcClient::Channel : public RpcChannel, public std::enable_shared_from_this<Channel> {
 public:
  Channel(State* state, const std::string& address)
      : state_(state),
        address_(address),
        traffic_(state->TrafficWith(address)),
        channel_(Make(address)),
        apart_(Make(address)),
        local_(MakeLocal()),
        tcp_(MakeTcp()) {}
  ~Channel() override {
    if (local_ != nullptr) local_->Abandon();
    if (tcp_ != nullptr) tcp_->Abandon();
  }

  void Call(const char* method, const grpc::ByteBuffer& request, const CallOptions& options, Done done) override {
    if (auto faults = ActiveNetworkFaults(); faults != nullptr) {
      const auto send = [self = shared_from_this(), method, request](const CallOptions& to, Done then) {
        self->Send(method, request, to, std::move(then));
      };
      return state_->network->Call(std::move(faults), address_, options, send, std::move(done));
    }
    Send(method, request, options, std::move(done));
  }
  bool ReceivedInPlace() const override {
    return (local_ != nullptr && local_->linked()) || (tcp_ != nullptr && tcp_->linked());
  }

 private:
  void Send(const char* method, const grpc::ByteBuffer& request, const CallOptions& options, Done done) {
    // Over links, tensors are in shared memory and messages are short, so there is nothing to wait behind.
    if (local_ != nullptr && local_->Call(method, request, options, done)) return;
    if (tcp_ != nullptr && !options.apart && tcp_->Call(method, request, options, done)) return;
    (new PendingCall(state_, traffic_, options.apart ? apart_ : channel_, method, request, options, std::move(done)))
        ->Start();
  }
  // nullptr if the server is elsewhere.
  std::shared_ptr<LinkChannel> MakeLocal() const {
    if (!state_->options.local_links) return nullptr;
    std::optional<SameHostTarget> target = FindSameHostTarget(address_);
    if (!target.has_value()) return nullptr;
    SocketLoop* const loop = state_->links.get();
    return MakeLinkChannel(Traffic::kSharedMemory, [loop, target = *std::move(target)](Link::Handlers handlers) {
      return ConnectToSameHost(target, loop, std::move(handlers));
    });
  }

  std::shared_ptr<LinkChannel> MakeTcp() const {
    if (!state_->options.tcp_links) return nullptr;
    const auto ask = [state = state_, traffic = traffic_, channel = channel_](Done done) {
      const CallOptions options{.timeout = absl::Seconds(10)};
      (new PendingCall(state, traffic, channel, kOpenLinkMethod, SerializeMessage(OpenLinkRequest()), options,
                       std::move(done)))
          ->Start();
    };
    const auto connector = std::make_shared<TcpConnector>(state_->links.get(), address_, ask);
    {
      MutexLock lock(&state_->mutex);
      std::erase_if(state_->connectors, [](const auto& entry) { return entry.expired(); });
      state_->connectors.push_back(connector);
    }
    return MakeLinkChannel(Traffic::kTcp,
                           [connector](Link::Handlers handlers) { return connector->Connect(std::move(handlers)); });
  }

  std::shared_ptr<LinkChannel> MakeLinkChannel(Traffic::Path path, LinkChannel::Connect connect) const {
    auto made = std::make_shared<LinkChannel>(
        state_->links.get(), &state_->timer, std::move(connect),
        [state = state_, traffic = traffic_, channel = channel_](const char* method, const grpc::ByteBuffer& request,
                                                                 const CallOptions& options, Done done) {
          (new PendingCall(state, traffic, channel, method, request, options, std::move(done)))->Start();
        },
        path, traffic_);
    MutexLock lock(&state_->mutex);
    std::erase_if(state_->link_channels, [](const auto& entry) { return entry.expired(); });
    state_->link_channels.push_back(made);
    return made;
  }

  static std::shared_ptr<grpc::Channel> Make(const std::string& address) {
    grpc::ChannelArguments args;
    args.SetMaxReceiveMessageSize(INT_MAX);
    args.SetMaxSendMessageSize(INT_MAX);
    // A task that starts late is found soon after it has.
    args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    // Despite its name, this is the timeout of one connection attempt, which takes long if the
    // server is busy.
    args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
    // Keepalive enables TCP's user timeout: a connection without acknowledgements is closed
    // after 10 s. gRPC's own pings are practically disabled, because TensorFlow's servers
    // answer them by closing the connection.
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 24 * 3600 * 1000);
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    // Repeating a call is not gRPC's to decide.
    args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // Clusters in one process do not share connections.
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
  }

  State* const state_;
  const std::string address_;
  Traffic* const traffic_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<grpc::Channel> apart_;  // connects at its first call (CallOptions::apart)
  const std::shared_ptr<LinkChannel> local_;    // nullptr: none
  const std::shared_ptr<LinkChannel> tcp_;      // nullptr: none
};

RpcClient::RpcClient(RpcClientOptions options) : state_(std::make_unique<State>(options)) {
  if (options.local_links || options.tcp_links) state_->links = std::make_unique<SocketLoop>("link-client");
  state_->loop = std::make_unique<EventLoop>("rpc-client", &state_->queue);
}

RpcClient::~RpcClient() {
  state_->network.reset();
  std::vector<std::weak_ptr<LinkChannel>> channels;
  std::vector<std::weak_ptr<TcpConnector>> connectors;
  {
    MutexLock lock(&state_->mutex);
    state_->closed = true;
    channels.swap(state_->link_channels);
    connectors.swap(state_->connectors);
  }
  for (const auto& entry : connectors) {
    if (const auto connector = entry.lock(); connector != nullptr) connector->Close();
  }
  for (const auto& entry : channels) {
    if (const auto channel = entry.lock(); channel != nullptr) channel->Close();
  }
  state_->links.reset();  // waits for the calls that were ending
  {
    MutexLock lock(&state_->mutex);
    for (PendingCall* call : state_->pending) call->Cancel();
    while (!state_->pending.empty()) {
      if (state_->changed.WaitWithTimeout(&state_->mutex, absl::Seconds(10))) {
        LOG(INFO) << "The RPC client is shutting down and waits for " << state_->pending.size() << " calls to end";
      }
    }
  }
  state_->loop.reset();
}

std::vector<const Traffic*> RpcClient::traffic() const {
  MutexLock lock(&state_->mutex);
  std::vector<const Traffic*> all;
  for (const auto& traffic : state_->traffic) all.push_back(traffic.get());
  return all;
}

std::shared_ptr<RpcChannel> RpcClient::Connect(const std::string& address) {
  return std::make_shared<Channel>(state_.get(), address);
}

}  // namespace thalweg
