// Ops that make, show, move and rearrange tensors without computing with their
// elements. Every function adds one node to the graph of its scope; see the .cc
// of the op for what it computes.
#pragma once

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Constants: a tensor, a scalar, a vector {1, 2, 3}, or rows {{1, 2}, {3, 4}}.
Output Const(const Scope& s, const Tensor& value);
Output Const(const Scope& s, const std::string& value);
inline Output Const(const Scope& s, const char* value) { return Const(s, std::string(value)); }
template <typename T>
requires std::is_arithmetic_v<T> || std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>> ||
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>
        Output Const(const Scope& s, T value) {
  return Const(s, Tensor::Scalar<T>(value));
}
template <typename T>
Output Const(const Scope& s, const std::vector<T>& values) {
  return Const(s, Tensor::Vector<T>(absl::MakeConstSpan(values)));
}
template <typename T>
Output Const(const Scope& s, std::initializer_list<T> values) {
  return Const(s, Tensor::Vector<T>(values));
}
inline Output Const(const Scope& s, std::initializer_list<const char*> values) {
  return Const(s, std::vector<std::string>(values.begin(), values.end()));
}
// REQUIRES: rows of one length.
template <typename T>
Output Const(const Scope& s, std::initializer_list<std::initializer_list<T>> rows) {
  std::vector<T> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  const int64_t height = static_cast<int64_t>(rows.size());
  const int64_t width = height == 0 ? 0 : static_cast<int64_t>(rows.begin()->size());
  return Const(s, Tensor::Of<T>(Shape({height, width}), absl::MakeConstSpan(values)));
}

// Values that come from outside; -1 is a dimension that is not known, and {} a
// scalar. Without a shape, of any.
Output Placeholder(const Scope& s, DType dtype, const PartialShape& shape = PartialShape());
Output Placeholder(const Scope& s, DType dtype, std::initializer_list<int64_t> dims);
Output PlaceholderWithDefault(const Scope& s, Output input, const PartialShape& shape);

Output Identity(const Scope& s, Output input);
std::vector<Output> IdentityN(const Scope& s, const std::vector<Output>& inputs);
Output StopGradient(const Scope& s, Output input);
Output PreventGradient(const Scope& s, Output input, absl::string_view message = "");
Output Snapshot(const Scope& s, Output input);
Output EnsureShape(const Scope& s, Output input, const PartialShape& shape);
// Does nothing; stands for its control inputs.
Output NoOp(const Scope& s);
// A NoOp that runs after all of `operations`.
Output Group(const Scope& s, const std::vector<Output>& operations);

// Not "Shape", which is a type.
Output ShapeOf(const Scope& s, Output input, DType out_type = kInt32);
std::vector<Output> ShapeN(const Scope& s, const std::vector<Output>& inputs, DType out_type = kInt32);
Output Size(const Scope& s, Output input, DType out_type = kInt32);
Output Rank(const Scope& s, Output input);

Output Reshape(const Scope& s, Output tensor, Output shape);
// One size may be -1: what is left.
Output Reshape(const Scope& s, Output tensor, std::initializer_list<int32_t> shape);
Output ExpandDims(const Scope& s, Output input, Output dim);
Output ExpandDims(const Scope& s, Output input, int dim);
// Removes the dimensions named, or all of size 1.
Output Squeeze(const Scope& s, Output input, const std::vector<int64_t>& squeeze_dims = {});

Output Fill(const Scope& s, Output dims, Output value);
Output ZerosLike(const Scope& s, Output x);
Output OnesLike(const Scope& s, Output x);

Output Pack(const Scope& s, const std::vector<Output>& values, int axis = 0);
std::vector<Output> Unpack(const Scope& s, Output value, int num, int axis = 0);
Output Concat(const Scope& s, const std::vector<Output>& values, Output axis);
Output Concat(const Scope& s, const std::vector<Output>& values, int axis);

Output Slice(const Scope& s, Output input, Output begin, Output size);
struct StridedSliceOptions {
  int64_t begin_mask = 0;
  int64_t end_mask = 0;
  int64_t ellipsis_mask = 0;
  int64_t new_axis_mask = 0;
  int64_t shrink_axis_mask = 0;
};
Output StridedSlice(const Scope& s, Output input, Output begin, Output end, Output strides,
                    const StridedSliceOptions& options = {});
std::vector<Output> Split(const Scope& s, Output value, int num_split, int axis = 0);
std::vector<Output> Split(const Scope& s, Output value, Output size_splits, Output axis, int num_split);

Output Tile(const Scope& s, Output input, Output multiples);
Output Transpose(const Scope& s, Output x, Output perm);
Output Transpose(const Scope& s, Output x, std::initializer_list<int32_t> perm);
Output ConjugateTranspose(const Scope& s, Output x, Output perm);
Output InvertPermutation(const Scope& s, Output x);

struct GatherOptions {
  int axis = 0;
  int batch_dims = 0;
};
Output Gather(const Scope& s, Output params, Output indices, const GatherOptions& options = {});

Output UnsortedSegmentSum(const Scope& s, Output data, Output segment_ids, Output num_segments);
Output UnsortedSegmentProd(const Scope& s, Output data, Output segment_ids, Output num_segments);
Output UnsortedSegmentMax(const Scope& s, Output data, Output segment_ids, Output num_segments);
Output UnsortedSegmentMin(const Scope& s, Output data, Output segment_ids, Output num_segments);

Output Range(const Scope& s, Output start, Output limit, Output delta);
Output LinSpace(const Scope& s, Output start, Output stop, Output num);
Output DynamicStitch(const Scope& s, const std::vector<Output>& indices, const std::vector<Output>& data);
std::vector<Output> DynamicPartition(const Scope& s, Output data, Output partitions, int num_partitions);

Output Pad(const Scope& s, Output input, Output paddings);
Output Pad(const Scope& s, Output input, Output paddings, Output constant_value);
// `mode` is "REFLECT" or "SYMMETRIC".
Output MirrorPad(const Scope& s, Output input, Output paddings, absl::string_view mode);
Output Reverse(const Scope& s, Output tensor, Output axis);
// Element i of an axis goes to i + shift; what goes beyond the end comes in at the beginning.
Output Roll(const Scope& s, Output input, Output shift, Output axis);
struct ReverseSequenceOptions {
  int seq_dim = 1;
  int batch_dim = 0;
};
Output ReverseSequence(const Scope& s, Output input, Output seq_lengths, const ReverseSequenceOptions& options = {});
Output BroadcastTo(const Scope& s, Output input, Output shape);
Output OneHot(const Scope& s, Output indices, Output depth, Output on_value, Output off_value, int axis = -1);
Output Where(const Scope& s, Output input);

struct UniqueResult {
  Output y;    // distinct elements
  Output idx;  // for every element, its place in y
};
UniqueResult Unique(const Scope& s, Output x, DType out_idx = kInt32);
struct UniqueWithCountsResult {
  Output y;
  Output idx;
  Output count;  // for every element of y, how often it occurs
};
UniqueWithCountsResult UniqueWithCounts(const Scope& s, Output x, DType out_idx = kInt32);

Output GatherNd(const Scope& s, Output params, Output indices);
Output ScatterNd(const Scope& s, Output indices, Output updates, Output shape);
Output TensorScatterUpdate(const Scope& s, Output tensor, Output indices, Output updates);
Output TensorScatterAdd(const Scope& s, Output tensor, Output indices, Output updates);

Output SegmentSum(const Scope& s, Output data, Output segment_ids);
Output SegmentMean(const Scope& s, Output data, Output segment_ids);
Output SegmentProd(const Scope& s, Output data, Output segment_ids);
Output SegmentMax(const Scope& s, Output data, Output segment_ids);
Output SegmentMin(const Scope& s, Output data, Output segment_ids);
Output SparseSegmentSum(const Scope& s, Output data, Output indices, Output segment_ids);
Output SparseSegmentMean(const Scope& s, Output data, Output indices, Output segment_ids);
Output SparseSegmentSqrtN(const Scope& s, Output data, Output indices, Output segment_ids);

Output Diag(const Scope& s, Output diagonal);
Output DiagPart(const Scope& s, Output input);
Output MatrixDiag(const Scope& s, Output diagonal);
Output MatrixDiagPart(const Scope& s, Output input);
Output MatrixSetDiag(const Scope& s, Output input, Output diagonal);
Output MatrixBandPart(const Scope& s, Output input, Output num_lower, Output num_upper);

struct SpaceToDepthOptions {
  std::string data_format = "NHWC";
};
Output SpaceToDepth(const Scope& s, Output input, int block_size, const SpaceToDepthOptions& options = {});
Output DepthToSpace(const Scope& s, Output input, int block_size, const SpaceToDepthOptions& options = {});
Output SpaceToBatchND(const Scope& s, Output input, Output block_shape, Output paddings);
Output BatchToSpaceND(const Scope& s, Output input, Output block_shape, Output crops);

Output Bitcast(const Scope& s, Output input, DType type);
Output CheckNumerics(const Scope& s, Output tensor, absl::string_view message);

// Passes `input` on and writes `data` to stderr.
struct PrintOptions {
  std::string message;
  int64_t first_n = -1;   // how many times; -1: always
  int64_t summarize = 3;  // how many elements of each
};
Output Print(const Scope& s, Output input, const std::vector<Output>& data, const PrintOptions& options = {});
// Fails, showing `data`, unless `condition` is true.
Output Assert(const Scope& s, Output condition, const std::vector<Output>& data, int64_t summarize = 3);

Output StringJoin(const Scope& s, const std::vector<Output>& inputs, absl::string_view separator = "");
struct AsStringOptions {
  int64_t precision = -1;
  bool scientific = false;
  bool shortest = false;
  int64_t width = -1;
  std::string fill;
};
Output AsString(const Scope& s, Output input, const AsStringOptions& options = {});
Output StringToNumber(const Scope& s, Output string_tensor, DType out_type = kFloat);

}  // namespace thalweg
