// Threads that wait for gRPC's events and run what they are for, in place.
//
// What runs may take long (a whole step) or block; there is always another
// thread to wait for the next event meanwhile, started when it is needed.
#pragma once

#include <grpcpp/completion_queue.h>

#include <string>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// What an operation on a completion queue is tagged with.
class RpcEvent {
 public:
  virtual ~RpcEvent() = default;
  // `ok` is gRPC's: false if the operation did not take place.
  virtual void Run(bool ok) = 0;
};

// Thread-safe.
class EventLoop {
 public:
  // Borrows the queue; every tag that is put on it is an RpcEvent*.
  EventLoop(std::string name, grpc::CompletionQueue* queue);
  ~EventLoop();  // waits until the queue, which must have been shut down, is empty

 private:
  void AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool RunOne();
  void Run();

  // More than these end. Threads that come and go cost more than some that wait.
  static constexpr int kMaxIdle = 16;
  const std::string name_;
  grpc::CompletionQueue* const queue_;
  Mutex mutex_;
  CondVar changed_;
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that wait for an event
};

}  // namespace thalweg
