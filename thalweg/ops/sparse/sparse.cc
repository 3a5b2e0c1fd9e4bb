// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/sparse/sparse.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {

absl::Status CheckSparseIndices(absl::Span<const int64_t> indices, absl::Span<const int64_t> dims,
                                SparseValue::Order order) {
  if (order == SparseValue::kUnchecked || dims.empty()) return absl::OkStatus();
  const size_t rank = dims.size();
  for (size_t i = 0; i * rank < indices.size(); ++i) {
    const absl::Span<const int64_t> place = indices.subspan(i * rank, rank);
    const auto name = [&] { return absl::StrCat("indices[", i, "] = [", absl::StrJoin(place, ","), "]"); };
    for (size_t d = 0; d < rank; ++d) {
      if (place[d] < 0 || place[d] >= dims[d]) {
        return InvalidArgument(name(), " is out of bounds: need 0 <= index < [", absl::StrJoin(dims, ","), "]");
      }
    }
    if (order != SparseValue::kOrdered || i == 0) continue;
    const absl::Span<const int64_t> before = indices.subspan((i - 1) * rank, rank);
    if (before == place) return InvalidArgument(name(), " is repeated");
    if (!std::lexicographical_compare(before.begin(), before.end(), place.begin(), place.end())) {
      return InvalidArgument(
          name(),
          " is out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` to "
          "create a correctly ordered copy.\n\n");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SparseValue> SparseValue::Make(const Tensor& indices, const Tensor& values, const Tensor& shape,
                                              Order order) {
  if (indices.rank() != 2) {
    return InvalidArgument("Input indices should be a matrix but received shape ", indices.shape());
  }
  if (values.rank() != 1) return InvalidArgument("Input values should be a vector but received shape ", values.shape());
  if (shape.rank() != 1) return InvalidArgument("Input shape should be a vector but received shape ", shape.shape());
  if (indices.dim(0) != values.dim(0)) {
    return InvalidArgument("Number of elements in indices (", indices.dim(0), ") and values (", values.dim(0),
                           ") do not match");
  }
  if (indices.dim(1) != shape.dim(0)) {
    return InvalidArgument("Index rank (", indices.dim(1), ") and shape rank (", shape.dim(0), ") do not match.");
  }
  SparseValue sparse{indices, values, Dims(shape.data<int64_t>(), shape.data<int64_t>() + shape.num_elements())};
  for (const int64_t dim : sparse.dims) {
    if (dim < 0) return InvalidArgument("Dimension ", dim, " must be >= 0");
  }
  RETURN_IF_ERROR(CheckSparseIndices(indices.flat<int64_t>(), sparse.dims, order));
  return sparse;
}

absl::Status SetSparseOutput(KernelContext& context, int i, absl::Span<const int64_t> places, const Tensor& values,
                             absl::Span<const int64_t> from, absl::Span<const int64_t> dims) {
  const int64_t count = static_cast<int64_t>(from.size()), rank = static_cast<int64_t>(dims.size());
  ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(i, Shape({count, rank})));
  ASSIGN_OR_RETURN(Tensor * elements, context.Allocate(i + 1, Shape({count})));
  std::copy(places.begin(), places.end(), indices->mutable_data<int64_t>());
  if (i + 2 < context.num_outputs()) {
    ASSIGN_OR_RETURN(Tensor * shape, context.Allocate(i + 2, Shape({rank})));
    std::copy(dims.begin(), dims.end(), shape->mutable_data<int64_t>());
  }
  return DispatchBySize(values.dtype(), [&]<typename T>() {
    const T* const x = ElementData<T>(values);
    T* const y = MutableElementData<T>(elements);
    for (int64_t k = 0; k < count; ++k) y[k] = x[from[k]];
    return absl::OkStatus();
  });
}

}  // namespace thalweg
