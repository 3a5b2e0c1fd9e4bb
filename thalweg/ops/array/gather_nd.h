// Slices that index vectors name: what GatherNd, ScatterNd and their forms on
// variables share.
#pragma once

#include "absl/status/status.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Output 0 becomes the slices of `params` that the vectors in the last dimension
// of `indices` name.
absl::Status GatherSlices(KernelContext& c, const Tensor& params, const Tensor& indices);

enum class ScatterKind { kUpdate, kAdd, kSub, kMax, kMin };

// Whether slices of `updates` fit those that `indices` name in a tensor of
// `shape`, and whether there are such.
absl::Status CheckScatterNd(const Tensor& indices, const Tensor& updates, const Shape& shape);
absl::Status CheckScatterIndices(const Tensor& indices, const Shape& shape);

// Applies all updates to `out`, in order. REQUIRES: both checks.
absl::Status ScatterSlices(ScatterKind scatter, const Tensor& indices, const Tensor& updates, Tensor* out);

}  // namespace thalweg
