// SPDX-License-Identifier: Apache-2.0
// Reads the small integer tensors that are arguments of array ops: sizes, axes, permutations. Does not
// allocate for shapes of rank four or less.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/graph/shape_context.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The elements of a tensor of any integer type.
Dims ReadIntegers(const Tensor& t);
// Element i of it.
int64_t ReadInteger(const Tensor& t, int64_t i = 0);
// The element of a scalar. INVALID_ARGUMENT, naming `what`, if it is not a scalar.
absl::StatusOr<int64_t> ReadScalar(const Tensor& t, absl::string_view what);

// A valid shape from a vector of sizes; INVALID_ARGUMENT otherwise.
absl::StatusOr<Shape> ReadShape(const Tensor& t, absl::string_view what);

// `axis`, counted from the end if negative. INVALID_ARGUMENT unless it is in
// [-rank, rank).
absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank);

// For shape functions.

// The value of input i if it is a constant, as integers.
std::optional<Dims> ConstantIntegers(const ShapeContext& c, int i);
// Dimensions that are known or not (-1).
int64_t AddDims(int64_t a, int64_t b);
int64_t MultiplyDims(int64_t a, int64_t b);
// Merges two dimensions that must be equal; either may be unknown. INVALID_ARGUMENT if they differ.
absl::StatusOr<int64_t> MergeDims(int64_t a, int64_t b);
// Dimension i; unknown if the rank is.
int64_t DimOf(const PartialShape& shape, int i);
// `a` and then `b`; unknown if either is.
PartialShape Concatenate(const PartialShape& a, const PartialShape& b);
// Dimensions [begin, end) of a shape; to the end if end < 0. REQUIRES: in range
// if the rank is known.
PartialShape SubShape(const PartialShape& shape, int begin, int end = -1);

}  // namespace thalweg
