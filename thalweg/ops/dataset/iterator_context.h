// SPDX-License-Identifier: Apache-2.0
// Shared by all stages of one iterator: a device, compiled functions and threads.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/function_compiler.h"

namespace thalweg {

class CarriedFunction;
struct ScriptReadAhead;

// Runs closures one after the other on a thread of its own, which starts with the first closure. The destructor
// waits for them, unless a closure itself runs it: then `pool`, which must outlive this object, waits.
// Thread-safe.
class SerialThread {
 public:
  explicit SerialThread(ThreadPool* pool) : pool_(pool) {}
  ~SerialThread();
  void Schedule(absl::AnyInvocable<void()> closure);

 private:
  ThreadPool* const pool_;
  Mutex mutex_;
  std::unique_ptr<ThreadPool> thread_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::thread::id> id_{};
};

// Lives as long as the iterator, or until the iterator is initialized again. Thread-safe.
class IteratorContext {
 public:
  // For an iterator among the resources of `device`, which outlives them. `pool` (borrowed) is the step's pool,
  // which lives as long as the device.
  IteratorContext(Device& device, ThreadPool* pool) : device_(device), pool_(pool) {}

  Device& device() { return device_; }
  ThreadPool* pool() { return pool_; }

  // Compiles a function once, even if several stages call it, so that its random ops continue their sequences
  // across calls.
  absl::StatusOr<std::shared_ptr<CompiledFunction>> Compile(const std::shared_ptr<const CarriedFunction>& function);
  absl::StatusOr<std::vector<Tensor>> Call(CompiledFunction& function, absl::Span<const Tensor> args,
                                           Cancellation& cancellation,
                                           std::shared_ptr<ScriptReadAhead> ahead = nullptr);

  // A pool with one thread per core that helps to produce elements. A closure may wait only for work that another
  // thread has started.
  ThreadPool& helpers();

  // Whether producing an element may wait, for a thread or for a node of a function. If so, the thread that runs the
  // step must not produce it.
  bool may_wait() const { return may_wait_.load(std::memory_order_relaxed); }
  void set_may_wait() { may_wait_.store(true, std::memory_order_relaxed); }

 private:
  Device& device_;
  ThreadPool* const pool_;
  std::atomic<bool> may_wait_{false};
  std::atomic<int64_t> calls_{0};
  Mutex mutex_;
  absl::flat_hash_map<std::shared_ptr<const CarriedFunction>, std::shared_ptr<CompiledFunction>> functions_
      ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ThreadPool> helpers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
