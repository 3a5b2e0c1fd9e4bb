// SPDX-License-Identifier: Apache-2.0
// Reduces rows into rows; shared by the segment ops. Element types are dispatched once per call, to a
// function that combines two rows.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

enum class SegmentReduction { kSum, kProd, kMax, kMin };

// to[i] = combine(to[i], from[i]) for n elements.
using CombineRow = void (*)(const void* from, void* to, int64_t n);

// UNIMPLEMENTED if the type is not supported.
absl::StatusOr<CombineRow> FindCombineRow(SegmentReduction reduction, DType dtype);

// to[i] = to[i] / divisor for n elements; integers are rounded towards zero.
using DivideRow = void (*)(void* to, double divisor, int64_t n);
absl::StatusOr<DivideRow> FindDivideRow(DType dtype);

// to[i] += scale * from[i] for n elements, of floating types.
using AddScaledRow = void (*)(const void* from, double scale, void* to, int64_t n);
absl::StatusOr<AddScaledRow> FindAddScaledRow(DType dtype);

// Sets all elements to the identity of the reduction: 0, 1, or the lowest or highest number of the type.
absl::Status FillWithIdentity(SegmentReduction reduction, Tensor* t);

}  // namespace thalweg
