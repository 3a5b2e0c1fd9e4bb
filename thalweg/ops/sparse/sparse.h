// SPDX-License-Identifier: Apache-2.0
// Sparse tensors as inputs of ops: the indices of the elements that are present, their values,
// and the dense shape.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/ops/support/numbers.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct SparseValue {
  Tensor indices;  // int64 [count, rank]
  Tensor values;   // [count]
  Dims dims;       // each >= 0; their product may not fit into an int64

  enum Order {
    kUnchecked,  // indices are not checked
    kUnordered,  // indices are inside of dims
    kOrdered,    // indices are inside of dims, in row-major order and without duplicates
  };
  // Checks ranks and sizes, and the indices according to `order`: INVALID_ARGUMENT.
  static absl::StatusOr<SparseValue> Make(const Tensor& indices, const Tensor& values, const Tensor& shape,
                                          Order order);

  int64_t count() const { return values.num_elements(); }
  int rank() const { return static_cast<int>(dims.size()); }
  const int64_t* row(int64_t i) const { return indices.data<int64_t>() + i * rank(); }
};

// a + b of any number type; integers wrap around.
template <typename T>
T SumOf(T a, T b) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(a) + static_cast<float>(b));
  } else {
    return WrapAdd(a, b);
  }
}

// Sets outputs i, i + 1 and i + 2 of a kernel: the indices (rows of dims.size() numbers), the
// elements of `values` in the order `from`, and dims.
absl::Status SetSparseOutput(KernelContext& context, int i, absl::Span<const int64_t> places, const Tensor& values,
                             absl::Span<const int64_t> from, absl::Span<const int64_t> dims);

// Checks indices, rows of `rank` numbers. The messages are TensorFlow's.
absl::Status CheckSparseIndices(absl::Span<const int64_t> indices, absl::Span<const int64_t> dims,
                                SparseValue::Order order);

}  // namespace thalweg
