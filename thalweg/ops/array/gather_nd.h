// SPDX-License-Identifier: Apache-2.0
// Slices that index vectors name: what GatherNd, ScatterNd and their forms on
// variables share.
#pragma once

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Output 0 becomes the slices of `params` that the vectors in the last dimension
// of `indices` name.
absl::Status GatherSlices(KernelContext& c, const Tensor& params, const Tensor& indices);

enum class ScatterKind { kUpdate, kAdd, kSub, kMax, kMin };

// Whether slices of `updates` fit those that `indices` name in a tensor of
// `shape`.
absl::Status CheckScatterNd(const Tensor& indices, const Tensor& updates, const Shape& shape);
// For each index vector, the number of the slice that it names in a tensor of
// `shape`, among slices of the same size. INVALID_ARGUMENT if there is no such slice.
using SliceNumbers = absl::InlinedVector<int64_t, 32>;
absl::StatusOr<SliceNumbers> FindScatterSlices(const Tensor& indices, const Shape& shape);

// Applies all updates to `out`, in order. REQUIRES: CheckScatterNd and FindScatterSlices succeed.
absl::Status ScatterSlices(ScatterKind scatter, const Tensor& indices, const Tensor& updates, Tensor* out);

}  // namespace thalweg
