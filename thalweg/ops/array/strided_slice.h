// SPDX-License-Identifier: Apache-2.0
// Shared by StridedSlice and its variants. They select NumPy's x[a:b:c, ..., None, d], encoded
// as vectors of begins, ends and strides and masks over their entries.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/tensor/shape.h"

namespace thalweg {

// The vectors. Begins, ends and strides may be unknown (nullptr), in shape
// functions; then only `count` is known of them.
struct SliceVectors {
  int count = 0;
  const Dims* begin = nullptr;
  const Dims* end = nullptr;
  const Dims* strides = nullptr;
};

// A resolved slice. For every dimension of the input: `size` elements starting at `begin`,
// `stride` apart, without masks or negative begins. Also the dimensions of the result, with
// new axes and without shrunk ones.
struct SliceBlock {
  Dims begin;
  Dims stride;
  Dims size;    // -1: unknown
  Dims output;  // -1: unknown

  // Where the elements of the block are in a tensor of shape `dims`.
  StridedPlace Place(absl::Span<const int64_t> dims) const;
};

// The attributes that all of these ops have.
template <typename Context>
absl::StatusOr<StridedSliceOptions> SliceMasks(const Context& c) {
  StridedSliceOptions masks;
  ASSIGN_OR_RETURN(masks.begin_mask, c.template Attr<int64_t>("begin_mask"));
  ASSIGN_OR_RETURN(masks.end_mask, c.template Attr<int64_t>("end_mask"));
  ASSIGN_OR_RETURN(masks.ellipsis_mask, c.template Attr<int64_t>("ellipsis_mask"));
  ASSIGN_OR_RETURN(masks.new_axis_mask, c.template Attr<int64_t>("new_axis_mask"));
  ASSIGN_OR_RETURN(masks.shrink_axis_mask, c.template Attr<int64_t>("shrink_axis_mask"));
  return masks;
}
std::vector<AttrArg> MaskAttrs(const StridedSliceOptions& masks);

// INVALID_ARGUMENT for an invalid slice: too many entries, two ellipses, a stride of zero, an
// index out of bounds.
absl::StatusOr<SliceBlock> ResolveSlice(absl::Span<const int64_t> dims, const SliceVectors& vectors,
                                        const StridedSliceOptions& masks);
// For kernels, from the tensors of the vectors.
absl::StatusOr<SliceBlock> ResolveSlice(absl::Span<const int64_t> dims, const Tensor& begin, const Tensor& end,
                                        const Tensor& strides, const StridedSliceOptions& masks);

// Broadcasts `value` to the shape of the block. INVALID_ARGUMENT if it does not fit.
absl::StatusOr<Tensor> ExpandSliceValue(KernelContext& c, const SliceBlock& block, const Tensor& value);

// StridedSlice's target: a slice of a variable, by reference or handle.
Output StridedSliceAssign(const Scope& s, Output ref, Output begin, Output end, Output strides, Output value,
                          const StridedSliceOptions& options = {});

}  // namespace thalweg
