// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/call_gate.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

bool IsOneOf(const std::string& path, std::initializer_list<const char*> methods) {
  return std::any_of(methods.begin(), methods.end(), [&](const char* method) { return absl::EndsWith(path, method); });
}

// Means nothing but its distance from other such times.
absl::Time MonotonicNow() { return absl::FromUnixNanos(NowNanos()); }

}  // namespace

// Leaves the gate with its reply, or when its handler throws.
class CallGate::CountedCall : public ServerCall {
 public:
  static void Serve(CallGate& gate, ServerCall& call, const std::function<void(ServerCall&)>& handler) {
    const auto counted = std::make_shared<CountedCall>(gate, call);
    counted->self_ = counted;
    try {
      handler(*counted);
    } catch (...) {
      counted->GiveUp();
      throw;  // the server answers
    }
  }

  CountedCall(CallGate& gate, ServerCall& call) : gate_(gate), call_(call) {}
  grpc::ByteBuffer& request() override { return call_.request(); }
  Cancellation& cancellation() override { return call_.cancellation(); }
  void Reply(const absl::Status& status, const grpc::ByteBuffer& response) override {
    if (left_.exchange(true, std::memory_order_acq_rel)) return;  // an exception has ended it already
    const std::shared_ptr<CountedCall> self = std::move(self_);
    gate_.Leave();
    call_.Reply(status, response);
  }

 private:
  // Callbacks that the handler left behind may still use it, so it stays until the process ends.
  void GiveUp() {
    if (left_.exchange(true, std::memory_order_acq_rel)) return;  // it has replied before it threw
    gate_.Leave();
    KeepUntilExit(std::move(self_));
  }

  CallGate& gate_;
  ServerCall& call_;
  std::atomic<bool> left_{false};
  std::shared_ptr<CountedCall> self_;  // until it has left
};

std::vector<RpcMethod> CallGate::Guard(std::vector<RpcMethod> methods) {
  for (RpcMethod& method : methods) {
    const bool is_session = IsOneOf(method.path, {"/CreateSession", "/CreateWorkerSession"});
    const bool is_step =
        IsOneOf(method.path, {"/RunStep", "/RunCallable", "/PartialRunSetup", "/RegisterGraph", "/RunGraph"});
    method.handler = [this, is_session, is_step, handler = std::move(method.handler)](ServerCall& call) {
      const int64_t now = NowNanos();
      last_call_nanos_.store(now, std::memory_order_relaxed);
      if (!is_session && !is_step) return handler(call);
      active_.fetch_add(1);
      if (is_step) last_work_nanos_.store(now, std::memory_order_relaxed);
      if (!(is_session ? closed_for_sessions_ : closed_).load()) return CountedCall::Serve(*this, call, handler);
      Leave();
      call.Reply(why_, grpc::ByteBuffer());
    };
  }
  return methods;
}

absl::Status CallGate::EnterStep() {
  const int64_t now = NowNanos();
  last_call_nanos_.store(now, std::memory_order_relaxed);
  last_work_nanos_.store(now, std::memory_order_relaxed);
  active_.fetch_add(1);
  if (!closed_.load()) return absl::OkStatus();
  Leave();
  return why_;
}

void CallGate::Leave() {
  if (active_.fetch_sub(1) > 1 || !closed_.load()) return;
  MutexLock lock(&mutex_);
  changed_.SignalAll();
}

void CallGate::CloseForSessions(const absl::Status& why) {
  MutexLock lock(&mutex_);
  if (closed_for_sessions_.load()) return;
  why_ = why;
  closed_for_sessions_.store(true);
}

void CallGate::WaitUntilQuiet(absl::Duration quiet, absl::Duration timeout) const {
  const absl::Time deadline = MonotonicNow() + timeout;
  while (true) {
    const absl::Time now = MonotonicNow();
    const absl::Time until =
        std::min(deadline, absl::FromUnixNanos(last_work_nanos_.load(std::memory_order_relaxed)) + quiet);
    if (until <= now) return;
    absl::SleepFor(until - now);
  }
}

bool CallGate::Close(const absl::Status& why, absl::Duration timeout) {
  CloseForSessions(why);
  const absl::Time deadline = MonotonicNow() + timeout;
  MutexLock lock(&mutex_);
  closed_.store(true);
  while (active_.load() > 0) {
    if (changed_.WaitWithTimeout(&mutex_, deadline - MonotonicNow())) return active_.load() == 0;
  }
  return true;
}

absl::Time CallGate::last_call() const {
  return active_.load() > 0 ? MonotonicNow() : absl::FromUnixNanos(last_call_nanos_.load(std::memory_order_relaxed));
}

}  // namespace thalweg
