#include "thalweg/rpc/rpc_client.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <climits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/rpc/event_loop.h"
#include "thalweg/rpc/status.h"

namespace thalweg {

class RpcClient::State {
 public:
  grpc::CompletionQueue queue;
  std::unique_ptr<EventLoop> loop;

  Mutex mutex;
  CondVar changed;
  bool closed ABSL_GUARDED_BY(mutex) = false;
  absl::flat_hash_set<PendingCall*> pending ABSL_GUARDED_BY(mutex);
};

class RpcClient::PendingCall : public RpcEvent {
 public:
  PendingCall(State* state, const CallOptions& options, RpcChannel::Done done)
      : state_(state), cancellation_(options.cancellation), done_(std::move(done)) {
    context_.set_wait_for_ready(options.wait_for_ready);
    if (options.timeout != absl::InfiniteDuration()) {
      context_.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
    }
  }

  void Start(grpc::GenericStub& stub, const char* method, const grpc::ByteBuffer& request) {
    {
      MutexLock lock(&state_->mutex);
      if (!state_->closed) state_->pending.insert(this);
      if (state_->closed) cancelled_early_ = Cancelled("The client of the call is closing");
    }
    if (cancelled_early_.ok() && cancellation_ != nullptr) {
      id_ = cancellation_->Register([this](const absl::Status&) { context_.TryCancel(); });
      if (!id_.has_value()) cancelled_early_ = cancellation_->status();
    }
    if (!cancelled_early_.ok()) return End(cancelled_early_);
    reader_ = stub.PrepareUnaryCall(&context_, method, request, &state_->queue);
    reader_->StartCall();
    reader_->Finish(&response_, &status_, this);
  }

  void Run(bool) override { End(FromGrpc(status_)); }
  void Cancel() { context_.TryCancel(); }

 private:
  void End(const absl::Status& status) {
    if (id_.has_value()) cancellation_->Deregister(*id_);
    done_(status, response_);
    State* state = state_;
    {
      MutexLock lock(&state->mutex);
      state->pending.erase(this);
      if (state->closed && state->pending.empty()) state->changed.SignalAll();
    }
    delete this;
  }

  State* const state_;
  Cancellation* const cancellation_;
  RpcChannel::Done done_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
  grpc::ByteBuffer response_;
  grpc::Status status_;
  absl::Status cancelled_early_;
  std::optional<Cancellation::CallbackId> id_;
};

class RpcClient::Channel : public RpcChannel {
 public:
  Channel(State* state, const std::string& address) : state_(state), stub_(Make(address)) {}

  void Call(const char* method, const grpc::ByteBuffer& request, const CallOptions& options, Done done) override {
    (new PendingCall(state_, options, std::move(done)))->Start(stub_, method, request);
  }

 private:
  static std::shared_ptr<grpc::Channel> Make(const std::string& address) {
    grpc::ChannelArguments args;
    args.SetMaxReceiveMessageSize(INT_MAX);
    args.SetMaxSendMessageSize(INT_MAX);
    // A task that starts late is found soon after it has.
    args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
    args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    // Repeating a call is not gRPC's to decide.
    args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // Clusters in one process do not share connections.
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
  }

  State* const state_;
  grpc::GenericStub stub_;
};

RpcClient::RpcClient() : state_(std::make_unique<State>()) {
  state_->loop = std::make_unique<EventLoop>("rpc-client", &state_->queue);
}

RpcClient::~RpcClient() {
  {
    MutexLock lock(&state_->mutex);
    state_->closed = true;
    for (PendingCall* call : state_->pending) call->Cancel();
    while (!state_->pending.empty()) {
      if (state_->changed.WaitWithTimeout(&state_->mutex, absl::Seconds(10))) {
        LOG(INFO) << "The client still waits for the end of " << state_->pending.size() << " calls";
      }
    }
  }
  state_->queue.Shutdown();
  state_->loop.reset();
}

std::shared_ptr<RpcChannel> RpcClient::Connect(const std::string& address) {
  return std::make_shared<Channel>(state_.get(), address);
}

}  // namespace thalweg
