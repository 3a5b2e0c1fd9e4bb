// SPDX-License-Identifier: Apache-2.0
// Shared by the ops of staging areas. Staging areas have no handle: ops find them by shared name or,
// without one, by node name.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/queue.h"
#include "thalweg/ops/support/wait_list.h"

namespace thalweg {

struct StagingLimits {
  int64_t capacity = 0;      // elements; 0: no limit
  int64_t memory_limit = 0;  // bytes; 0: no limit
};

// RESOURCE_EXHAUSTED for a tuple that can never fit.
inline absl::Status CheckFits(const StagingLimits& limits, int64_t bytes) {
  if (limits.memory_limit == 0 || bytes <= limits.memory_limit) return absl::OkStatus();
  return ResourceExhausted("Attempted to insert tensors with combined size of '", bytes,
                           "' bytes into Staging Area with a memory limit of '", limits.memory_limit, "'.");
}

inline int64_t BytesOf(const Tuple& tuple) {
  int64_t bytes = 0;
  for (const Tensor& t : tuple) bytes += t.has_value() ? t.TotalBytes() : 0;
  return bytes;
}

// INVALID_ARGUMENT unless tuple[i] has type types[i].
inline absl::Status CheckTypes(const Tuple& tuple, const std::vector<DType>& types) {
  if (tuple.size() != types.size()) {
    return InvalidArgument("Mismatch stage/unstage: ", tuple.size(), " vs. ", types.size());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (tuple[i].has_value() && tuple[i].dtype() != types[i]) {
      return InvalidArgument("Mismatch stage/unstage: component ", i, " is of ", tuple[i].dtype(), ", expected ",
                             types[i]);
    }
  }
  return absl::OkStatus();
}

// Base class of both kinds of staging areas: calls that wait for room or for elements. Thread-safe.
class StagingBase : public Resource, public std::enable_shared_from_this<StagingBase> {
 public:
  using Done = AsyncKernel::Done;

 protected:
  // With `puts_in_order`, each put waits for the puts before it.
  StagingBase(const StagingLimits& limits, bool puts_in_order) : limits_(limits), puts_(puts_in_order) {}

  // Start a put or a get, which completes when `attempt`, called under the lock, returns true.
  void StartPut(const WaitingCaller& caller, WaitList::Try attempt, WaitList::EndFn end) {
    Start(puts_, "Stage", caller, std::move(attempt), std::move(end));
  }
  void StartGet(const WaitingCaller& caller, WaitList::Try attempt, WaitList::EndFn end) {
    Start(gets_, "Unstage", caller, std::move(attempt), std::move(end));
  }
  // Empties the area with `empty`, which is called under the lock.
  void ClearWith(absl::FunctionRef<void()> empty) {
    WaitList::Ended ended;
    {
      MutexLock lock(&mutex_);
      empty();
      bytes_ = 0;
      Flush(&ended);
    }
    WaitList::End(std::move(ended));
  }
  bool HasRoomFor(int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return limits_.memory_limit == 0 || bytes_ + bytes <= limits_.memory_limit;
  }
  bool IsFull(size_t elements) const {
    return limits_.capacity > 0 && static_cast<int64_t>(elements) >= limits_.capacity;
  }

  const StagingLimits limits_;
  mutable Mutex mutex_;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;

 private:
  void Start(WaitList& list, absl::string_view what, const WaitingCaller& caller, WaitList::Try attempt,
             WaitList::EndFn end) {
    list.Start(shared_from_this(), &mutex_, what, caller, std::move(attempt), std::move(end),
               [this](WaitList::Ended* ended) { Flush(ended); });
  }
  // Tries both lists, because a put may unblock a get and vice versa.
  void Flush(WaitList::Ended* ended) {
    bool changed = true;
    while (changed) {
      changed = puts_.Flush(ended);
      changed = gets_.Flush(ended) || changed;
    }
  }

  WaitList puts_, gets_{/*in_order=*/false};  // guarded by mutex_
};

// Sets the output of the ops that return the number of elements.
inline void SetSize(KernelContext& c, int64_t size, AsyncKernel::Done done) {
  absl::StatusOr<Tensor*> out = c.Allocate(0, Shape());
  if (!out.ok()) return done(out.status());
  *(*out)->mutable_data<int32_t>() = static_cast<int32_t>(size);
  done(absl::OkStatus());
}

// An op on an area of type Area. The first op creates the area from the limits and the types of
// attribute "dtypes". `access` must call `done`.
template <typename Area>
class StagingKernel final : public AsyncKernel {
 public:
  using Access = void (*)(KernelContext& c, const std::shared_ptr<Area>& area, Done done);
  explicit StagingKernel(Access access) : access_(access) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(limits_.capacity, init.Attr<int64_t>("capacity"));
    ASSIGN_OR_RETURN(limits_.memory_limit, init.Attr<int64_t>("memory_limit"));
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("dtypes"));
    ASSIGN_OR_RETURN(container_, init.Attr<std::string>("container"));
    ASSIGN_OR_RETURN(name_, init.Attr<std::string>("shared_name"));
    if (name_.empty()) name_ = init.node().name();
    return absl::OkStatus();
  }

  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Area>> area = c.device().resources().template FindOrCreate<Area>(
        container_, name_,
        [this]() -> absl::StatusOr<std::shared_ptr<Area>> { return std::make_shared<Area>(limits_, types_); });
    if (!area.ok()) return done(area.status());
    access_(c, *area, std::move(done));
  }

 private:
  const Access access_;
  StagingLimits limits_;
  std::vector<DType> types_;
  std::string container_, name_;
};

inline WaitingCaller WaiterOf(KernelContext& c) {
  return {.cancellation = c.step().cancellation, .pool = c.step().pool};
}

// An op with the attributes that all staging ops share.
inline Op StagingOp(absl::string_view name) {
  Op op(name);
  op.Stateful().NotDifferentiable();
  return op;
}
inline Op& StagingAttrs(Op& op, absl::string_view types) {
  return op.Attr("capacity: int >= 0 = 0").Attr("memory_limit: int >= 0 = 0").Attr(types);
}
inline Op& StagingNames(Op& op) { return op.Attr("container: string = ''").Attr("shared_name: string = ''"); }

}  // namespace thalweg
