// SPDX-License-Identifier: Apache-2.0
// Ops that make, show, move and rearrange tensors without computing with their
// elements. Every function adds one node to the graph of its scope, and constants for
// arguments that are C++ numbers. `T` stands for any element type.
#pragma once

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// ---- constants and inputs ----

// A constant of the type, shape and elements of `value`.
Output Const(const Scope& s, const Tensor& value);
// A string scalar:
Output Const(const Scope& s, const std::string& value);
inline Output Const(const Scope& s, const char* value) { return Const(s, std::string(value)); }

// A scalar whose C++ type decides the element type: Const(s, 1.0f) is a float.
template <typename T>
requires std::is_arithmetic_v<T> || std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>> ||
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>
        Output Const(const Scope& s, T value) {
  return Const(s, Tensor::Scalar<T>(value));
}
// A vector.
template <typename T>
Output Const(const Scope& s, const std::vector<T>& values) {
  return Const(s, Tensor::Vector<T>(absl::MakeConstSpan(values)));
}
// A vector in braces: Const(s, {1, 2, 3}).
template <typename T>
Output Const(const Scope& s, std::initializer_list<T> values) {
  return Const(s, Tensor::Vector<T>(values));
}
// A vector of strings in braces.
inline Output Const(const Scope& s, std::initializer_list<const char*> values) {
  return Const(s, std::vector<std::string>(values.begin(), values.end()));
}
// A matrix as rows: Const(s, {{1.f, 2.f}, {3.f, 4.f}}). REQUIRES: rows of one length.
template <typename T>
Output Const(const Scope& s, std::initializer_list<std::initializer_list<T>> rows) {
  std::vector<T> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  const int64_t height = static_cast<int64_t>(rows.size());
  const int64_t width = height == 0 ? 0 : static_cast<int64_t>(rows.begin()->size());
  return Const(s, Tensor::Of<T>(Shape({height, width}), absl::MakeConstSpan(values)));
}

// A value that each step is fed with. Without a shape, it takes values of any shape.
Output Placeholder(const Scope& s, DType dtype, const PartialShape& shape = PartialShape());
// A value of shape `dims` that each step is fed with: -1 is an unknown dimension, and {} a scalar.
Output Placeholder(const Scope& s, DType dtype, std::initializer_list<int64_t> dims);
// `input`, unless the step feeds another value of `shape`.
Output PlaceholderWithDefault(const Scope& s, Output input, const PartialShape& shape);

// `dims` filled with `value`: Fill(s, {2, 3}, 1.0f) is a float [2,3] of ones.
Output Fill(const Scope& s, const IntsArg& dims, const ScalarArg& value);
// Zeros with the type and shape of `x`.
Output ZerosLike(const Scope& s, Output x);
// Ones with the type and shape of `x`.
Output OnesLike(const Scope& s, Output x);
// The numbers start, start + delta, ... below `limit` (above it, if delta is negative),
// as a vector: Range(s, 0, 5, 1) is [0,1,2,3,4]. All three have one type.
Output Range(const Scope& s, const ScalarArg& start, const ScalarArg& limit, const ScalarArg& delta);
// `num` numbers from `start` to `stop`, both included, at equal distances.
Output LinSpace(const Scope& s, const ScalarArg& start, const ScalarArg& stop, const IntArg& num);

// ---- passing on ----

// `input`.
Output Identity(const Scope& s, Output input);
// All of `inputs`, each after all of them were computed.
std::vector<Output> IdentityN(const Scope& s, const std::vector<Output>& inputs);
// `input`; gradients do not go through it.
Output StopGradient(const Scope& s, Output input);
// `input`; asking for a gradient through it is an error with this message.
Output PreventGradient(const Scope& s, Output input, absl::string_view message = "");
// A copy of `input` that no other operation shares memory with.
Output Snapshot(const Scope& s, Output input);
// `input`; the step fails unless it has this shape.
Output EnsureShape(const Scope& s, Output input, const PartialShape& shape);
// Does nothing; stands for its control inputs.
Output NoOp(const Scope& s);
// An operation that runs after all of `operations`, such as the updates of one training
// step: session->Run({Group(s, {a, b})}).
Output Group(const Scope& s, const std::vector<Output>& operations);
// Passes `input` on; the step fails with `message` if an element is infinite or NaN.
Output CheckNumerics(const Scope& s, Output tensor, absl::string_view message);

// How often Print prints, and how much of each tensor.
struct PrintOptions {
  std::string message;    // comes first
  int64_t first_n = -1;   // how many times to print; -1: always
  int64_t summarize = 3;  // how many elements of each tensor to show
};
// Passes `input` on and writes `data` to stderr.
Output Print(const Scope& s, Output input, const std::vector<Output>& data, const PrintOptions& options = {});
// The step fails, and its error shows `summarize` elements of each of `data`, unless the
// bool scalar `condition` is true.
Output Assert(const Scope& s, Output condition, const std::vector<Output>& data, int64_t summarize = 3);

// ---- shapes ----

// The dimensions of `input` as a vector. (Shape is a C++ type.)
Output ShapeOf(const Scope& s, Output input, DType out_type = kInt32);
// ShapeOf each of `inputs`.
std::vector<Output> ShapeN(const Scope& s, const std::vector<Output>& inputs, DType out_type = kInt32);
// The number of elements, a scalar.
Output Size(const Scope& s, Output input, DType out_type = kInt32);
// The number of dimensions, an int32 scalar.
Output Rank(const Scope& s, Output input);

// The elements of the input in another shape. One size may be -1: it follows from the others.
// Reshape(s, x, {-1, 4}) makes [2,6] a [3,4].
Output Reshape(const Scope& s, Output tensor, const IntsArg& shape);
// Inserts a dimension of size 1 before dimension `dim`; negative ones count from the end.
Output ExpandDims(const Scope& s, Output input, const IntArg& dim);
// Removes the dimensions named, which must have size 1, or all of size 1.
Output Squeeze(const Scope& s, Output input, const std::vector<int64_t>& squeeze_dims = {});
// Repeats dimensions of size 1, and new ones in front, up to `shape`.
Output BroadcastTo(const Scope& s, Output input, const IntsArg& shape);

// ---- putting together and taking apart ----

// Stacks tensors of one shape along a new dimension `axis`: n of [a,b] give [n,a,b].
Output Pack(const Scope& s, const std::vector<Output>& values, int axis = 0);
// The opposite of Pack: `num` tensors without dimension `axis`, whose size must be num.
std::vector<Output> Unpack(const Scope& s, Output value, int num, int axis = 0);
// Joins tensors along an existing dimension: [2,3] and [4,3] along 0 give [6,3].
Output Concat(const Scope& s, const std::vector<Output>& values, const IntArg& axis);
// Cuts a dimension into `num_split` parts of one size.
std::vector<Output> Split(const Scope& s, Output value, int num_split, int axis = 0);
// Cuts a dimension into `num_split` parts of the sizes given; one may be -1, the rest.
std::vector<Output> Split(const Scope& s, Output value, const IntsArg& size_splits, const IntArg& axis, int num_split);
// `size` elements of each dimension, from `begin` on; a size of -1 means all the rest.
// Slice(s, x, {0, 2}, {-1, 1}) is column 2.
Output Slice(const Scope& s, Output input, const IntsArg& begin, const IntsArg& size);

// Bit i of a mask is about entry i of begin, end and strides.
struct StridedSliceOptions {
  int64_t begin_mask = 0;        // start at the first element
  int64_t end_mask = 0;          // go up to the last element
  int64_t ellipsis_mask = 0;     // stand for all dimensions that are not named
  int64_t new_axis_mask = 0;     // insert a dimension of size 1
  int64_t shrink_axis_mask = 0;  // take one element, and drop the dimension
};
// input[begin:end:strides], as Python slices; negative strides go backwards.
Output StridedSlice(const Scope& s, Output input, const IntsArg& begin, const IntsArg& end, const IntsArg& strides,
                    const StridedSliceOptions& options = {});

// Repeats the tensor multiples[i] times along dimension i.
Output Tile(const Scope& s, Output input, const IntsArg& multiples);
// Element j of dimension i goes to dimension perm^-1(i): Transpose(s, x, {1, 0}) swaps
// rows and columns.
Output Transpose(const Scope& s, Output x, const IntsArg& perm);
// The complex conjugate of Transpose.
Output ConjugateTranspose(const Scope& s, Output x, const IntsArg& perm);
// The permutation that undoes the permutation `x`, a vector of 0 to n - 1.
Output InvertPermutation(const Scope& s, Output x);
// Reverses the order along each of `axis`.
Output Reverse(const Scope& s, Output tensor, const IntsArg& axis);
// The dimensions of sequences in a tensor.
struct ReverseSequenceOptions {
  int seq_dim = 1;    // the dimension that is reversed
  int batch_dim = 0;  // the dimension that seq_lengths belongs to
};
// Reverses the first seq_lengths[i] elements of each entry i of the batch.
Output ReverseSequence(const Scope& s, Output input, Output seq_lengths, const ReverseSequenceOptions& options = {});
// Element i of an axis goes to i + shift; elements beyond the end come in at the
// beginning. `shift` and `axis` have one length.
Output Roll(const Scope& s, Output input, const IntsArg& shift, const IntsArg& axis);

// Adds zeros before and after each dimension: Pad(s, x, {{1, 1}, {0, 2}}) makes [2,3] a
// [4,5].
Output Pad(const Scope& s, Output input, const IntPairsArg& paddings);
// Adds constant_value, a scalar of the input's type, before and after each dimension.
Output Pad(const Scope& s, Output input, const IntPairsArg& paddings, const ScalarArg& constant_value);
// How MirrorPad continues beyond the edge of [1,2,3].
enum class MirrorMode {
  kReflect,    // 3 2 | 1 2 3 | 2 1: without the edge
  kSymmetric,  // 2 1 | 1 2 3 | 3 2: with the edge
};
// Adds mirrored elements before and after each dimension.
Output MirrorPad(const Scope& s, Output input, const IntPairsArg& paddings, MirrorMode mode);

// ---- choosing by index ----

// The axis that Gather takes slices along.
struct GatherOptions {
  int axis = 0;        // the dimension of params that indices count
  int batch_dims = 0;  // leading dimensions that params and indices share
};
// Entries of `params` by number: params [v,d] and indices [...] give [...,d].
Output Gather(const Scope& s, Output params, Output indices, const GatherOptions& options = {});
// Entries by coordinates: the last dimension of `indices` has k of them, for the first k
// dimensions of `params`.
Output GatherNd(const Scope& s, Output params, Output indices);
// A tensor of `shape` with `updates` at `indices` (as GatherNd), zeros elsewhere; those
// that fall on the same place add up.
Output ScatterNd(const Scope& s, Output indices, Output updates, const IntsArg& shape);
// `tensor` with `updates` in the places `indices`.
Output TensorScatterUpdate(const Scope& s, Output tensor, Output indices, Output updates);
// `tensor` with `updates` added in the places `indices`.
Output TensorScatterAdd(const Scope& s, Output tensor, Output indices, Output updates);
// Vectors of `depth` with `on_value` at the index and `off_value` elsewhere: indices
// [n] give [n,depth]. Both values have one type, that of the result.
Output OneHot(const Scope& s, Output indices, const IntArg& depth, const ScalarArg& on_value,
              const ScalarArg& off_value, int axis = -1);
// The coordinates of the elements that are true (not zero): int64 [n, rank].
Output Where(const Scope& s, Output input);
// Puts rows of several tensors in one: row i of data[j] goes to row indices[j][i].
Output DynamicStitch(const Scope& s, const std::vector<Output>& indices, const std::vector<Output>& data);
// Distributes the rows of `data` over num_partitions tensors, by number.
std::vector<Output> DynamicPartition(const Scope& s, Output data, Output partitions, int num_partitions);

// The distinct values of a vector, and where each element is among them.
struct UniqueResult {
  Output y;    // distinct elements, in the order of their first occurrence
  Output idx;  // for every element of x, its place in y
};
// The distinct elements of the vector `x`.
UniqueResult Unique(const Scope& s, Output x, DType out_idx = kInt32);
// The distinct values of a vector, where each element is among them, and how often each occurs.
struct UniqueWithCountsResult {
  Output y;      // distinct elements, in the order of their first occurrence
  Output idx;    // for every element of x, its place in y
  Output count;  // for every element of y, how often it occurs
};
// Unique, with counts.
UniqueWithCountsResult UniqueWithCounts(const Scope& s, Output x, DType out_idx = kInt32);

// ---- segments: rows with the same number, added up or the like ----

// The sum, product, maximum or minimum of the rows of `data` with the same number in
// segment_ids, which need not be sorted; num_segments rows:
Output UnsortedSegmentSum(const Scope& s, Output data, Output segment_ids, const IntArg& num_segments);
Output UnsortedSegmentProd(const Scope& s, Output data, Output segment_ids, const IntArg& num_segments);
Output UnsortedSegmentMax(const Scope& s, Output data, Output segment_ids, const IntArg& num_segments);
Output UnsortedSegmentMin(const Scope& s, Output data, Output segment_ids, const IntArg& num_segments);

// The sum, mean, product, maximum or minimum of the rows of `data` with the same number
// in segment_ids, which are sorted:
Output SegmentSum(const Scope& s, Output data, Output segment_ids);
Output SegmentMean(const Scope& s, Output data, Output segment_ids);
Output SegmentProd(const Scope& s, Output data, Output segment_ids);
Output SegmentMax(const Scope& s, Output data, Output segment_ids);
Output SegmentMin(const Scope& s, Output data, Output segment_ids);

// The sum, the mean, or the sum divided by the root of the number, of the rows `indices` of `data` with the same number
// in segment_ids, which are sorted:
Output SparseSegmentSum(const Scope& s, Output data, Output indices, Output segment_ids);
Output SparseSegmentMean(const Scope& s, Output data, Output indices, Output segment_ids);
Output SparseSegmentSqrtN(const Scope& s, Output data, Output indices, Output segment_ids);

// ---- diagonals ----

// A tensor of shape x.shape + x.shape with x on its diagonal, zeros elsewhere.
Output Diag(const Scope& s, Output diagonal);
// The diagonal of a tensor of twice the rank; the opposite of Diag.
Output DiagPart(const Scope& s, Output input);
// Matrices [...,n,n] with the vectors [...,n] on their diagonals.
Output MatrixDiag(const Scope& s, Output diagonal);
// The diagonals [...,n] of matrices [...,rows,columns].
Output MatrixDiagPart(const Scope& s, Output input);
// The matrices with other diagonals.
Output MatrixSetDiag(const Scope& s, Output input, Output diagonal);
// The matrices with zeros outside of a band: num_lower diagonals below the main one and
// num_upper above it; -1 keeps all of them.
Output MatrixBandPart(const Scope& s, Output input, const IntArg& num_lower, const IntArg& num_upper);

// ---- blocks of images ----

// The layout of images for SpaceToDepth and DepthToSpace.
struct SpaceToDepthOptions {
  DataFormat data_format = DataFormat::kChannelsLast;  // layout of input and output
};
// Moves blocks of block_size x block_size pixels into the channels.
Output SpaceToDepth(const Scope& s, Output input, int block_size, const SpaceToDepthOptions& options = {});
// The opposite of SpaceToDepth.
Output DepthToSpace(const Scope& s, Output input, int block_size, const SpaceToDepthOptions& options = {});
// Pads the dimensions after the first, then moves blocks into the batch.
Output SpaceToBatchND(const Scope& s, Output input, const IntsArg& block_shape, const IntPairsArg& paddings);
// The opposite of SpaceToBatchND: moves blocks out of the batch, then crops.
Output BatchToSpaceND(const Scope& s, Output input, const IntsArg& block_shape, const IntPairsArg& crops);

// The bits of the input as elements of another type.
Output Bitcast(const Scope& s, Output input, DType type);

}  // namespace thalweg
