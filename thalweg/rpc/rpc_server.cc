#include "thalweg/rpc/rpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/async_unary_call.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <atomic>
#include <climits>
#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/rpc/event_loop.h"
#include "thalweg/rpc/same_host_server.h"
#include "thalweg/rpc/status.h"

namespace thalweg {
namespace {

// How many calls of a method gRPC may hand over before one is taken in again.
constexpr int kDepth = 8;

// Whether the calls of a method are best served in place: their handler is over
// soon, and no other call waits meanwhile. That one waits shows only when it is not
// held up, so that now and then a call is served the other way. After one that took
// long, which may block, or that was not alone, those that follow are not expected
// to be better for a while.
class Pace {
 public:
  // Whether to serve the next call in place. `alone`: no other is being served.
  bool Next(bool alone) {
    if (!alone) suspicions_.store(kSuspicions, std::memory_order_relaxed);
    const bool sample = calls_.fetch_add(1, std::memory_order_relaxed) % kSampled == 0;
    return suspicions_.load(std::memory_order_relaxed) == 0 && !sample;
  }
  void Took(absl::Duration time) {
    const int now = suspicions_.load(std::memory_order_relaxed);
    if (time > kBrief) suspicions_.store(kSuspicions, std::memory_order_relaxed);
    if (time <= kBrief && now > 0) suspicions_.store(now - 1, std::memory_order_relaxed);
  }

 private:
  static constexpr absl::Duration kBrief = absl::Microseconds(200);  // ten times what waking a thread takes
  static constexpr int kSuspicions = 8;
  static constexpr uint32_t kSampled = 32;
  std::atomic<int> suspicions_{1};
  std::atomic<uint32_t> calls_{0};
};

}  // namespace

void ServerCall::Reply(const absl::StatusOr<grpc::ByteBuffer>& response) {
  Reply(response.status(), response.ok() ? *response : grpc::ByteBuffer());
}

// Methods that are known by name and carry bytes: the same as what a .proto
// would generate, without the parsing.
class RpcServer::Service : public grpc::Service {
 public:
  explicit Service(const std::vector<RpcMethod>& methods) {
    for (size_t i = 0; i < methods.size(); ++i) {
      AddMethod(new grpc::internal::RpcServiceMethod(methods[i].path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC,
                                                     nullptr));
      MarkMethodAsync(static_cast<int>(i));
    }
  }
  using grpc::Service::RequestAsyncUnary;
};

class RpcServer::State {
 public:
  explicit State(std::vector<RpcMethod> methods)
      : methods(std::move(methods)), paces(this->methods.size()), service(this->methods) {}

  const std::vector<RpcMethod> methods;
  std::vector<Pace> paces;      // of the methods
  std::atomic<int> serving{0};  // calls whose handlers run and that have no answer yet
  Service service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<SameHostServer> local;  // nullptr: none
  int port = 0;

  Mutex mutex;
  CondVar changed;
  int active ABSL_GUARDED_BY(mutex) = 0;  // calls that were taken in and not let go of
  bool closed ABSL_GUARDED_BY(mutex) = false;
};

// Its handler and two events keep it alive: the reply was sent, and gRPC is done with
// it, which may come first if the client has gone.
class RpcServer::Call : public ServerCall {
 public:
  static void Accept(State* state, int method) {
    {
      MutexLock lock(&state->mutex);
      if (state->closed) return;
      ++state->active;
    }
    new Call(state, method);
  }

  grpc::ByteBuffer& request() override { return request_; }
  Cancellation& cancellation() override { return cancellation_; }
  void Reply(const absl::Status& status, const grpc::ByteBuffer& response) override {
    StopServing();
    if (status.ok()) {
      responder_.Finish(response, grpc::Status::OK, finished_.Publish());
    } else {
      responder_.FinishWithError(ToGrpc(status), finished_.Publish());
    }
  }

 private:
  template <void (Call::*method)(bool, EventLoop&)>
  class Event : public RpcEvent {
   public:
    explicit Event(Call* call) : call_(call) {}
    void Run(bool ok, EventLoop& loop) override { (call_->*method)(ok, loop); }

   private:
    Call* const call_;
  };

  Call(State* state, int method) : state_(state), method_(method), responder_(&context_) {
    context_.AsyncNotifyWhenDone(done_.Publish());
    state_->service.RequestAsyncUnary(method_, &context_, &request_, &responder_, state_->queue.get(),
                                      state_->queue.get(), received_.Publish());
  }

  void Received(bool ok, EventLoop& loop) {
    if (!ok) {  // the server is closing; gRPC does not tell `done_` then
      references_.store(1);
      return Release();
    }
    Pace& pace = state_->paces[method_];
    const absl::Time start = absl::Now();
    const bool brief = pace.Next(/*alone=*/state_->serving.fetch_add(1, std::memory_order_relaxed) == 0);
    if (!brief) {
      Accept(state_, method_);
      loop.PassOn();
    }
    const auto serve = [this] { state_->methods[method_].handler(*this); };
    if (brief) loop.RunBriefly(serve);
    if (!brief) serve();
    StopServing();
    pace.Took(absl::Now() - start);
    if (brief) Accept(state_, method_);
    Release();
  }
  // The call is answered, or waits, and holds up no other.
  void StopServing() {
    if (!stopped_serving_.exchange(true, std::memory_order_relaxed)) {
      state_->serving.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  void Finished(bool, EventLoop&) { Release(); }
  void Done(bool, EventLoop& loop) {
    if (context_.IsCancelled()) {
      loop.PassOn();
      cancellation_.Cancel(Cancelled("The client has cancelled the call or gone away"));
    }
    Release();
  }
  void Release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    State* state = state_;
    delete this;
    MutexLock lock(&state->mutex);
    --state->active;
    if (state->closed) state->changed.SignalAll();
  }

  State* const state_;
  const int method_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  Cancellation cancellation_;
  std::atomic<int> references_{3};
  std::atomic<bool> stopped_serving_{false};
  Event<&Call::Received> received_{this};
  Event<&Call::Finished> finished_{this};
  Event<&Call::Done> done_{this};
};

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& options,
                                                            std::vector<RpcMethod> methods) {
  auto state = std::make_unique<State>(std::move(methods));
  const std::string address = absl::StrCat(options.bind, ":", options.port);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(INT_MAX);
  builder.SetMaxSendMessageSize(INT_MAX);
  // A client that vanishes without closing its connection, as with its machine, is
  // gone after 40 s: its calls are cancelled.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // Two servers on one port would share its calls; the second must fail.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &state->port);
  builder.RegisterService(&state->service);
  state->queue = builder.AddCompletionQueue();
  state->server = builder.BuildAndStart();
  if (state->server == nullptr || state->port == 0) {
    if (state->server != nullptr) state->server->Shutdown();
    state->queue->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (state->queue->Next(&tag, &ok)) {
    }
    return Unknown("Could not start gRPC server: cannot listen on ", address, "; is the port in use?");
  }
  for (int i = 0; i < static_cast<int>(state->methods.size()); ++i) {
    for (int k = 0; k < kDepth; ++k) Call::Accept(state.get(), i);
  }
  state->loop = std::make_unique<EventLoop>("rpc-server", state->queue.get());
  state->loop->Begin();  // there may always be another call
  // A server of one address only cannot tell whether a client means that one.
  if (options.links && (options.bind == "0.0.0.0" || options.bind == "[::]")) {
    absl::StatusOr<std::unique_ptr<SameHostServer>> local = SameHostServer::Start(state->port, state->methods);
    if (local.ok()) state->local = *std::move(local);
    if (!local.ok()) LOG(WARNING) << "Processes of this machine will use gRPC: " << local.status().message();
  }
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(state)));
}

RpcServer::RpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
RpcServer::~RpcServer() { Shutdown(); }
int RpcServer::port() const { return state_->port; }

void RpcServer::Shutdown() {
  {
    MutexLock lock(&state_->mutex);
    if (state_->closed) return;
    state_->closed = true;
  }
  state_->server->Shutdown(std::chrono::system_clock::now());
  if (state_->local != nullptr) state_->local->Shutdown();
  {
    MutexLock lock(&state_->mutex);
    while (state_->active > 0) {
      if (state_->changed.WaitWithTimeout(&state_->mutex, absl::Seconds(10))) {
        LOG(INFO) << "The server still waits for the end of " << state_->active << " calls";
      }
    }
  }
  state_->loop.reset();
}

}  // namespace thalweg
