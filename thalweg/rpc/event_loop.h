// SPDX-License-Identifier: Apache-2.0
// Threads that poll a gRPC completion queue and run its events on the polling thread.
//
// One thread, the leader, polls; the others sleep. An event whose work may take long (a
// whole step) or block first makes another thread the leader. Calls that finish immediately
// run on the polling thread. Methods whose recent calls were short do too; if such a call
// takes long after all, a relief thread notices and makes another thread poll.
//
// No thread polls a queue without pending operations: gRPC would let it find the events of
// other queues, only to wake the threads that wait for them.
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

// The tag of an operation on a completion queue.
//
// gRPC orders memory between the thread that starts an operation and the thread that gets
// its event. The thread sanitizer does not see gRPC's locks, so Publish(), before an event
// is passed to gRPC, and Acquire() express that order.
class RpcEvent {
 public:
  virtual ~RpcEvent() = default;
  RpcEvent* Publish() {
    published_.store(true, std::memory_order_release);
    return this;
  }
  void Acquire() const { (void)published_.load(std::memory_order_acquire); }
  // `ok` comes from gRPC: false if the operation did not take place. Implementations call
  // loop.PassOn() before work that may take long, or run the work with loop.RunBriefly().
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

  // Call Begin() when an operation is started on the queue, End() when its event arrives.
  void Begin();
  void End();
  // Called by an event: makes another thread poll from now on. Has no effect the second
  // time. Returns false if the system has no more threads: this thread remains the one that
  // polls, and must return soon.
  bool PassOn();
  // Called by an event: runs work that is probably short. Another thread starts to poll
  // only if it takes more than a millisecond or two.
  void RunBriefly(absl::FunctionRef<void()> work);

 private:
  // False if the system has no more threads, or there are kMaxThreads.
  bool AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AddThread(absl::AnyInvocable<void()> run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes this thread the leader. Returns false if this thread should exit.
  bool Lead();
  bool Leads();
  void Run();
  void LookAfterBriefWork();

  // Threads beyond this number of sleepers exit. Sleeping threads cost less than creating
  // new ones.
  static constexpr int kMaxAsleep = 16;
  static constexpr int kMaxThreads = 4096;
  const std::string name_;
  grpc::CompletionQueue* const queue_;
  Mutex mutex_;
  CondVar wake_;
  CondVar ended_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread::id leader_ ABSL_GUARDED_BY(mutex_);  // polls, or runs an event without having called PassOn()
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool starved_ ABSL_GUARDED_BY(mutex_) = false;  // no thread could be created to poll
  int asleep_ ABSL_GUARDED_BY(mutex_) = 0;

  // RunBriefly() numbers its work.
  uint64_t last_brief_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t brief_ ABSL_GUARDED_BY(mutex_) = 0;         // the work that the leader runs, or 0
  bool looked_after_ ABSL_GUARDED_BY(mutex_) = false;  // a relief thread exists; it may be asleep
  bool relief_asleep_ ABSL_GUARDED_BY(mutex_) = false;
  CondVar relief_;
};

}  // namespace thalweg
