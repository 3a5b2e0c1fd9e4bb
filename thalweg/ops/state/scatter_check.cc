// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/state/scatter_check.h"

#include <string>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// "[0,1]": where element i of a tensor of that shape is.
std::string Position(const Shape& shape, int64_t i) {
  std::string text;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    text = absl::StrCat(i % shape.dim(d), text.empty() ? "" : ",", text);
    i /= shape.dim(d);
  }
  return absl::StrCat("[", text, "]");
}

template <typename Index>
absl::StatusOr<Tensor> Checked(KernelContext& context, const Tensor& indices, int64_t rows) {
  const int64_t n = indices.num_elements();
  const Index* const in = indices.data<Index>();
  for (int64_t i = 0; i < n; ++i) {
    if (in[i] < 0 || in[i] >= rows) {
      return InvalidArgument("indices", indices.shape().is_scalar() ? "" : Position(indices.shape(), i), " = ",
                             static_cast<int64_t>(in[i]), " is not in [0, ", rows, ")");
    }
  }
  if constexpr (std::is_same_v<Index, int64_t>) {
    return indices.WithShape(Shape({n}));
  } else {
    ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kInt64, Shape({n})));
    std::copy(in, in + n, wide.mutable_data<int64_t>());
    return wide;
  }
}

}  // namespace

absl::Status CheckScatter(const Tensor& params, const Tensor& indices, const Tensor& updates) {
  if (params.rank() < 1) return InvalidArgument("params must be at least 1-D, got shape ", params.shape());
  if (params.dtype() != updates.dtype()) {
    return InvalidArgument("DType of resource and updates does not match: ", params.dtype(), " and ", updates.dtype());
  }
  if (updates.rank() == 0) return absl::OkStatus();
  const auto tail = params.shape().dims().subspan(1);
  const auto head = indices.shape().dims();
  const auto got = updates.shape().dims();
  if (got.size() == head.size() + tail.size() && std::equal(head.begin(), head.end(), got.begin()) &&
      std::equal(tail.begin(), tail.end(), got.begin() + head.size())) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape ",
      updates.shape(), ", indices.shape ", indices.shape(), ", params.shape ", params.shape());
}

absl::StatusOr<Tensor> CheckedRows(KernelContext& context, const Tensor& indices, int64_t rows) {
  return indices.dtype() == kInt32 ? Checked<int32_t>(context, indices, rows)
                                   : Checked<int64_t>(context, indices, rows);
}

}  // namespace thalweg
