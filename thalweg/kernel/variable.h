// SPDX-License-Identifier: Apache-2.0
// Variable: a tensor that outlives steps.
//
// A read of the whole value is a snapshot: no update changes it. Most reads share
// the value's buffer, and an update that finds a reader still holding the buffer
// writes to a new one.
//
// For a large table of which steps use a few rows, such a copy would cost more
// than the step. Reads of rows therefore run under the lock (Inspect) and hold
// nothing afterwards, and updates of rows (UpdateRows) write in place. Snapshots
// of a table whose rows are being updated come from VariableRows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

class VariableRows;

// Thread-safe.
class Variable : public Resource {
 public:
  // `shape`: what it was declared with; values that are assigned should fit.
  Variable(std::string name, DType dtype, PartialShape shape = {});
  ~Variable() override;

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const PartialShape& shape() const { return shape_; }

  // The value now; no value (has_value() false) before the first assignment.
  Tensor Read() const;
  bool initialized() const {
    MutexLock lock(&mutex_);
    return value_.has_value();
  }
  void Assign(Tensor value);

  // Runs `read`, absl::Status(const Tensor& value), under the lock: for reads of a
  // few rows or of the shape. `read` must not keep the tensor or its buffer.
  template <typename F>
  absl::Status Inspect(F&& read) const {
    MutexLock lock(&mutex_);
    return read(static_cast<const Tensor&>(value_));
  }

  // For updates: `update`, absl::Status(Tensor& value), runs under the lock and
  // may write through value.mutable_data() after MakeWritable(value).
  template <typename F>
  absl::Status Update(F&& update) {
    MutexLock lock(&mutex_);
    return update(mutable_value());
  }
  // For updates of rows: the same, but `update` may only write to rows for which
  // it called MakeRowsWritable().
  template <typename F>
  absl::Status UpdateRows(F&& update) {
    MutexLock lock(&mutex_);
    return update(value_);
  }
  // Prepares rows of the value, each of `row_bytes`, for being written in place.
  // The value may get new memory. RESOURCE_EXHAUSTED if there is none for it.
  // REQUIRES: the lock is held; all rows are in the value.
  [[nodiscard]] absl::Status MakeRowsWritable(absl::Span<const int64_t> rows, size_t row_bytes);

  // For updates of several variables at once: take the locks in order of
  // address.
  Mutex& mutex() const ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  // For checks, and for updates of rows.
  Tensor& value() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return value_; }
  // For all other updates.
  Tensor& mutable_value() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++version_;
    row_updates_ = 0;
    return value_;
  }

  std::string Describe() const override;

 private:
  struct Move;

  // The rows that are the value's memory now, or nullptr.
  std::shared_ptr<VariableRows> CurrentRows() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Tensor Snapshot(const std::shared_ptr<VariableRows>& rows) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if the value is a table that row updates change again and again.
  bool ShouldMove() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the value memory that allows cheap snapshots. Others read and update the
  // variable meanwhile. Does nothing if such memory cannot be had.
  void MoveToRows() const;
  bool MovePiece(Move& move) const;
  bool MoveChanged(Move& move, Tensor* old) const;

  const std::string name_;
  const DType dtype_;
  const PartialShape shape_;
  mutable Mutex mutex_;
  mutable Tensor value_ ABSL_GUARDED_BY(mutex_);
  mutable std::weak_ptr<VariableRows> rows_ ABSL_GUARDED_BY(mutex_);  // owned by the buffer of a value
  mutable uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;  // counts changes of the whole value or of its memory
  int row_updates_ ABSL_GUARDED_BY(mutex_) = 0;           // since the last change of the whole value
  mutable Move* move_ ABSL_GUARDED_BY(mutex_) = nullptr;  // while MoveToRows() runs
};

// Gives `value` memory of its own, with the same contents, if anybody else sees
// it. An update that overwrites every element without reading should allocate
// instead. RESOURCE_EXHAUSTED if there is no memory for it; `value` is then as it
// was.
[[nodiscard]] absl::Status MakeWritable(Tensor& value, Allocator& allocator = HostAllocator());

}  // namespace thalweg
