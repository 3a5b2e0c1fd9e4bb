// SPDX-License-Identifier: Apache-2.0
// Ragged tensors, given by the places where their rows begin and end.
// RaggedTensorToSparse: as a sparse tensor, whose dimensions are as long as the
// longest rows. RaggedRange: a row start, start + delta, ... below limit for
// every triple.
#include "thalweg/ops/ragged/ragged.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {

absl::StatusOr<std::vector<int64_t>> ReadSplits(const Tensor& splits, int64_t length) {
  if (splits.rank() != 1 || splits.num_elements() == 0) return InvalidArgument("ragged splits may not be empty.");
  std::vector<int64_t> values(splits.num_elements());
  RETURN_IF_ERROR(Dispatch(IndexTypes(), splits.dtype(), [&]<typename T>() {
    std::copy_n(splits.data<T>(), values.size(), values.begin());
    return absl::OkStatus();
  }));
  if (values[0] != 0) return InvalidArgument("First value of ragged splits must be 0.");
  if (!std::is_sorted(values.begin(), values.end())) return InvalidArgument("Ragged splits should be non decreasing");
  if (values.back() != length) {
    return InvalidArgument("Final value of ragged splits must match the length the corresponding ragged array.");
  }
  return values;
}

absl::Status WriteSplits(absl::Span<const int64_t> splits, Tensor* out) {
  return Dispatch(IndexTypes(), out->dtype(), [&]<typename T>() -> absl::Status {
    if (!splits.empty() && splits.back() > std::numeric_limits<T>::max()) {
      return InvalidArgument("ragged splits do not fit into ", out->dtype(), ": ", splits.back());
    }
    std::copy(splits.begin(), splits.end(), out->mutable_data<T>());
    return absl::OkStatus();
  });
}

namespace {

absl::Status RaggedTensorToSparse(KernelContext& context) {
  const int levels = context.num_inputs() - 1;
  const Tensor& values = context.input(levels);
  if (values.rank() < 1) return InvalidArgument("rt_dense_values must be at least a vector");
  std::vector<std::vector<int64_t>> splits(levels);
  int64_t length = values.dim(0);
  for (int i = levels - 1; i >= 0; --i) {
    ASSIGN_OR_RETURN(splits[i], ReadSplits(context.input(i), length));
    length = static_cast<int64_t>(splits[i].size()) - 1;
  }
  Dims dims{length};
  for (const std::vector<int64_t>& level : splits) {
    int64_t longest = 0;
    for (size_t r = 0; r + 1 < level.size(); ++r) longest = std::max(longest, level[r + 1] - level[r]);
    dims.push_back(longest);
  }
  dims.insert(dims.end(), values.shape().dims().begin() + 1, values.shape().dims().end());
  const int64_t rank = static_cast<int64_t>(dims.size()), count = values.num_elements();
  const int64_t inner = values.dim(0) == 0 ? 1 : count / values.dim(0);
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({count, rank}));
  ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(0, shape));
  ASSIGN_OR_RETURN(Tensor * elements, context.Allocate(1, Shape({count})));
  ASSIGN_OR_RETURN(Tensor * dense, context.Allocate(2, Shape({rank})));
  std::copy(dims.begin(), dims.end(), dense->mutable_data<int64_t>());
  std::vector<int64_t> row(levels, 0);  // by level: the row that holds the element
  for (int64_t i = 0; i < count; ++i) {
    int64_t* const place = indices->mutable_data<int64_t>() + i * rank;
    int64_t at = i / inner, rest = i % inner;
    for (int l = levels - 1; l >= 0; --l) {
      while (at >= splits[l][row[l] + 1]) ++row[l];
      place[l + 1] = at - splits[l][row[l]];
      at = row[l];
    }
    place[0] = at;
    for (int64_t d = rank - 1; d > levels; --d) {
      place[d] = rest % dims[d];
      rest /= dims[d];
    }
  }
  return DispatchBySize(values.dtype(), [&]<typename T>() {
    CopyElements(ElementData<T>(values), count, MutableElementData<T>(elements));
    return absl::OkStatus();
  });
}

absl::Status ToSparseShape(ShapeContext& c) {
  c.set_output(0, PartialShape::OfRank(2));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::OfRank(1));
  return absl::OkStatus();
}

// -1 if it would not fit.
template <typename T>
int64_t RangeLength(T start, T limit, T delta) {
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  double length =
      std::ceil(std::fabs((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta)));
  if constexpr (std::is_integral_v<T>) {
    const __int128 span = static_cast<__int128>(limit) - start, step = delta;
    const __int128 exact = (span + step - (step > 0 ? 1 : -1)) / step;
    if (exact <= std::numeric_limits<int64_t>::max()) return static_cast<int64_t>(exact);
    length = INFINITY;
  }
  return length < 9e18 ? static_cast<int64_t>(length) : -1;
}

absl::Status RaggedRange(KernelContext& context) {
  int64_t rows = 1;
  bool vectors = false;
  for (int i = 0; i < 3; ++i) {
    const Tensor& t = context.input(i);
    const char* const names[] = {"starts", "limits", "deltas"};
    if (t.rank() > 1) return InvalidArgument(names[i], " must be a scalar or vector");
    if (t.rank() == 0) continue;
    if (vectors && t.num_elements() != rows)
      return InvalidArgument("starts, limits, and deltas must have the same shape");
    vectors = true;
    rows = t.num_elements();
  }
  return Dispatch(
      Types<float, double, int32_t, int64_t, BFloat16>(), context.input(0).dtype(), [&]<typename T>() -> absl::Status {
        using F = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;
        const auto at = [&](int i, int64_t r) {
          const Tensor& t = context.input(i);
          return static_cast<F>(t.data<T>()[t.rank() == 0 ? 0 : r]);
        };
        std::vector<int64_t> splits{0};
        for (int64_t r = 0; r < rows; ++r) {
          if (at(2, r) == F(0)) return InvalidArgument("Requires delta != 0");
          const int64_t length = RangeLength<F>(at(0, r), at(1, r), at(2, r));
          int64_t end = 0;
          if (length < 0 || __builtin_add_overflow(splits.back(), length, &end) ||
              (context.output_type(0) == kInt32 && end > std::numeric_limits<int32_t>::max())) {
            return InvalidArgument("Requires ((limit - start) / delta) <= ", std::numeric_limits<int64_t>::max());
          }
          splits.push_back(end);
        }
        ASSIGN_OR_RETURN(Tensor * out_splits, context.Allocate(0, Shape({rows + 1})));
        ASSIGN_OR_RETURN(const Shape shape, Shape::Make({splits.back()}));
        ASSIGN_OR_RETURN(Tensor * values, context.Allocate(1, shape));
        RETURN_IF_ERROR(WriteSplits(splits, out_splits));
        T* to = values->mutable_data<T>();
        for (int64_t r = 0; r < rows; ++r) {
          F value = at(0, r);
          for (int64_t k = splits[r]; k < splits[r + 1]; ++k) {
            *to++ = static_cast<T>(value);
            if (k + 1 < splits[r + 1]) value = static_cast<F>(static_cast<T>(value + at(2, r)));
          }
        }
        return absl::OkStatus();
      });
}

absl::Status RangeShape(ShapeContext& c) {
  int64_t rows = PartialShape::kUnknown;
  bool scalars = true;
  for (int i = 0; i < 3; ++i) {
    const PartialShape& shape = c.input(i);
    if (!shape.has_rank() || shape.rank() == 1) scalars = false;
    if (shape.has_rank() && shape.rank() == 1) rows = std::max(rows, shape.dim(0));
  }
  c.set_output(0, PartialShape({scalars ? 2 : rows < 0 ? PartialShape::kUnknown : rows + 1}));
  c.set_output(1, PartialShape::OfRank(1));
  return absl::OkStatus();
}

const OpRegistration kRaggedOps[] = {
    Op("RaggedTensorToSparse")
        .Input("rt_nested_splits: RAGGED_RANK * Tsplits")
        .Input("rt_dense_values: T")
        .Output("sparse_indices: int64")
        .Output("sparse_values: T")
        .Output("sparse_dense_shape: int64")
        .Attr("RAGGED_RANK: int >= 1")
        .Attr("T: type")
        .Attr("Tsplits: {int32, int64} = DT_INT64")
        .Shape(ToSparseShape)
        .Compute(RaggedTensorToSparse),
    Op("RaggedRange")
        .Input("starts: T")
        .Input("limits: T")
        .Input("deltas: T")
        .Output("rt_nested_splits: Tsplits")
        .Output("rt_dense_values: T")
        .Attr("T: {bfloat16, float, double, int32, int64} = DT_INT32")
        .Attr("Tsplits: {int32, int64} = DT_INT64")
        .Shape(RangeShape)
        .Compute(RaggedRange)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
