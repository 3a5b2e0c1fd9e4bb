// Variable: a tensor that outlives steps. Reads are snapshots: they share the
// buffer, and a writer that finds a reader still holding it writes to a new
// one, so that no reader ever sees half an update.
#pragma once

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Thread-safe.
class Variable : public Resource {
 public:
  // `shape`: what it was declared with; values that are assigned should fit.
  Variable(std::string name, DType dtype, PartialShape shape = {})
      : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)) {}

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const PartialShape& shape() const { return shape_; }

  // The value now; no value (has_value() false) before the first assignment.
  Tensor Read() const {
    MutexLock lock(&mutex_);
    return value_;
  }
  bool initialized() const {
    MutexLock lock(&mutex_);
    return value_.has_value();
  }
  void Assign(Tensor value) {
    MutexLock lock(&mutex_);
    std::swap(value_, value);  // what was there dies after the lock
  }

  // For updates: `update`, absl::Status(Tensor& value), runs under the lock and
  // may write through value.mutable_data() after MakeWritable(value).
  template <typename F>
  absl::Status Update(F&& update) {
    MutexLock lock(&mutex_);
    return update(value_);
  }
  // For updates of several variables at once: take the locks in order of
  // address.
  Mutex& mutex() const ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  Tensor& value() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return value_; }

  std::string Describe() const override;

 private:
  const std::string name_;
  const DType dtype_;
  const PartialShape shape_;
  mutable Mutex mutex_;
  Tensor value_ ABSL_GUARDED_BY(mutex_);
};

// Gives `value` memory of its own, with the same contents, if anybody else sees
// it. An update that overwrites every element without reading should allocate
// instead. RESOURCE_EXHAUSTED if there is no memory for it; `value` is then as it
// was.
[[nodiscard]] absl::Status MakeWritable(Tensor& value, Allocator& allocator = HostAllocator());

}  // namespace thalweg
