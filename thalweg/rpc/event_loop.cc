#include "thalweg/rpc/event_loop.h"

#include <pthread.h>

#include <string>
#include <thread>
#include <utility>

namespace thalweg {

EventLoop::EventLoop(std::string name, grpc::CompletionQueue* queue) : name_(std::move(name)), queue_(queue) {
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
