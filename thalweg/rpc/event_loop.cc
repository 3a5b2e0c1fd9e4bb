#include "thalweg/rpc/event_loop.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <pthread.h>

#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "google/protobuf/stubs/logging.h"
#include "thalweg/base/logging.h"

namespace thalweg {

namespace {

// Both report to stderr what their callers learn from statuses; a client that
// sends nonsense would fill the log with it.
void LogQuietly(gpr_log_func_args* args) { VLOG(1) << "gRPC: " << args->message; }
void LogProtobufQuietly(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  VLOG(1) << "protobuf: " << message;
}

}  // namespace

EventLoop::EventLoop(std::string name, grpc::CompletionQueue* queue) : name_(std::move(name)), queue_(queue) {
  // gRPC would shut itself down with its last user, which can take 10 s: a
  // poller of its own has to come round. It stays until the process ends.
  static const bool initialized = [] {
    grpc_init();
    // Debian's abseil looks for cycles in the order of gRPC's locks; nobody here
    // waits for the answer, and each lock costs a search.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    gpr_set_log_function(LogQuietly);
    google::protobuf::SetLogHandler(LogProtobufQuietly);
    return true;
  }();
  (void)initialized;
}

EventLoop::~EventLoop() {
  queue_->Shutdown();
  Begin();  // the end of the queue
  MutexLock lock(&mutex_);
  while (threads_ > 0) ended_.Wait(&mutex_);
}

void EventLoop::AddThread() {
  ++threads_;
  std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    Run();
  }).detach();
}

void EventLoop::PassOn() {
  MutexLock lock(&mutex_);
  if (leader_ != std::this_thread::get_id()) return;
  leader_ = {};
  if (under_way_ > 0) WakeOne();
}

void EventLoop::WakeOne() {
  if (asleep_ == 0) return AddThread();
  wake_.Signal();
}

void EventLoop::Begin() {
  MutexLock lock(&mutex_);
  ++under_way_;
  if (under_way_ == 1 && leader_ == std::thread::id()) WakeOne();
}

void EventLoop::End() {
  MutexLock lock(&mutex_);
  --under_way_;
}

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
        break;
      }
      static_cast<RpcEvent*>(tag)->Run(ok, *this);
    } while (Leads());
  }
  MutexLock lock(&mutex_);
  if (--threads_ == 0) ended_.SignalAll();
}

}  // namespace thalweg
