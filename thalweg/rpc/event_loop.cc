#include "thalweg/rpc/event_loop.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <pthread.h>

#include <string>
#include <thread>
#include <utility>

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
    gpr_set_log_function(LogQuietly);
    google::protobuf::SetLogHandler(LogProtobufQuietly);
    return true;
  }();
  (void)initialized;
  MutexLock lock(&mutex_);
  AddThread();
}

EventLoop::~EventLoop() {
  MutexLock lock(&mutex_);
  while (threads_ > 0) changed_.Wait(&mutex_);
}

void EventLoop::AddThread() {
  ++threads_;
  ++idle_;
  std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    Run();
  }).detach();
}

// One event: false if this thread is to end.
bool EventLoop::RunOne() {
  void* tag = nullptr;
  bool ok = false;
  const bool open = queue_->Next(&tag, &ok);
  {
    MutexLock lock(&mutex_);
    --idle_;
    if (!open) return false;
    if (idle_ == 0) AddThread();  // somebody must wait while this one works
  }
  static_cast<RpcEvent*>(tag)->Run(ok);
  MutexLock lock(&mutex_);
  if (idle_ >= kMaxIdle) return false;
  ++idle_;
  return true;
}

void EventLoop::Run() {
  while (RunOne()) {
  }
  MutexLock lock(&mutex_);
  if (--threads_ == 0) changed_.SignalAll();
}

}  // namespace thalweg
