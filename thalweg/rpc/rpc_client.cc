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
#include "thalweg/rpc/event_loop.h"
#include "thalweg/rpc/faulty_network.h"
#include "thalweg/rpc/link_channel.h"
#include "thalweg/rpc/same_host_target.h"
#include "thalweg/rpc/status.h"

namespace thalweg {

class RpcClient::State {
 public:
  explicit State(std::string address) : network(std::in_place, std::move(address)) {}

  std::unique_ptr<SocketLoop> links;  // nullptr: none
  std::vector<std::weak_ptr<LinkChannel>> local ABSL_GUARDED_BY(mutex);
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
        local_(MakeLocal(state, traffic_, address, channel_)) {}
  ~Channel() override {
    if (local_ != nullptr) local_->Abandon();
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

 private:
  void Send(const char* method, const grpc::ByteBuffer& request, const CallOptions& options, Done done) {
    // Over links, tensors are in shared memory and messages are short, so there is nothing to wait behind.
    if (local_ != nullptr && local_->Call(method, request, options, done)) return;
    (new PendingCall(state_, traffic_, options.apart ? apart_ : channel_, method, request, options, std::move(done)))
        ->Start();
  }
  // nullptr if the server is elsewhere.
  static std::shared_ptr<LinkChannel> MakeLocal(State* state, Traffic* traffic, const std::string& address,
                                                const std::shared_ptr<grpc::Channel>& channel) {
    std::optional<SameHostTarget> target = state->links == nullptr ? std::nullopt : FindSameHostTarget(address);
    if (!target.has_value()) return nullptr;
    auto local = std::make_shared<LinkChannel>(
        state->links.get(), &state->timer,
        [loop = state->links.get(), target = *std::move(target)](Link::Handlers handlers) {
          return ConnectToSameHost(target, loop, std::move(handlers));
        },
        [state, traffic, channel](const char* method, const grpc::ByteBuffer& request, const CallOptions& options,
                                  Done done) {
          (new PendingCall(state, traffic, channel, method, request, options, std::move(done)))->Start();
        },
        Traffic::kSharedMemory, traffic);
    MutexLock lock(&state->mutex);
    std::erase_if(state->local, [](const auto& entry) { return entry.expired(); });
    state->local.push_back(local);
    return local;
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
  const std::shared_ptr<LinkChannel> local_;
};

RpcClient::RpcClient(bool links, std::string address) : state_(std::make_unique<State>(std::move(address))) {
  if (links) state_->links = std::make_unique<SocketLoop>("local-client");
  state_->loop = std::make_unique<EventLoop>("rpc-client", &state_->queue);
}

RpcClient::~RpcClient() {
  state_->network.reset();
  std::vector<std::weak_ptr<LinkChannel>> local;
  {
    MutexLock lock(&state_->mutex);
    state_->closed = true;
    local.swap(state_->local);
  }
  for (const auto& entry : local) {
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
