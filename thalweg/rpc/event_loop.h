// Threads that wait for gRPC's events and run what they are for, in place.
//
// One thread waits; the others sleep. What an event is for may take long (a whole
// step) or block: before that, it passes the waiting on to another thread. What is
// done at once costs no thread more. Nobody waits for a queue on which nothing is
// under way: gRPC would let such a thread find the events of other queues, only to
// wake the threads that wait for them.
#pragma once

#include <grpcpp/completion_queue.h>

#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

class EventLoop;

// What an operation on a completion queue is tagged with.
class RpcEvent {
 public:
  virtual ~RpcEvent() = default;
  // `ok` is gRPC's: false if the operation did not take place. Calls
  // loop.PassOn() before anything that may take long.
  virtual void Run(bool ok, EventLoop& loop) = 0;
};

// Thread-safe.
class EventLoop {
 public:
  // Borrows the queue; every tag that is put on it is an RpcEvent*.
  EventLoop(std::string name, grpc::CompletionQueue* queue);
  // Shuts the queue down, and waits until it is empty.
  ~EventLoop();

  // An operation is put on the queue; its event has come.
  void Begin();
  void End();
  // From an event: another thread waits from now on. Does nothing the second time.
  void PassOn();

 private:
  void AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Becomes the thread that waits; false if this thread is to end.
  bool Lead();
  bool Leads();
  void Run();

  // More than these end. Threads that come and go cost more than some that sleep.
  static constexpr int kMaxAsleep = 16;
  const std::string name_;
  grpc::CompletionQueue* const queue_;
  Mutex mutex_;
  CondVar wake_;
  CondVar ended_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread::id leader_ ABSL_GUARDED_BY(mutex_);  // who waits, or runs what it has not passed on
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;
  int asleep_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace thalweg
