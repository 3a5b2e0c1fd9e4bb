// SPDX-License-Identifier: Apache-2.0
// Many elements of a TensorArray at once: Gather and Pack stack them, Scatter and
// Unpack write the rows of a tensor to them; Concat and Split do the same with
// elements of several rows.
#include <algorithm>
#include <numeric>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/tensor_array.h"
#include "thalweg/ops/data_flow/tensor_array_kernel.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/ops/support/shape_arguments.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

std::vector<int32_t> UpTo(int64_t n) {
  std::vector<int32_t> indices(n);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}
absl::StatusOr<std::vector<int32_t>> IndicesOf(KernelContext& c) {
  if (!c.input(1).shape().is_vector()) {
    return InvalidArgument("Expected indices to be a vector, but received shape: ", c.input(1).shape());
  }
  const auto indices = c.input(1).flat<int32_t>();
  return std::vector<int32_t>(indices.begin(), indices.end());
}

// Gather, and Pack, which gathers all.
class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(bool all) : all_(all) {}
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(element_shape_, init.Attr<PartialShape>("element_shape"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
    RETURN_IF_ERROR(CheckArrayRead(*array, c.output_type(0)));
    RETURN_IF_ERROR(array->MergeElementShape(element_shape_));
    std::vector<int32_t> indices;
    if (all_) {
      ASSIGN_OR_RETURN(const int64_t size, array->PackSize());
      indices = UpTo(size);
    } else {
      ASSIGN_OR_RETURN(indices, IndicesOf(c));
    }
    if (indices.empty()) return SetEmpty(c);
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, array->Read(indices));
    const Shape& first = values[0].shape();
    if (!element_shape_.Accepts(first)) {
      return InvalidArgument("TensorArray was passed element_shape ", element_shape_,
                             " which does not match the Tensor at index 0: ", first);
    }
    for (size_t i = 1; i < values.size(); ++i) {
      if (values[i].shape() == first) continue;
      return InvalidArgument("TensorArray has inconsistent shapes.  Index 0 has shape: ", first, " but index ", i,
                             " has shape: ", values[i].shape());
    }
    Dims dims(first.dims().begin(), first.dims().end());
    dims.insert(dims.begin(), static_cast<int64_t>(values.size()));
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, shape));
    return JoinTensors(c, values, out);
  }

 private:
  absl::Status SetEmpty(KernelContext& c) const {
    std::optional<Shape> shape = element_shape_.AsShape();
    if (!shape.has_value()) {
      return Unimplemented("TensorArray has size zero, but element shape ", element_shape_,
                           " is not fully defined. Currently only static shapes are supported when packing zero-size "
                           "TensorArrays.");
    }
    shape->InsertDim(0, 0);
    return c.Allocate(0, *shape).status();
  }

  const bool all_;
  PartialShape element_shape_;
};

// Scatter, and Unpack, which writes to all.
absl::Status ScatterRows(KernelContext& c, bool all) {
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  const Tensor& value = c.input(all ? 1 : 2);
  RETURN_IF_ERROR(CheckArrayWrite(*array, value));
  if (value.rank() == 0) {
    return InvalidArgument("Input value for unpack must be at least a vector but received shape: ", value.shape());
  }
  if (value.dim(0) > TensorArray::kMaxSize) return InvalidArgument("tensor dim0 too large to unpack");
  std::vector<int32_t> indices;
  if (all) {
    indices = UpTo(value.dim(0));
  } else {
    ASSIGN_OR_RETURN(indices, IndicesOf(c));
    if (static_cast<int64_t>(indices.size()) != value.dim(0)) {
      return InvalidArgument("Expected len(indices) == values.shape[0], but saw: ", indices.size(), " vs. ",
                             value.dim(0));
    }
  }
  ASSIGN_OR_RETURN(int64_t size, array->Size());
  const int64_t max_index = indices.empty() ? -1 : *std::max_element(indices.begin(), indices.end());
  if (array->has_dynamic_size()) size = std::max(size, max_index + 1);
  if (all && value.dim(0) != size) {
    return InvalidArgument("Input value must have first dimension equal to the array size (", value.dim(0), " vs. ",
                           size, ")");
  }
  if (!all && max_index >= size) {
    return InvalidArgument("Max scatter index must be < array size (", max_index, " vs. ", size, ")");
  }
  // Rows share the memory of the whole.
  Shape shape = value.shape();
  shape.RemoveDim(0);
  std::vector<Tensor> rows;
  rows.reserve(indices.size());
  for (int64_t i = 0; i < value.dim(0); ++i) rows.push_back(value.Rows(i, i + 1).WithShape(shape));
  if (all) array->MarkSize(size);
  RETURN_IF_ERROR(array->Write(indices, std::move(rows)));
  c.set_output(0, c.input(all ? 2 : 3));
  return absl::OkStatus();
}
absl::Status Scatter(KernelContext& c) { return ScatterRows(c, /*all=*/false); }
absl::Status Unpack(KernelContext& c) { return ScatterRows(c, /*all=*/true); }

class ConcatKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(row_shape_, init.Attr<PartialShape>("element_shape_except0"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
    RETURN_IF_ERROR(CheckArrayRead(*array, c.output_type(0)));
    ASSIGN_OR_RETURN(const int64_t size, array->PackSize());
    if (size == 0) return SetEmpty(c);
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, array->Read(UpTo(size)));
    ASSIGN_OR_RETURN(Tensor * lengths, c.Allocate(1, Shape({size})));
    Shape first;
    int64_t rows = 0;
    for (int64_t i = 0; i < size; ++i) {
      Shape shape = values[i].shape();
      if (shape.rank() == 0) {
        return InvalidArgument("Concat saw a scalar shape at index ", i,
                               " but requires at least vectors.  Did you mean to call pack?");
      }
      lengths->mutable_data<int64_t>()[i] = shape.dim(0);
      if (__builtin_add_overflow(rows, shape.dim(0), &rows)) return InvalidArgument("too many rows to concat");
      shape.RemoveDim(0);
      if (i == 0) {
        first = shape;
        if (!row_shape_.Accepts(first)) {
          return InvalidArgument("TensorArray was passed element_shape_except0 ", row_shape_,
                                 " but index 0 has (excepting dimension 0) shape: ", first, " which does not match.");
        }
      } else if (!(shape == first)) {
        return InvalidArgument("TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: ",
                               first, " but index ", i, " has (excepting dimension 0) shape: ", shape);
      }
    }
    Dims dims(first.dims().begin(), first.dims().end());
    dims.insert(dims.begin(), rows);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, shape));
    return JoinTensors(c, values, out);
  }

 private:
  absl::Status SetEmpty(KernelContext& c) const {
    std::optional<Shape> shape = row_shape_.AsShape();
    if (!shape.has_value()) {
      return Unimplemented("TensorArray has size zero, but element_shape_except0 ", row_shape_,
                           " is not fully defined. Currently only static shapes are supported when concatenating "
                           "zero-size TensorArrays.");
    }
    shape->InsertDim(0, 0);
    RETURN_IF_ERROR(c.Allocate(0, *shape).status());
    return c.Allocate(1, Shape({0})).status();
  }

  PartialShape row_shape_;
};

absl::Status Split(KernelContext& c) {
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  const Tensor& value = c.input(1);
  const Tensor& lengths = c.input(2);
  if (!lengths.shape().is_vector()) {
    return InvalidArgument("Expected lengths to be a vector, received shape: ", lengths.shape());
  }
  if (value.rank() == 0) {
    return InvalidArgument("Expected value to be at least a vector, but received shape: ", value.shape());
  }
  int64_t total = 0;
  for (const int64_t length : lengths.flat<int64_t>()) {
    if (length < 0 || length > value.dim(0))
      return InvalidArgument("a length of ", length, " to split ", value.shape());
    if (__builtin_add_overflow(total, length, &total)) return InvalidArgument("lengths of too many rows");
  }
  if (total != value.dim(0)) {
    return InvalidArgument("Expected sum of lengths to be equal to values.shape[0], but sum of lengths is ", total,
                           " and value's shape is: ", value.shape());
  }
  const int64_t count = lengths.num_elements();
  ASSIGN_OR_RETURN(int64_t size, array->Size());
  if (array->has_dynamic_size()) size = std::max(size, count);
  if (size != count) {
    return InvalidArgument("TensorArray's size is not equal to the size of lengths (", size, " vs. ", count,
                           "), and the TensorArray is not marked as dynamically resizeable");
  }
  RETURN_IF_ERROR(CheckArrayWrite(*array, value));
  std::vector<Tensor> parts;
  parts.reserve(count);
  int64_t begin = 0;
  for (const int64_t length : lengths.flat<int64_t>()) {
    parts.push_back(value.Rows(begin, begin + length));
    begin += length;
  }
  array->MarkSize(size);
  RETURN_IF_ERROR(array->Write(UpTo(count), std::move(parts)));
  c.set_output(0, c.input(3));
  return absl::OkStatus();
}

absl::Status GatherShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(1, 1));
  ASSIGN_OR_RETURN(const PartialShape given, c.Attr<PartialShape>("element_shape"));
  ASSIGN_OR_RETURN(const PartialShape element, PartialShape::Merge(given, ArrayElementShape(c)));
  c.set_output(0, Concatenate(indices, element));
  return absl::OkStatus();
}

absl::Status ConcatShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape row, c.Attr<PartialShape>("element_shape_except0"));
  c.set_output(0, Concatenate(PartialShape({PartialShape::kUnknown}), row));
  c.set_output(1, PartialShape({PartialShape::kUnknown}));
  return absl::OkStatus();
}

absl::Status GatherGradient(GradientContext& c) {
  const GradientArray g = ArrayOfGradients(c, c.input(2));
  c.set_dx(2, Output(c.scope().Add("TensorArrayScatterV3", {g.handle, c.input(1), c.dy(), g.flow})));
  return absl::OkStatus();
}

absl::Status ScatterGradient(GradientContext& c) {
  const Output flow = c.dy();
  const GradientArray g = ArrayOfGradients(c, flow);
  c.set_dx(
      2, Output(c.scope().Add("TensorArrayGatherV3", {g.handle, c.input(1), g.flow}, {{"dtype", c.input(2).dtype()}})));
  c.set_dx(3, flow);
  return absl::OkStatus();
}

absl::Status ConcatGradient(GradientContext& c) {
  const GradientArray g = ArrayOfGradients(c, c.input(1));
  c.set_dx(1, Output(c.scope().Add("TensorArraySplitV3", {g.handle, c.dy(0), c.output(1), g.flow})));
  return absl::OkStatus();
}

absl::Status SplitGradient(GradientContext& c) {
  const Output flow = c.dy();
  const GradientArray g = ArrayOfGradients(c, flow);
  c.set_dx(1, Output(c.scope().Add("TensorArrayConcatV3", {g.handle, g.flow}, {{"dtype", c.input(1).dtype()}})));
  c.set_dx(3, flow);
  return absl::OkStatus();
}

Op GatherOp(ArrayVersion v) {
  return WithGradient(ArrayUser("Gather", v)
                          .Input("indices: int32")
                          .Input("flow_in: float")
                          .Output("value: dtype")
                          .Attr("dtype: type")
                          .Attr("element_shape: shape = { unknown_rank: true }")
                          .Shape(GatherShape)
                          .Kernel<GatherKernel>(false),
                      v, GatherGradient);
}
Op ScatterOp(ArrayVersion v) {
  return WithGradient(ArrayUser("Scatter", v)
                          .Input("indices: int32")
                          .Input("value: T")
                          .Input("flow_in: float")
                          .Output("flow_out: float")
                          .Attr("T: type")
                          .Shape(shapes::Scalar)
                          .Compute(Scatter),
                      v, ScatterGradient);
}
Op ConcatOp(ArrayVersion v) {
  return WithGradient(ArrayUser("Concat", v)
                          .Input("flow_in: float")
                          .Output("value: dtype")
                          .Output("lengths: int64")
                          .Attr("dtype: type")
                          .Attr("element_shape_except0: shape = { unknown_rank: true }")
                          .Shape(ConcatShape)
                          .Kernel<ConcatKernel>(),
                      v, ConcatGradient);
}
Op SplitOp(ArrayVersion v) {
  return WithGradient(ArrayUser("Split", v)
                          .Input("value: T")
                          .Input("lengths: int64")
                          .Input("flow_in: float")
                          .Output("flow_out: float")
                          .Attr("T: type")
                          .Shape(shapes::Scalar)
                          .Compute(Split),
                      v, SplitGradient);
}
const OpRegistration kTensorArrayRowsOps[] = {
    GatherOp(ArrayVersion::kRef),
    GatherOp(ArrayVersion::kString),
    GatherOp(ArrayVersion::kResource),
    ScatterOp(ArrayVersion::kRef),
    ScatterOp(ArrayVersion::kString),
    ScatterOp(ArrayVersion::kResource),
    ConcatOp(ArrayVersion::kRef),
    ConcatOp(ArrayVersion::kString),
    ConcatOp(ArrayVersion::kResource),
    SplitOp(ArrayVersion::kRef),
    SplitOp(ArrayVersion::kString),
    SplitOp(ArrayVersion::kResource),
    ArrayUser("Pack", ArrayVersion::kRef)
        .Input("flow_in: float")
        .Output("value: dtype")
        .Attr("dtype: type")
        .Attr("element_shape: shape = { unknown_rank: true }")
        .Shape(shapes::Unknown)
        .Kernel<GatherKernel>(true),
    ArrayUser("Unpack", ArrayVersion::kRef)
        .Input("value: T")
        .Input("flow_in: float")
        .Output("flow_out: float")
        .Attr("T: type")
        .Shape(shapes::Scalar)
        .Compute(Unpack),
};

}  // namespace

Output TensorArrayGather(const Scope& s, Output handle, Output indices, Output flow, DType dtype,
                         const PartialShape& element_shape) {
  return s.Add("TensorArrayGatherV3", {handle, indices, flow}, {{"dtype", dtype}, {"element_shape", element_shape}});
}
Output TensorArrayScatter(const Scope& s, Output handle, Output indices, Output value, Output flow) {
  return s.Add("TensorArrayScatterV3", {handle, indices, value, flow});
}
TensorArrayConcatResult TensorArrayConcat(const Scope& s, Output handle, Output flow, DType dtype) {
  Node* const node = s.Add("TensorArrayConcatV3", {handle, flow}, {{"dtype", dtype}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1)};
}
Output TensorArraySplit(const Scope& s, Output handle, Output value, Output lengths, Output flow) {
  return s.Add("TensorArraySplitV3", {handle, value, lengths, flow});
}

}  // namespace thalweg
