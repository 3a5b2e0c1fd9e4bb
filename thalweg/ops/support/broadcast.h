// SPDX-License-Identifier: Apache-2.0
// Broadcasting by NumPy's rules: dimensions of size 1, and missing ones in
// front, are repeated.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "thalweg/graph/scope.h"
#include "thalweg/tensor/shape.h"

namespace thalweg {

// How two operands are broadcast. Adjacent dimensions that are repeated in the same way are merged, and
// dimensions of size 1 are dropped. Innermost first, at least one dimension.
struct Broadcast {
  // INVALID_ARGUMENT ("Incompatible shapes: [2] vs. [3]").
  static absl::StatusOr<Broadcast> Make(const Shape& x, const Shape& y);

  Shape shape;  // shape of the result
  Dims sizes;
  Dims x_strides, y_strides;  // in elements; 0 where the operand is repeated

  // The size and strides of dimension d; a missing dimension has size 1.
  int64_t size(size_t d) const { return d < sizes.size() ? sizes[d] : 1; }
  int64_t x_stride(size_t d) const { return d < sizes.size() ? x_strides[d] : 0; }
  int64_t y_stride(size_t d) const { return d < sizes.size() ? y_strides[d] : 0; }
};

// For gradients of ops that broadcast x and y: sums dx and dy, which have the shape of the result, over
// the repeated dimensions.
std::pair<Output, Output> SumBroadcast(const Scope& s, Output x, Output y, Output dx, Output dy);

// A scalar of type `dtype`, which is a number type.
Output ScalarConst(const Scope& s, DType dtype, double value);
// A vector of int32.
Output IntsConst(const Scope& s, absl::Span<const int32_t> values);

}  // namespace thalweg
