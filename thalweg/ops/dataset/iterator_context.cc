// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/dataset/iterator_context.h"

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/kernel/script_functions.h"
#include "thalweg/ops/dataset/dataset_function.h"

namespace thalweg {

SerialThread::~SerialThread() {
  std::unique_ptr<ThreadPool> thread;
  {
    MutexLock lock(&mutex_);
    thread = std::move(thread_);
  }
  if (thread == nullptr || id_.load() != std::this_thread::get_id()) return;
  pool_->Schedule([thread = std::move(thread)] {});
}

void SerialThread::Schedule(absl::AnyInvocable<void()> closure) {
  MutexLock lock(&mutex_);
  if (thread_ == nullptr) {
    thread_ = std::make_unique<ThreadPool>("iterator", 1);
    thread_->Schedule([this] { id_.store(std::this_thread::get_id()); });
  }
  thread_->Schedule(std::move(closure));
}

absl::StatusOr<std::shared_ptr<CompiledFunction>> IteratorContext::Compile(
    const std::shared_ptr<const CarriedFunction>& function) {
  {
    MutexLock lock(&mutex_);
    if (const auto it = functions_.find(function); it != functions_.end()) return it->second;
  }
  ASSIGN_OR_RETURN(Graph body, function->Body());
  ASSIGN_OR_RETURN(std::shared_ptr<CompiledFunction> compiled, CompileFunction(std::move(body), device_));
  if (compiled->has_waits() || function->has_datasets()) set_may_wait();
  MutexLock lock(&mutex_);
  return functions_.emplace(function, std::move(compiled)).first->second;
}

absl::StatusOr<std::vector<Tensor>> IteratorContext::Call(CompiledFunction& function, absl::Span<const Tensor> args,
                                                          Cancellation& cancellation,
                                                          std::shared_ptr<ScriptReadAhead> ahead) {
  ResourceManager resources;
  Step step{.id = calls_.fetch_add(1, std::memory_order_relaxed),
            .cancellation = &cancellation,
            .pool = pool_,
            .resources = &resources};
  if (ahead != nullptr) {
    RETURN_IF_ERROR(resources.Create<ScriptReadAhead>(ScriptFunctions::kContainer, ScriptReadAhead::kName, ahead));
  }
  if (!function.has_waits()) return function.Call(step, args);
  // A step whose nodes wait is cancelled by its first error. This one must not
  // cancel the step that wants the element.
  Cancellation own;
  const auto id = cancellation.Register([&own](const absl::Status& why) { own.Cancel(why); });
  if (!id) return cancellation.status();
  step.cancellation = &own;
  absl::StatusOr<std::vector<Tensor>> results = function.Call(step, args);
  cancellation.Deregister(*id);
  return results;
}

ThreadPool& IteratorContext::helpers() {
  MutexLock lock(&mutex_);
  if (helpers_ == nullptr) helpers_ = std::make_unique<ThreadPool>("dataset", AvailableCores());
  return *helpers_;
}

}  // namespace thalweg
