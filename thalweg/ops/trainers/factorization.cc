// SPDX-License-Identifier: Apache-2.0
// WALSComputePartialLhsAndRhs and MaskedMatmul: factorization of a sparse matrix by weighted alternating least squares.
// For fixed column factors, the factor of a row solves a linear system; the first op sums its two sides over the
// observed entries of the row.
#include <algorithm>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

absl::Status RequireRank(const Tensor& t, int rank, absl::string_view name) {
  if (t.rank() == rank) return absl::OkStatus();
  return InvalidArgument("Input ", name, " should be a ",
                         rank == 0   ? "scalar"
                         : rank == 1 ? "vector"
                                     : "matrix",
                         ", got shape ", t.shape());
}

absl::Status CheckNormalEquations(KernelContext& c) {
  const struct {
    absl::string_view name;
    int rank;
  } kInputs[] = {{"factors", 2},       {"factor_weights", 1},   {"unobserved_weights", 0},
                 {"input_weights", 1}, {"input_indices", 2},    {"input_values", 1},
                 {"entry_weights", 1}, {"input_block_size", 0}, {"input_is_transpose", 0}};
  for (int i = 0; i < 9; ++i) RETURN_IF_ERROR(RequireRank(c.input(i), kInputs[i].rank, kInputs[i].name));
  const int64_t entries = c.input(4).dim(0);
  if (c.input(4).dim(1) != 2) return InvalidArgument("Input input_indices should have shape (?, 2).");
  if (c.input(5).dim(0) != entries) {
    return InvalidArgument("Input input_values' length should match the first dimension of Input input_indices ");
  }
  const int64_t of_inputs = c.input(3).dim(0), of_factors = c.input(1).dim(0), of_entries = c.input(6).dim(0);
  if (!(of_inputs > 0 && of_factors == c.input(0).dim(0) && of_entries == 0) &&
      !(of_inputs == 0 && of_factors == 0 && of_entries == entries)) {
    return InvalidArgument(
        "To specify the weights for observed entries, either (1) entry_weights must be set or (2) input_weights and "
        "factor_weights must be set, but not both.");
  }
  return absl::OkStatus();
}

absl::Status NormalEquations(KernelContext& c) {
  RETURN_IF_ERROR(CheckNormalEquations(c));
  const Tensor& factors = c.input(0);
  const int64_t width = factors.dim(1), rows = c.input(7).scalar<int64_t>(), entries = c.input(4).dim(0);
  ASSIGN_OR_RETURN(const Shape lhs_shape, Shape::Make({rows, width, width}));
  ASSIGN_OR_RETURN(const Shape rhs_shape, Shape::Make({rows, width}));
  const bool is_transposed = c.input(8).scalar<bool>(), weighs_entries = c.input(6).dim(0) > 0 || entries == 0;
  const float unobserved = c.input(2).scalar<float>();
  const int64_t inputs_with_weight = weighs_entries ? rows : std::min(rows, c.input(3).dim(0));
  const int64_t* const indices = c.input(4).data<int64_t>();
  for (int64_t i = 0; i < entries; ++i) {
    const int64_t row = indices[2 * i + is_transposed], column = indices[2 * i + !is_transposed];
    if (row < 0 || row >= inputs_with_weight || column < 0 || column >= factors.dim(0)) {
      return InvalidArgument("input_indices[", i, "] = (", indices[2 * i], ", ", indices[2 * i + 1],
                             ") is outside of the block of ", rows, " rows and ", factors.dim(0), " factors");
    }
  }
  ASSIGN_OR_RETURN(Tensor* const lhs, c.Allocate(0, lhs_shape));
  ASSIGN_OR_RETURN(Tensor* const rhs, c.Allocate(1, rhs_shape));
  std::fill_n(lhs->mutable_data<float>(), lhs_shape.num_elements(), 0.0f);
  std::fill_n(rhs->mutable_data<float>(), rhs_shape.num_elements(), 0.0f);
  for (int64_t i = 0; i < entries; ++i) {
    const int64_t row = indices[2 * i + is_transposed], column = indices[2 * i + !is_transposed];
    const float weight =
        weighs_entries ? c.input(6).data<float>()[i] : c.input(3).data<float>()[row] * c.input(1).data<float>()[column];
    const float value = c.input(5).data<float>()[i] * (unobserved + weight);
    const float* const factor = factors.data<float>() + column * width;
    float* const left = lhs->mutable_data<float>() + row * width * width;
    float* const right = rhs->mutable_data<float>() + row * width;
    for (int64_t j = 0; j < width; ++j) {
      right[j] += value * factor[j];
      for (int64_t k = 0; k < width; ++k) left[j * width + k] += weight * factor[j] * factor[k];
    }
  }
  return absl::OkStatus();
}

// The elements of a product of matrices at some places only.
absl::Status MaskedMatmul(KernelContext& c) {
  const Tensor &a = c.input(0), &b = c.input(1), &mask = c.input(2);
  RETURN_IF_ERROR(RequireRank(a, 2, "a"));
  RETURN_IF_ERROR(RequireRank(b, 2, "b"));
  RETURN_IF_ERROR(RequireRank(mask, 2, "mask_indices"));
  RETURN_IF_ERROR(RequireRank(c.input(3), 0, "transpose_a"));
  RETURN_IF_ERROR(RequireRank(c.input(4), 0, "transpose_b"));
  const bool a_turned = c.input(3).scalar<bool>(), b_turned = c.input(4).scalar<bool>();
  const int64_t rows = a.dim(a_turned), inner = a.dim(!a_turned), columns = b.dim(!b_turned);
  if (inner != b.dim(b_turned)) {
    return InvalidArgument("Matrix shapes are incompatible: a has shape ", a.shape(), ", while b has shape ", b.shape(),
                           ".");
  }
  if (mask.dim(1) != 2) {
    return InvalidArgument(
        "mask_indices should be a matrix of shape [nnz 2], where nnz is the number of non-zero elements.");
  }
  const int64_t* const place = mask.data<int64_t>();
  for (int64_t i = 0; i < mask.dim(0); ++i) {
    if (place[2 * i] < 0 || place[2 * i] >= rows || place[2 * i + 1] < 0 || place[2 * i + 1] >= columns) {
      return InvalidArgument("mask_indices[", i, "] = (", place[2 * i], ", ", place[2 * i + 1],
                             ") is outside of a product of shape [", rows, ",", columns, "]");
    }
  }
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({mask.dim(0)})));
  const int64_t a_row = a_turned ? 1 : inner, a_step = a_turned ? rows : 1;
  const int64_t b_column = b_turned ? inner : 1, b_step = b_turned ? 1 : columns;
  for (int64_t i = 0; i < mask.dim(0); ++i) {
    const float *const x = a.data<float>() + place[2 * i] * a_row, *const y =
                                                                       b.data<float>() + place[2 * i + 1] * b_column;
    float sum = 0;
    for (int64_t k = 0; k < inner; ++k) sum += x[k * a_step] * y[k * b_step];
    out->mutable_data<float>()[i] = sum;
  }
  return absl::OkStatus();
}

const OpRegistration kFactorizationOps[] = {
    Op("WALSComputePartialLhsAndRhs")
        .Input("factors: float32")
        .Input("factor_weights: float32")
        .Input("unobserved_weights: float32")
        .Input("input_weights: float32")
        .Input("input_indices: int64")
        .Input("input_values: float32")
        .Input("entry_weights: float32")
        .Input("input_block_size: int64")
        .Input("input_is_transpose: bool")
        .Output("partial_lhs: float32")
        .Output("partial_rhs: float32")
        .Shape(shapes::Unknown)
        .Compute(NormalEquations)
        .NotDifferentiable(),
    Op("MaskedMatmul")
        .Input("a: float32")
        .Input("b: float32")
        .Input("mask_indices: int64")
        .Input("transpose_a: bool")
        .Input("transpose_b: bool")
        .Output("prod_values: float32")
        .Shape(shapes::Unknown)
        .Compute(MaskedMatmul)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
