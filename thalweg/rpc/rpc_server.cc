// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/rpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/async_unary_call.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/machine_memory.h"
#include "thalweg/base/memory.h"
#include "thalweg/base/own_addresses.h"
#include "thalweg/base/status.h"
#include "thalweg/proto/link.pb.h"
#include "thalweg/rpc/event_loop.h"
#include "thalweg/rpc/link_server.h"
#include "thalweg/rpc/message.h"
#include "thalweg/rpc/status.h"
#include "thalweg/rpc/tcp_connector.h"
#include "thalweg/transport/same_host_listener.h"
#include "thalweg/transport/tcp_connect.h"

namespace thalweg {
namespace {

// The number of calls per method that gRPC can accept before a new request is posted.
constexpr int kDepth = 8;
// A refused request of at least this size returns its memory to the system.
constexpr size_t kReturned = size_t{64} << 20;

// The addresses on which gRPC listens, in the form that same-host links use: "" for all addresses.
std::vector<std::string> LinkHosts(const std::vector<std::string>& hosts) {
  std::set<std::string> names;
  for (const std::string& host : hosts) {
    const bool all = host == "0.0.0.0" || host == "[::]";
    for (const std::string& address : all ? std::vector<std::string>{""} : ResolveHost(host)) names.insert(address);
  }
  return {names.begin(), names.end()};
}

// Listens for processes of this machine. UNAVAILABLE if another process uses a name.
absl::Status ListenOnThisHost(int port, const std::vector<std::string>& hosts,
                              std::vector<std::unique_ptr<LinkListener>>* listeners) {
  std::vector<std::unique_ptr<LinkListener>> local;
  for (const std::string& host : LinkHosts(hosts)) {
    ASSIGN_OR_RETURN(FileHandle socket, ListenLocally(port, host));
    local.push_back(MakeSameHostListener(std::move(socket)));
  }
  for (auto& listener : local) listeners->push_back(std::move(listener));
  return absl::OkStatus();
}

// Listens for TCP links on one port of all hosts, and returns what clients must know.
absl::StatusOr<LinkOffer> ListenForTcp(const std::vector<std::string>& hosts,
                                       std::vector<std::unique_ptr<LinkListener>>* listeners) {
  ASSIGN_OR_RETURN(const std::string token, NewTcpToken());
  const uint64_t memory = std::max<uint64_t>(uint64_t{1} << 30, MachineMemoryBytes() / 4);
  const TcpLinkOptions options{
      .token = token, .budget = std::make_shared<ReceiveBudget>(memory), .max_unsent_bytes = memory};
  absl::Status status = Unavailable("no address");
  // Another process may use the port of the first host on the second.
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<FileHandle> sockets;
    int port = 0;
    for (const std::string& host : hosts) {
      absl::StatusOr<FileHandle> socket = ListenTcp(host, port);
      status = socket.status();
      if (!status.ok()) break;
      if (port == 0) {
        ASSIGN_OR_RETURN(port, TcpPort(socket->get()));
      }
      sockets.push_back(*std::move(socket));
    }
    if (!status.ok()) continue;
    for (FileHandle& socket : sockets) listeners->push_back(MakeTcpListener(std::move(socket), options));
    LinkOffer offer;
    offer.set_port(port);
    offer.set_token(token);
    return offer;
  }
  return status;
}

// Decides whether the calls of a method are served on the polling thread. That is best if
// their handler returns soon and no other call waits meanwhile. Waiting calls are visible
// only when polling continues, so now and then a call is served the other way. After a call
// that took long, which may block, or that was not alone, the next calls are not served on
// the polling thread for a while.
class Pace {
 public:
  // Whether to serve the next call on the polling thread. `alone` means that no other call is being
  // served.
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

void KeepUntilExit(std::shared_ptr<const ServerCall> call) {
  static Mutex mutex;
  static auto* const calls = new std::vector<std::shared_ptr<const ServerCall>>;
  MutexLock lock(&mutex);
  calls->push_back(std::move(call));
}

void ServerCall::Reply(const absl::StatusOr<grpc::ByteBuffer>& response) {
  Reply(response.status(), response.ok() ? *response : grpc::ByteBuffer());
}

// A gRPC service with methods that are known by name and whose messages are bytes. It replaces the
// service that the protobuf compiler would generate, which would also parse the messages.
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
  std::vector<Pace> paces;      // by method
  std::atomic<int> serving{0};  // calls whose handler is running and that are not answered yet
  Service service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<LinkServer> links;  // nullptr: none
  int port = 0;

  Mutex mutex;
  CondVar changed;
  int active ABSL_GUARDED_BY(mutex) = 0;  // accepted calls that are not destroyed yet
  bool closed ABSL_GUARDED_BY(mutex) = false;
};

// Three references keep a call alive: its handler, and the events "reply sent" and "gRPC is
// done with it". The latter may come first if the client has disconnected.
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
    if (replied_.exchange(true, std::memory_order_acq_rel)) return;  // an exception has ended it already
    StopServing();
    state_->methods[method_].counts->Add(static_cast<int>(status.code()));
    // Return the memory of a large failed request to the system instead of keeping it for the
    // next step.
    returns_memory_ = !status.ok() && request_bytes_ >= kReturned;
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
    if (!ok) {  // the server is closing; gRPC sends no event for `done_` in this case
      references_.store(1);
      return Release();
    }
    request_bytes_ = request_.Length();
    // A brief call runs on the polling thread, and the next request of the method is posted after it.
    // Otherwise the next request is posted first, and another thread polls while the handler runs.
    Pace& pace = state_->paces[method_];
    const absl::Time start = absl::Now();
    const bool brief = pace.Next(/*alone=*/state_->serving.fetch_add(1, std::memory_order_relaxed) == 0);
    bool may_block = true;
    if (!brief) {
      Accept(state_, method_);
      may_block = loop.PassOn();
    }
    const auto serve = [this] {
      const absl::Status status = CatchExceptions([this] { state_->methods[method_].handler(*this); });
      if (!status.ok()) GiveUp(status);
    };
    if (!may_block) {
      Reply(ResourceExhausted("The server has no thread for another call"), {});
    } else if (brief) {
      loop.RunBriefly(serve);
    } else {
      serve();
    }
    StopServing();
    pace.Took(absl::Now() - start);
    if (brief) Accept(state_, method_);
    Release();
  }
  // The handler has thrown. Callbacks that it left behind may still use this call and reply, so the
  // call keeps a reference to itself, and is no longer counted as active. They do not read the request.
  void GiveUp(const absl::Status& status) {
    LOG(ERROR) << state_->methods[method_].path << " failed: " << status.message();
    references_.fetch_add(1, std::memory_order_relaxed);
    KeepUntilExit(std::shared_ptr<const ServerCall>(std::shared_ptr<void>(), this));  // it counts by itself
    Reply(status, {});
    request_.Clear();
    Uncount(state_);
  }
  // The call is answered or waits without a thread, so it does not delay other calls.
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
    const bool returns_memory = returns_memory_;
    delete this;
    if (returns_memory) {
      malloc_trim(0);
      TrimHostAllocator(kReturned);
    }
    Uncount(state);
  }
  static void Uncount(State* state) {
    MutexLock lock(&state->mutex);
    --state->active;
    if (state->closed) state->changed.SignalAll();
  }

  State* const state_;
  const int method_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  size_t request_bytes_ = 0;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  Cancellation cancellation_;
  std::atomic<int> references_{3};
  std::atomic<bool> stopped_serving_{false};
  std::atomic<bool> replied_{false};
  bool returns_memory_ = false;  // written before the reply
  Event<&Call::Received> received_{this};
  Event<&Call::Finished> finished_{this};
  Event<&Call::Done> done_{this};
};

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& options,
                                                            std::vector<RpcMethod> methods) {
  std::vector<std::unique_ptr<LinkListener>> listeners;
  if (options.tcp_links) {
    const absl::StatusOr<LinkOffer> offer = ListenForTcp(options.hosts, &listeners);
    if (offer.ok()) {
      methods.push_back({kOpenLinkMethod, [answer = SerializeMessage(*offer)](ServerCall& call) {
                           call.Reply(absl::OkStatus(), answer);
                         }});
    } else {
      LOG(WARNING) << "TCP links are off, tasks on other machines will use gRPC: " << offer.status().message();
    }
  }
  auto state = std::make_unique<State>(std::move(methods));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(INT_MAX);
  builder.SetMaxSendMessageSize(INT_MAX);
  // A client that vanishes without closing its connection, as with its machine, is
  // gone after 40 s: its calls are cancelled.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // Two servers on one port would share its calls; the second must fail.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  std::vector<int> ports(options.hosts.size(), 0);
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(absl::StrCat(options.hosts[i], ":", options.port), grpc::InsecureServerCredentials(),
                             &ports[i]);
  }
  builder.RegisterService(&state->service);
  state->queue = builder.AddCompletionQueue();
  state->server = builder.BuildAndStart();
  state->port = *std::min_element(ports.begin(), ports.end());  // 0 if one cannot be had
  if (state->server == nullptr || state->port == 0) {
    if (state->server != nullptr) state->server->Shutdown();
    state->queue->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (state->queue->Next(&tag, &ok)) {
    }
    return Unknown("Could not start gRPC server: cannot listen on ",
                   absl::StrJoin(options.hosts, absl::StrCat(":", options.port, ", ")), ":", options.port,
                   "; is the port in use?");
  }
  for (int i = 0; i < static_cast<int>(state->methods.size()); ++i) {
    for (int k = 0; k < kDepth; ++k) Call::Accept(state.get(), i);
  }
  state->loop = std::make_unique<EventLoop>("rpc-server", state->queue.get());
  state->loop->Begin();  // there may always be another call
  if (options.links) {
    const absl::Status status = ListenOnThisHost(state->port, options.hosts, &listeners);
    if (!status.ok()) {
      LOG(WARNING) << "Same-host links are off, processes on this machine will use gRPC: " << status.message();
    }
  }
  if (!listeners.empty()) {
    ASSIGN_OR_RETURN(state->links, LinkServer::Start(std::move(listeners), state->methods));
  }
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(state)));
}

RpcServer::RpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
RpcServer::~RpcServer() { Shutdown(); }
int RpcServer::port() const { return state_->port; }

void RpcServer::StopAnnouncingHealth() { state_->server->GetHealthCheckService()->SetServingStatus(false); }

void RpcServer::Shutdown() {
  {
    MutexLock lock(&state_->mutex);
    if (state_->closed) return;
    state_->closed = true;
  }
  state_->server->Shutdown(std::chrono::system_clock::now());
  if (state_->links != nullptr) state_->links->Shutdown();
  {
    MutexLock lock(&state_->mutex);
    while (state_->active > 0) {
      if (state_->changed.WaitWithTimeout(&state_->mutex, absl::Seconds(10))) {
        LOG(INFO) << "The gRPC server is shutting down and waits for " << state_->active << " calls to end";
      }
    }
  }
  state_->loop.reset();
}

}  // namespace thalweg
