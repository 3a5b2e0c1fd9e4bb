// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/sparse_ops.h"

namespace thalweg {
namespace {

SparseTensor Outputs(Node* node, int first = 0, int step = 1) {
  return {Output(node, first), Output(node, first + step), Output(node, first + 2 * step)};
}

Output Reduce(const Scope& s, const char* op, const SparseTensor& x, const IntsArg& axes, bool keep_dims) {
  return s.Add(op, {x.indices, x.values, x.shape, axes.AsTensor(s, "axes")}, {{"keep_dims", keep_dims}});
}

SparseTensor Extreme(const Scope& s, const char* op, const SparseTensor& a, const SparseTensor& b) {
  Node* const node = s.Add(op, {a.indices, a.values, a.shape, b.indices, b.values, b.shape});
  return {Output(node, 0), Output(node, 1), a.shape};
}

Output Elementwise(const Scope& s, const char* op, const SparseTensor& a, Output dense) {
  return s.Add(op, {a.indices, a.values, a.shape, dense});
}

}  // namespace

Output SparseToDense(const Scope& s, const SparseTensor& x, const ScalarArg& default_value,
                     const SparseToDenseOptions& options) {
  return s.Add("SparseToDense", {x.indices, x.shape, x.values, default_value.AsTensor(s, "default_value")},
               {{"validate_indices", options.validate_indices}});
}

SparseTensor SparseReorder(const Scope& s, const SparseTensor& x) {
  Node* const node = s.Add("SparseReorder", {x.indices, x.values, x.shape});
  return {Output(node, 0), Output(node, 1), x.shape};
}

SparseTensor SparseReshape(const Scope& s, const SparseTensor& x, const IntsArg& new_shape) {
  Node* const node = s.Add("SparseReshape", {x.indices, x.shape, new_shape.AsTensor(s, "new_shape", kInt64)});
  return {Output(node, 0), x.values, Output(node, 1)};
}

SparseTensor SparseConcat(const Scope& s, const std::vector<SparseTensor>& inputs, int axis) {
  std::vector<Output> indices, values, shapes;
  for (const SparseTensor& x : inputs) {
    indices.push_back(x.indices);
    values.push_back(x.values);
    shapes.push_back(x.shape);
  }
  return Outputs(s.Add("SparseConcat", {indices, values, shapes}, {{"concat_dim", axis}}));
}

std::vector<SparseTensor> SparseSplit(const Scope& s, const SparseTensor& x, const IntArg& axis, int num_split) {
  Node* const node = s.Add("SparseSplit", {axis.AsTensor(s, "axis", kInt64), x.indices, x.values, x.shape},
                           {{"num_split", num_split}});
  std::vector<SparseTensor> parts;
  for (int i = 0; i < num_split; ++i) parts.push_back(Outputs(node, i, num_split));
  return parts;
}

SparseTensor SparseSlice(const Scope& s, const SparseTensor& x, const IntsArg& start, const IntsArg& size) {
  return Outputs(s.Add("SparseSlice", {x.indices, x.values, x.shape, start.AsTensor(s, "start", kInt64),
                                       size.AsTensor(s, "size", kInt64)}));
}

SparseFillEmptyRowsResult SparseFillEmptyRows(const Scope& s, const SparseTensor& x, const ScalarArg& default_value) {
  Node* const node =
      s.Add("SparseFillEmptyRows", {x.indices, x.values, x.shape, default_value.AsTensor(s, "default_value")});
  return {{Output(node, 0), Output(node, 1), x.shape}, Output(node, 2), Output(node, 3)};
}

SparseTensor SparseAdd(const Scope& s, const SparseTensor& a, const SparseTensor& b, const ScalarArg& threshold) {
  return Outputs(s.Add(
      "SparseAdd", {a.indices, a.values, a.shape, b.indices, b.values, b.shape, threshold.AsTensor(s, "threshold")}));
}

SparseTensor SparseSparseMaximum(const Scope& s, const SparseTensor& a, const SparseTensor& b) {
  return Extreme(s, "SparseSparseMaximum", a, b);
}
SparseTensor SparseSparseMinimum(const Scope& s, const SparseTensor& a, const SparseTensor& b) {
  return Extreme(s, "SparseSparseMinimum", a, b);
}

Output SparseTensorDenseAdd(const Scope& s, const SparseTensor& a, Output b) {
  return Elementwise(s, "SparseTensorDenseAdd", a, b);
}
Output SparseDenseCwiseAdd(const Scope& s, const SparseTensor& a, Output dense) {
  return Elementwise(s, "SparseDenseCwiseAdd", a, dense);
}
Output SparseDenseCwiseMul(const Scope& s, const SparseTensor& a, Output dense) {
  return Elementwise(s, "SparseDenseCwiseMul", a, dense);
}
Output SparseDenseCwiseDiv(const Scope& s, const SparseTensor& a, Output dense) {
  return Elementwise(s, "SparseDenseCwiseDiv", a, dense);
}

Output SparseTensorDenseMatMul(const Scope& s, const SparseTensor& a, Output b, const SparseMatMulOptions& options) {
  return s.Add("SparseTensorDenseMatMul", {a.indices, a.values, a.shape, b},
               {{"adjoint_a", options.adjoint_a}, {"adjoint_b", options.adjoint_b}});
}

Output SparseSoftmax(const Scope& s, const SparseTensor& x) {
  return s.Add("SparseSoftmax", {x.indices, x.values, x.shape});
}

Output SparseReduceSum(const Scope& s, const SparseTensor& x, const IntsArg& axes, const SparseReduceOptions& options) {
  return Reduce(s, "SparseReduceSum", x, axes, options.keep_dims);
}
Output SparseReduceMax(const Scope& s, const SparseTensor& x, const IntsArg& axes, const SparseReduceOptions& options) {
  return Reduce(s, "SparseReduceMax", x, axes, options.keep_dims);
}

}  // namespace thalweg
