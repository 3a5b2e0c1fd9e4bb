// SPDX-License-Identifier: Apache-2.0
// A TensorArray: tensors by index, written once, which live as long as the step. Its gradient is
// another TensorArray, in which writes to the same index add up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/kernel/variable.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct TensorArrayConfig {
  std::string name;
  DType dtype = kInvalid;
  PartialShape element_shape;
  bool identical_shapes = false;  // the first write determines the shape of all elements
  bool dynamic_size = false;      // writes may extend it
  bool clear_after_read = true;
  bool is_gradient = false;
};

// Thread-safe.
class TensorArray final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow11TensorArrayE";
  // The maximum number of elements, so that a wrong index cannot exhaust memory.
  static constexpr int64_t kMaxSize = 1 << 26;

  // RESOURCE_EXHAUSTED if the size is too large. REQUIRES: size >= 0.
  static absl::StatusOr<std::shared_ptr<TensorArray>> Make(TensorArrayConfig options, int64_t size);
  // Creates the array of its gradients: of the same size, zero where this one was written. `prefix`
  // is prepended to the element shapes. This array can no longer grow.
  absl::StatusOr<std::shared_ptr<TensorArray>> MakeGradient(std::string name, const Shape& prefix);

  const std::string& name() const { return options_.name; }
  DType dtype() const { return options_.dtype; }

  absl::Status Write(absl::Span<const int32_t> indices, std::vector<Tensor> values);
  absl::StatusOr<std::vector<Tensor>> Read(absl::Span<const int32_t> indices);

  absl::StatusOr<int64_t> Size() const;
  // The number of elements that Pack and Concat read: all or, for a gradient array, as many as
  // Unpack or Split wrote to the forward array.
  absl::StatusOr<int64_t> PackSize() const;
  void MarkSize(int64_t size);
  bool has_dynamic_size() const;
  // Refines the known element shape. INVALID_ARGUMENT if they contradict.
  absl::Status MergeElementShape(const PartialShape& shape);
  void Close();

  std::string Describe() const override;

  Variable strings;  // its handle as strings, for ref edges

 private:
  struct Element {
    Tensor value;  // if unset although written: zeros
    Shape shape;
    bool written = false;
    bool read = false;
    bool cleared = false;
    bool own = false;  // the memory is not shared, so sums can be computed in place
  };

  explicit TensorArray(TensorArrayConfig options);
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteOne(int64_t index, Tensor value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Tensor> ReadOne(int64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AssumeZeros(int64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TensorArrayConfig options_;
  mutable Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool dynamic_size_ ABSL_GUARDED_BY(mutex_);
  bool summed_ ABSL_GUARDED_BY(mutex_) = false;  // an element was written several times: no gradient possible
  int64_t marked_size_ ABSL_GUARDED_BY(mutex_) = -1;
  PartialShape element_shape_ ABSL_GUARDED_BY(mutex_);
  std::vector<Element> elements_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
