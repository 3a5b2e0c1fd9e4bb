// SPDX-License-Identifier: Apache-2.0
// Sparse tensors: the elements that are not zero, and where they are. And ragged tensors:
// rows of different lengths, in ragged_ops.h.
//
//   const SparseTensor a{indices, values, shape};     // int64 [n, rank], [n], int64 [rank]
//   const Output y = SparseTensorDenseMatMul(s, a, b);
#pragma once

#include <cstdint>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// A tensor of which only some elements are given. A value.
struct SparseTensor {
  Output indices;  // int64 [n, rank]: the coordinates of each element, in row-major order
  Output values;   // [n]: the elements
  Output shape;    // int64 [rank]: the shape of the whole
};

// What SparseToDense checks.
struct SparseToDenseOptions {
  bool validate_indices = true;  // they must be in row-major order, without repeats
};
// The dense tensor, with default_value, of the type of the elements, where none is given.
Output SparseToDense(const Scope& s, const SparseTensor& input, const ScalarArg& default_value,
                     const SparseToDenseOptions& options = {});
// The elements in row-major order.
SparseTensor SparseReorder(const Scope& s, const SparseTensor& input);
// The elements of a sparse tensor in another dense shape; one size may be -1.
SparseTensor SparseReshape(const Scope& s, const SparseTensor& input, const IntsArg& new_shape);
// Joins sparse tensors along a dimension.
SparseTensor SparseConcat(const Scope& s, const std::vector<SparseTensor>& inputs, int axis);
// Cuts a dimension into num_split parts.
std::vector<SparseTensor> SparseSplit(const Scope& s, const SparseTensor& input, const IntArg& axis, int num_split);
// `size` elements of each dimension from `start` on.
SparseTensor SparseSlice(const Scope& s, const SparseTensor& input, const IntsArg& start, const IntsArg& size);
// A sparse tensor without empty rows, and the rows that were filled.
struct SparseFillEmptyRowsResult {
  SparseTensor output;         // with the default in rows that were empty
  Output empty_row_indicator;  // bool [rows]: true for those rows
  Output reverse_index_map;    // int64: for each element of the input, its place in the output
};
// A matrix in which every row has an element: default_value, at column 0, in those that had
// none.
SparseFillEmptyRowsResult SparseFillEmptyRows(const Scope& s, const SparseTensor& input,
                                              const ScalarArg& default_value);

// The sum of sparse tensors of one shape; results whose absolute value is below `threshold`,
// of the real type of the elements, are left out.
SparseTensor SparseAdd(const Scope& s, const SparseTensor& a, const SparseTensor& b, const ScalarArg& threshold);
// The elementwise maximum or minimum of sparse tensors of one shape:
SparseTensor SparseSparseMaximum(const Scope& s, const SparseTensor& a, const SparseTensor& b);
SparseTensor SparseSparseMinimum(const Scope& s, const SparseTensor& a, const SparseTensor& b);

// The dense sum of a sparse and a dense tensor.
Output SparseTensorDenseAdd(const Scope& s, const SparseTensor& a, Output b);
// The elements of `a` combined with those of the dense tensor, which broadcasts, at their
// places: sums, products or quotients, as values for a's indices:
Output SparseDenseCwiseAdd(const Scope& s, const SparseTensor& a, Output dense);
Output SparseDenseCwiseMul(const Scope& s, const SparseTensor& a, Output dense);
Output SparseDenseCwiseDiv(const Scope& s, const SparseTensor& a, Output dense);

// Which operands of SparseTensorDenseMatMul are replaced by their conjugate transpose.
struct SparseMatMulOptions {
  bool adjoint_a = false;  // use the conjugate transpose of a
  bool adjoint_b = false;  // use the conjugate transpose of b
};
// The product of a sparse and a dense matrix, a dense matrix.
Output SparseTensorDenseMatMul(const Scope& s, const SparseTensor& a, Output b,
                               const SparseMatMulOptions& options = {});
// Softmax over the elements that are given, along the last dimension; values for the
// input's indices.
Output SparseSoftmax(const Scope& s, const SparseTensor& input);
// Options of SparseReduceSum and SparseReduceMax.
struct SparseReduceOptions {
  bool keep_dims = false;  // reduced axes stay, with size 1
};
// The sum along axes, as a dense tensor of the input's type.
Output SparseReduceSum(const Scope& s, const SparseTensor& input, const IntsArg& axes,
                       const SparseReduceOptions& options = {});
// The maximum of the elements that are present along axes, as a dense tensor of the input's type.
Output SparseReduceMax(const Scope& s, const SparseTensor& input, const IntsArg& axes,
                       const SparseReduceOptions& options = {});

}  // namespace thalweg
