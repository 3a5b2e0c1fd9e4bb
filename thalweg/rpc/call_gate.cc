#include "thalweg/rpc/call_gate.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

bool StartsWork(const std::string& path) {
  for (const char* method : {"/CreateSession", "/RunStep", "/RunCallable", "/PartialRunSetup", "/CreateWorkerSession",
                             "/RegisterGraph", "/RunGraph"}) {
    if (absl::EndsWith(path, method)) return true;
  }
  return false;
}

}  // namespace

// Leaves the gate with its reply.
class CallGate::CountedCall : public ServerCall {
 public:
  CountedCall(CallGate& gate, ServerCall& call) : gate_(gate), call_(call) {}
  grpc::ByteBuffer& request() override { return call_.request(); }
  Cancellation& cancellation() override { return call_.cancellation(); }
  void Reply(const absl::Status& status, const grpc::ByteBuffer& response) override {
    ServerCall& call = call_;
    gate_.Leave();
    delete this;
    call.Reply(status, response);
  }

 private:
  CallGate& gate_;
  ServerCall& call_;
};

std::vector<RpcMethod> CallGate::Guard(std::vector<RpcMethod> methods) {
  for (RpcMethod& method : methods) {
    const bool counted = StartsWork(method.path);
    method.handler = [this, counted, handler = std::move(method.handler)](ServerCall& call) {
      last_call_nanos_.store(absl::GetCurrentTimeNanos(), std::memory_order_relaxed);
      if (!counted) return handler(call);
      active_.fetch_add(1);
      if (!closed_.load()) return handler(*new CountedCall(*this, call));
      Leave();
      call.Reply(why_, grpc::ByteBuffer());
    };
  }
  return methods;
}

void CallGate::Leave() {
  if (active_.fetch_sub(1) > 1 || !closed_.load()) return;
  MutexLock lock(&mutex_);
  changed_.SignalAll();
}

bool CallGate::Close(const absl::Status& why, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mutex_);
  if (!closed_.load()) why_ = why;
  closed_.store(true);
  while (active_.load() > 0) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) return active_.load() == 0;
  }
  return true;
}

absl::Time CallGate::last_call() const {
  return active_.load() > 0 ? absl::Now() : absl::FromUnixNanos(last_call_nanos_.load(std::memory_order_relaxed));
}

}  // namespace thalweg
