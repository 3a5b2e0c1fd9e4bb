// Threads that wait for gRPC's events and run what they are for, in place.
//
// One thread waits; the others sleep. What an event is for may take long (a whole
// step) or block: before that, it passes the waiting on to another thread. What is
// done at once costs no thread more, nor does what is expected to be: if it takes
// long after all, a thread that looks after it now and then has another one wait.
// Nobody waits for a queue on which nothing is
// under way: gRPC would let such a thread find the events of other queues, only to
// wake the threads that wait for them.
#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

class EventLoop;

// What an operation on a completion queue is tagged with.
//
// gRPC sees to it that the thread which takes an event off a queue knows what was
// done before it was put there. The thread sanitizer does not see gRPC's locks:
// Publish(), before an event is handed to gRPC, and Acquire() tell it.
class RpcEvent {
 public:
  virtual ~RpcEvent() = default;
  RpcEvent* Publish() {
    published_.store(true, std::memory_order_release);
    return this;
  }
  void Acquire() const { (void)published_.load(std::memory_order_acquire); }
  // `ok` is gRPC's: false if the operation did not take place. Calls
  // loop.PassOn() before anything that may take long, or runs it with
  // loop.RunBriefly().
  virtual void Run(bool ok, EventLoop& loop) = 0;

 private:
  std::atomic<bool> published_{false};
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
  // False if the system has no more threads: this one stays the one that waits, and
  // must come back soon.
  bool PassOn();
  // From an event: runs what will most likely be over soon. Another thread waits
  // only once it has taken a millisecond or two.
  void RunBriefly(absl::FunctionRef<void()> work);

 private:
  // False if the system has no more threads, or there are kMaxThreads.
  bool AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AddThread(absl::AnyInvocable<void()> run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Becomes the thread that waits; false if this thread is to end.
  bool Lead();
  bool Leads();
  void Run();
  void LookAfterBriefWork();

  // More than these end. Threads that come and go cost more than some that sleep.
  static constexpr int kMaxAsleep = 16;
  static constexpr int kMaxThreads = 4096;
  const std::string name_;
  grpc::CompletionQueue* const queue_;
  Mutex mutex_;
  CondVar wake_;
  CondVar ended_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread::id leader_ ABSL_GUARDED_BY(mutex_);  // who waits, or runs what it has not passed on
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool starved_ ABSL_GUARDED_BY(mutex_) = false;  // there was no thread to wait for events
  int asleep_ ABSL_GUARDED_BY(mutex_) = 0;

  // Brief work is numbered.
  uint64_t last_brief_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t brief_ ABSL_GUARDED_BY(mutex_) = 0;         // what the leader runs, or 0
  bool looked_after_ ABSL_GUARDED_BY(mutex_) = false;  // by a thread, which may be asleep
  bool relief_asleep_ ABSL_GUARDED_BY(mutex_) = false;
  CondVar relief_;
};

}  // namespace thalweg
