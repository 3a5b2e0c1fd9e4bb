// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/event_loop.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <pthread.h>

#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "google/protobuf/stubs/logging.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/logging.h"

namespace thalweg {

namespace {

// gRPC and protobuf log to stderr what callers learn from statuses. A client that sends
// malformed messages would fill the log.
void LogQuietly(gpr_log_func_args* args) { VLOG(1) << "gRPC: " << args->message; }
void LogProtobufQuietly(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  VLOG(1) << "protobuf: " << message;
}

}  // namespace

EventLoop::EventLoop(std::string name, grpc::CompletionQueue* queue) : name_(std::move(name)), queue_(queue) {
  // gRPC shuts down with its last user, which can take 10 s because its own poller must wake
  // up. Keep it initialized until the process exits.
  static const bool initialized = [] {
    grpc_init();
    // Debian's abseil checks the order of gRPC's locks for cycles. Turn this off: every lock
    // would cost a search.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    gpr_set_log_function(LogQuietly);
    google::protobuf::SetLogHandler(LogProtobufQuietly);
    return true;
  }();
  (void)initialized;
}

EventLoop::~EventLoop() {
  queue_->Shutdown();
  Begin();  // wakes a thread to find the end of the queue
  MutexLock lock(&mutex_);
  while (threads_ > 0) ended_.Wait(&mutex_);
}

bool EventLoop::AddThread() {
  return AddThread([this] { Run(); });
}

bool EventLoop::AddThread(absl::AnyInvocable<void()> run) {
  if (threads_ >= kMaxThreads) return false;
  const absl::Status status = CatchExceptions([&] {
    std::thread([this, run = std::move(run)]() mutable {
      pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
      run();
      MutexLock lock(&mutex_);
      if (--threads_ == 0) ended_.SignalAll();
    }).detach();
  });
  if (status.ok()) ++threads_;
  return status.ok();
}

bool EventLoop::PassOn() {
  {
    MutexLock lock(&mutex_);
    if (leader_ != std::this_thread::get_id()) return true;  // another thread polls already
    if (under_way_ > 0 && asleep_ == 0 && !AddThread()) return false;
    leader_ = {};
    brief_ = 0;
    if (under_way_ == 0 || asleep_ == 0) return true;
  }
  wake_.Signal();  // without the lock, so that the woken thread can take it
  return true;
}

void EventLoop::RunBriefly(absl::FunctionRef<void()> work) {
  uint64_t number = 0;
  bool wake = false;
  {
    MutexLock lock(&mutex_);
    if (leader_ == std::this_thread::get_id()) {
      number = brief_ = ++last_brief_;
      wake = relief_asleep_;
      if (!looked_after_) {
        looked_after_ = AddThread([this] { LookAfterBriefWork(); });
      }
    }
  }
  if (wake) relief_.Signal();
  work();
  if (number == 0) return;
  MutexLock lock(&mutex_);
  if (brief_ == number) brief_ = 0;
}

// The relief thread. It checks every millisecond as long as there is brief work, and for some ticks
// longer; then it sleeps until RunBriefly() wakes it. If the same work runs at two ticks, it takes the
// leadership away from the thread that runs it, so that another thread polls.
void EventLoop::LookAfterBriefWork() {
  constexpr absl::Duration kTick = absl::Milliseconds(1);
  constexpr int kQuietTicks = 20;
  uint64_t ran = 0, last = 0;  // the work that was running a tick ago, and the last work that had begun
  int quiet = 0;
  MutexLock lock(&mutex_);
  while (!closed_) {
    quiet = brief_ == 0 && last_brief_ == last ? quiet + 1 : 0;
    if (quiet > kQuietTicks) {
      relief_asleep_ = true;
      relief_.Wait(&mutex_);
      relief_asleep_ = false;
      quiet = 0;
    }
    ran = brief_;
    last = last_brief_;
    relief_.WaitWithTimeout(&mutex_, kTick);
    if (ran == 0 || brief_ != ran) continue;
    leader_ = {};
    brief_ = 0;
    if (under_way_ > 0) WakeOne();
  }
}

void EventLoop::WakeOne() {
  if (asleep_ > 0) return wake_.Signal();
  starved_ = !AddThread();
  if (starved_) LOG(ERROR) << name_ << ": cannot create a thread that polls for events; retrying with the next call";
}

void EventLoop::Begin() {
  MutexLock lock(&mutex_);
  ++under_way_;
  if ((under_way_ == 1 || starved_) && leader_ == std::thread::id()) WakeOne();
}

void EventLoop::End() {
  MutexLock lock(&mutex_);
  --under_way_;
}

// Threads beyond kMaxAsleep sleepers exit instead of sleeping.
bool EventLoop::Lead() {
  MutexLock lock(&mutex_);
  if (leader_ == std::this_thread::get_id()) leader_ = {};
  while ((leader_ != std::thread::id() || under_way_ == 0) && !closed_) {
    if (asleep_ >= kMaxAsleep) return false;
    ++asleep_;
    wake_.Wait(&mutex_);
    --asleep_;
  }
  if (!closed_) leader_ = std::this_thread::get_id();
  return !closed_;
}

bool EventLoop::Leads() {
  MutexLock lock(&mutex_);
  return leader_ == std::this_thread::get_id() && under_way_ > 0;
}

void EventLoop::Run() {
  while (Lead()) {
    do {
      void* tag = nullptr;
      bool ok = false;
      if (!queue_->Next(&tag, &ok)) {
        MutexLock lock(&mutex_);
        closed_ = true;
        wake_.SignalAll();
        relief_.SignalAll();
        break;
      }
      auto* const event = static_cast<RpcEvent*>(tag);
      event->Acquire();
      LogExceptions(name_.c_str(), [&] { event->Run(ok, *this); });
    } while (Leads());
  }
}

}  // namespace thalweg
