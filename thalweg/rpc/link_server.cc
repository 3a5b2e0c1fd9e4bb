// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/link_server.h"

#include <atomic>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/base/timer.h"
#include "thalweg/rpc/call_window.h"
#include "thalweg/rpc/message.h"

namespace thalweg {

class LinkServer::State {
 public:
  static constexpr absl::Duration kCheckInterval = absl::Seconds(5);
  absl::flat_hash_map<std::string, const RpcMethod*> methods;

  Mutex mutex;
  CondVar changed;
  bool closed ABSL_GUARDED_BY(mutex) = false;
  int active ABSL_GUARDED_BY(mutex) = 0;  // calls without a reply
  absl::flat_hash_set<std::shared_ptr<Connection>> connections ABSL_GUARDED_BY(mutex);

  std::vector<std::shared_ptr<Listener>> listeners;  // constant once it listens
  SocketLoop loop{"link-server"};
  bool checking ABSL_GUARDED_BY(mutex) = false;  // an alarm for CheckLinks() is set
  Timer timer;  // ends the listener's pauses, checks links; the last member, so that it is destroyed first

  bool Enter() {
    MutexLock lock(&mutex);
    if (!closed) ++active;
    return !closed;
  }
  void SetCheck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (closed || connections.empty() || std::exchange(checking, true)) return;
    timer.Set(absl::Now() + kCheckInterval, [this] { CheckLinks(); });
  }
  void CheckLinks();
  void Leave() {
    MutexLock lock(&mutex);
    --active;
    if (closed) changed.SignalAll();
  }
};

class LinkServer::Call : public ServerCall {
 public:
  Call(State* state, const RpcMethod* method, std::shared_ptr<Connection> connection, uint64_t id,
       grpc::ByteBuffer request)
      : state_(state), method_(method), connection_(std::move(connection)), id_(id), request_(std::move(request)) {}

  grpc::ByteBuffer& request() override { return request_; }
  Cancellation& cancellation() override { return cancellation_; }
  void Reply(const absl::Status& status, const grpc::ByteBuffer& response) override;

 private:
  State* const state_;
  const RpcMethod* const method_;
  std::shared_ptr<Connection> connection_;  // until Reply()
  const uint64_t id_;
  grpc::ByteBuffer request_;
  Cancellation cancellation_;
  std::atomic<bool> replied_{false};
};

// One client.
class LinkServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(State* state) : state_(state) {}

  // Accepts the client that waits. False if there is none.
  absl::StatusOr<bool> Start(LinkListener& listener) {
    const auto self = shared_from_this();
    ASSIGN_OR_RETURN(
        link_, listener.Accept(&state_->loop,
                               {.receive = [self](LinkMessage message,
                                                  LinkBody body) { return self->Receive(message, std::move(body)); },
                                .lost = [self](const absl::Status& why) { self->Lost(why); }}));
    if (link_ == nullptr) return false;
    const absl::Status status = link_->Start(Link::Side::kAccepted);
    if (!status.ok()) link_->Close();
    RETURN_IF_ERROR(status);
    return true;
  }

  void Reply(uint64_t id, const absl::Status& status, const grpc::ByteBuffer& response) {
    std::shared_ptr<Call> call;  // ends after the lock
    {
      MutexLock lock(&mutex_);
      const auto it = calls_.find(id);
      if (it != calls_.end()) {
        call = std::move(it->second);
        calls_.erase(it);
      }
    }
    LinkMessage reply{.kind = LinkMessage::kReply,
                      .code = static_cast<uint32_t>(status.code()),
                      .call = id,
                      .text = std::string(status.message())};
    absl::Status sent = SendOver(*link_, reply, response);
    // If there is no memory for the response, reply with that error.
    if (absl::IsResourceExhausted(sent)) {
      reply.code = static_cast<uint32_t>(sent.code());
      reply.text = std::string(sent.message());
      sent = link_->Send(reply);
    }
    // A client that has gone needs no answer. Any other must not wait for one that
    // was lost.
    if (!sent.ok()) link_->Break();
  }

  void CancelAll() {
    absl::flat_hash_map<uint64_t, std::shared_ptr<Call>> calls;
    {
      MutexLock lock(&mutex_);
      calls = calls_;
    }
    for (const auto& [id, call] : calls) CancelCall(*call);
  }

  // Ends the link if its client has begun a message and does not go on.
  void BreakIfStalled() {
    if (link_->stalled()) link_->Break();
  }
  void Close() { link_->Close(); }

 private:
  static void CancelCall(Call& call) {
    call.cancellation().Cancel(Cancelled("The client has cancelled the call or gone away"));
  }

  Link::Work Receive(const LinkMessage& message, LinkBody body) {
    MutexLock lock(&mutex_);
    if (message.kind == LinkMessage::kCancel) {
      const auto it = calls_.find(message.call);
      if (it == calls_.end()) return nullptr;
      return [call = it->second] { CancelCall(*call); };
    }
    if (message.kind != LinkMessage::kCall || !window_.Add(message.call)) return nullptr;
    const auto method = state_->methods.find(message.text);
    const auto self = shared_from_this();
    if (method == state_->methods.end()) {
      return [self, message] { self->Reply(message.call, Unimplemented("There is no method ", message.text), {}); };
    }
    if (!state_->Enter()) {
      return [self, id = message.call] { self->Reply(id, Unavailable("The server is closing"), {}); };
    }
    auto call = std::make_shared<Call>(state_, method->second, self, message.call, FromLink(std::move(body)));
    calls_.emplace(message.call, call);
    return [call = std::move(call), method = method->second] { Serve(call, *method); };
  }

  static void Serve(const std::shared_ptr<Call>& call, const RpcMethod& method) {
    const absl::Status status = CatchExceptions([&] { method.handler(*call); });
    if (status.ok()) return;
    LOG(ERROR) << method.path << " failed: " << status.message();
    KeepUntilExit(call);
    call->Reply(status, {});  // lets go of the connection
    call->request().Clear();
  }

  void Lost(const absl::Status& why) {
    VLOG(1) << "A link to a client has ended: " << why;
    CancelAll();
    const auto self = shared_from_this();
    MutexLock lock(&state_->mutex);
    state_->connections.erase(self);
  }

  State* const state_;
  std::shared_ptr<Link> link_;  // set before anything comes over it
  Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
  CallWindow window_ ABSL_GUARDED_BY(mutex_);  // a call that comes twice is served once
};

void LinkServer::Call::Reply(const absl::Status& status, const grpc::ByteBuffer& response) {
  if (replied_.exchange(true, std::memory_order_acq_rel)) return;  // an exception has ended it already
  State* state = state_;
  method_->counts->Add(static_cast<int>(status.code()));
  const std::shared_ptr<Connection> connection = std::move(connection_);
  connection->Reply(id_, status, response);  // this is gone, unless a thread holds it
  state->Leave();
}

void LinkServer::State::CheckLinks() {
  absl::flat_hash_set<std::shared_ptr<Connection>> checked;
  {
    MutexLock lock(&mutex);
    checking = false;
    checked = connections;
    SetCheck();
  }
  for (const auto& connection : checked) connection->BreakIfStalled();
}

// Accepts the clients of one listener.
class LinkServer::Listener : public SocketLoop::Source, public std::enable_shared_from_this<Listener> {
 public:
  Listener(State* state, std::unique_ptr<LinkListener> socket) : state_(state), socket_(std::move(socket)) {}

  absl::Status Start() {
    MutexLock lock(&state_->mutex);  // the loop's threads read the id
    ASSIGN_OR_RETURN(id_, state_->loop.Add(socket_->fd(), shared_from_this()));
    Wait();
    return absl::OkStatus();
  }
  void Stop() { state_->loop.Remove(id_, socket_->fd()); }

  void Ready() override {
    const auto connection = std::make_shared<Connection>(state_);
    absl::StatusOr<bool> started = false;
    {
      MutexLock lock(&state_->mutex);
      if (state_->closed) return;
      started = connection->Start(*socket_);
      if (started.ok() && *started) state_->connections.insert(connection);
      state_->SetCheck();
    }
    if (absl::IsResourceExhausted(started.status())) return Pause(started.status());
    if (!started.ok()) VLOG(1) << "Cannot link a client: " << started.status();
    Wait();
  }

 private:
  void Wait() { state_->loop.Wait(id_, socket_->fd(), /*write=*/false); }

  static constexpr absl::Duration kPause = absl::Milliseconds(50);

  // Stops accepting for a while. Otherwise poll() would report the waiting client again and
  // again. It is accepted when a file descriptor may be available.
  void Pause(const absl::Status& why) {
    VLOG(1) << why;
    MutexLock lock(&state_->mutex);
    if (state_->closed) return;
    state_->timer.Set(absl::Now() + kPause, [self = shared_from_this()] { self->Wait(); });
  }

  State* const state_;
  const std::unique_ptr<LinkListener> socket_;
  uint64_t id_ = 0;
};

absl::StatusOr<std::unique_ptr<LinkServer>> LinkServer::Start(std::vector<std::unique_ptr<LinkListener>> listeners,
                                                              const std::vector<RpcMethod>& methods) {
  auto state = std::make_unique<State>();
  for (const RpcMethod& method : methods) state->methods.emplace(method.path, &method);
  for (auto& listener : listeners) {
    state->listeners.push_back(std::make_shared<Listener>(state.get(), std::move(listener)));
  }
  for (const auto& listener : state->listeners) RETURN_IF_ERROR(listener->Start());
  return std::unique_ptr<LinkServer>(new LinkServer(std::move(state)));
}

LinkServer::LinkServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
LinkServer::~LinkServer() { Shutdown(); }

void LinkServer::Shutdown() {
  absl::flat_hash_set<std::shared_ptr<Connection>> connections;
  {
    MutexLock lock(&state_->mutex);
    if (state_->closed) return;
    state_->closed = true;
    connections = state_->connections;
  }
  for (const auto& listener : state_->listeners) listener->Stop();
  for (const auto& connection : connections) connection->CancelAll();
  {
    MutexLock lock(&state_->mutex);
    while (state_->active > 0) {
      if (state_->changed.WaitWithTimeout(&state_->mutex, absl::Seconds(10))) {
        LOG(INFO) << "The link server is shutting down and waits for " << state_->active << " calls to end";
      }
    }
    state_->connections.clear();
  }
  for (const auto& connection : connections) connection->Close();
}

}  // namespace thalweg
