// SPDX-License-Identifier: Apache-2.0
// DynamicStitch interleaves rows of several tensors by number:
//
//   merged[indices[m][i...]] = data[m][i...]
//
// where the later of two rows with one number wins. Rows that have no number
// are zero. DynamicPartition does the reverse: row i goes to the output
// partitions[i], in order.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

bool StartsWith(const Shape& shape, const Shape& prefix) {
  return prefix.rank() <= shape.rank() && shape.dims().subspan(0, prefix.rank()) == prefix.dims();
}

// "[1,2]" for element `i` of a tensor of this shape; nothing for a scalar.
std::string IndexText(const Shape& shape, int64_t i) {
  if (shape.is_scalar()) return "";
  Dims index(shape.rank());
  for (int d = shape.rank() - 1; d >= 0; i /= shape.dim(d--)) index[d] = i % shape.dim(d);
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

// Checks all inputs and gives the number of rows.
absl::StatusOr<int64_t> CheckStitch(KernelContext& c, int n) {
  int64_t largest = -1;
  const Shape& first_data = c.input(n).shape();
  const Shape& first_indices = c.input(0).shape();
  for (int m = 0; m < n; ++m) {
    const Tensor& indices = c.input(m);
    const Shape& data = c.input(n + m).shape();
    if (!StartsWith(data, indices.shape())) {
      return InvalidArgument("data[", m, "].shape = ", data, " does not start with indices[", m,
                             "].shape = ", indices.shape());
    }
    if (m > 0 && data.dims().subspan(indices.rank()) != first_data.dims().subspan(first_indices.rank())) {
      return InvalidArgument("Need data[0].shape[", first_indices.rank(), ":] = data[", m, "].shape[", indices.rank(),
                             ":], got data[0].shape = ", first_data, ", data[", m, "].shape = ", data,
                             ", indices[0].shape = ", first_indices, ", indices[", m, "].shape = ", indices.shape());
    }
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      const int32_t index = indices.data<int32_t>()[i];
      if (index < 0) return InvalidArgument("indices[", i, "] is out of range: ", index);
      largest = std::max<int64_t>(largest, index);
    }
  }
  return largest + 1;
}

absl::Status ComputeStitch(KernelContext& c) {
  const int n = c.num_inputs() / 2;
  ASSIGN_OR_RETURN(const int64_t rows, CheckStitch(c, n));
  const Shape& data = c.input(n).shape();
  Dims dims = {rows};
  dims.insert(dims.end(), data.dims().begin() + c.input(0).rank(), data.dims().end());
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const merged, c.Allocate(0, shape));
  const int64_t inner = data.Product(c.input(0).rank(), data.rank());
  if (inner == 0) return absl::OkStatus();  // rows of nothing may be many
  absl::InlinedVector<bool, 64> seen(rows, false);
  return DispatchBySize(merged->dtype(), [&]<typename T>() {
    T* const to = MutableElementData<T>(merged);
    for (int m = 0; m < n; ++m) {
      const T* from = ElementData<T>(c.input(n + m));
      for (const int32_t index : c.input(m).flat<int32_t>()) {
        CopyElements(from, inner, to + index * inner);
        seen[index] = true;
        from += inner;
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      if (!seen[row]) std::fill_n(to + row * inner, inner, T());
    }
    return absl::OkStatus();
  });
}

absl::Status StitchShape(ShapeContext& c) {
  const int n = c.num_inputs() / 2;
  int64_t rows = 0;
  PartialShape row;
  for (int m = 0; m < n; ++m) {
    const PartialShape &indices = c.input(m), &data = c.input(n + m);
    if (const std::optional<Dims> constant = ConstantIntegers(c, m); constant.has_value() && rows >= 0) {
      for (const int64_t index : *constant) rows = std::max(rows, index + 1);
    } else {
      rows = PartialShape::kUnknown;
    }
    if (!indices.has_rank() || !data.has_rank()) continue;
    if (indices.rank() > data.rank()) {
      return InvalidArgument("data[", m, "].shape = ", data, " does not start with indices[", m, "].shape = ", indices);
    }
    RETURN_IF_ERROR(PartialShape::Merge(SubShape(data, 0, indices.rank()), indices).status());
    ASSIGN_OR_RETURN(row, PartialShape::Merge(row, SubShape(data, indices.rank())));
  }
  c.set_output(0, Concatenate({rows}, row));
  return absl::OkStatus();
}

absl::Status StitchGradient(GradientContext& c) {
  const int n = c.node()->num_inputs() / 2;
  const Output dy = c.dy();
  for (int m = 0; m < n; ++m) c.set_dx(n + m, Gather(c.scope(), dy, c.input(m)));
  return absl::OkStatus();
}

// DynamicPartition

absl::Status ComputePartition(KernelContext& c) {
  const Tensor& data = c.input(0);
  const Tensor& partitions = c.input(1);
  const int n = c.num_outputs();
  if (!StartsWith(data.shape(), partitions.shape())) {
    return InvalidArgument("data.shape must start with partitions.shape, got data.shape = ", data.shape(),
                           ", partitions.shape = ", partitions.shape());
  }
  const absl::Span<const int32_t> part = partitions.flat<int32_t>();
  absl::InlinedVector<int64_t, 16> counts(n, 0);
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] < 0 || part[i] >= n) {
      return InvalidArgument("partitions", IndexText(partitions.shape(), i), " = ", part[i], " is not in [0, ", n, ")");
    }
    ++counts[part[i]];
  }
  Dims dims = {0};
  dims.insert(dims.end(), data.shape().dims().begin() + partitions.rank(), data.shape().dims().end());
  const int64_t inner = data.shape().Product(partitions.rank(), data.rank());
  absl::InlinedVector<Tensor*, 16> outputs(n);
  for (int i = 0; i < n; ++i) {
    dims[0] = counts[i];
    ASSIGN_OR_RETURN(outputs[i], c.Allocate(i, Shape(dims)));
  }
  return DispatchBySize(data.dtype(), [&]<typename T>() {
    absl::InlinedVector<T*, 16> to(n);
    for (int i = 0; i < n; ++i) to[i] = MutableElementData<T>(outputs[i]);
    const T* from = ElementData<T>(data);
    for (const int32_t p : part) {
      CopyElements(from, inner, to[p]);
      from += inner;
      to[p] += inner;
    }
    return absl::OkStatus();
  });
}

absl::Status PartitionShape(ShapeContext& c) {
  const PartialShape &data = c.input(0), &partitions = c.input(1);
  if (!data.has_rank() || !partitions.has_rank()) return absl::OkStatus();
  if (partitions.rank() > data.rank()) {
    return InvalidArgument("data.shape must start with partitions.shape, got ", data, " and ", partitions);
  }
  RETURN_IF_ERROR(PartialShape::Merge(SubShape(data, 0, partitions.rank()), partitions).status());
  const PartialShape part = Concatenate({PartialShape::kUnknown}, SubShape(data, partitions.rank()));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, part);
  return absl::OkStatus();
}

// The numbers of all rows, partitioned as they were, say where each belongs.
absl::Status PartitionGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const int n = c.node()->num_outputs();
  const Output data = c.input(0), partitions = c.input(1);
  const Output rows = Range(s, Const(s, 0), Size(s, partitions), Const(s, 1));
  const Output numbers = Reshape(s, rows, ShapeOf(s, partitions));
  std::vector<Output> dys;
  for (int i = 0; i < n; ++i) dys.push_back(c.dy(i));
  const Output merged = s.Add("ParallelDynamicStitch", {DynamicPartition(s, numbers, partitions, n), dys});
  c.set_dx(0, Reshape(s, merged, ShapeOf(s, data)));
  return absl::OkStatus();
}

Op StitchOp(absl::string_view name) {
  return Op(name)
      .Input("indices: N * int32")
      .Input("data: N * T")
      .Output("merged: T")
      .Attr("N: int >= 1")
      .Attr("T: type")
      .Shape(StitchShape)
      .Compute(ComputeStitch)
      .Gradient(StitchGradient);
}

const OpRegistration kDynamicStitchOps[] = {
    StitchOp("DynamicStitch"),
    StitchOp("ParallelDynamicStitch"),
    Op("DynamicPartition")
        .Input("data: T")
        .Input("partitions: int32")
        .Output("outputs: num_partitions * T")
        .Attr("num_partitions: int >= 1")
        .Attr("T: type")
        .Shape(PartitionShape)
        .Compute(ComputePartition)
        .Gradient(PartitionGradient),
};

}  // namespace

Output DynamicStitch(const Scope& s, const std::vector<Output>& indices, const std::vector<Output>& data) {
  return s.Add("DynamicStitch", {indices, data});
}

std::vector<Output> DynamicPartition(const Scope& s, Output data, Output partitions, int num_partitions) {
  Node* const node = s.Add("DynamicPartition", {data, partitions}, {{"num_partitions", num_partitions}});
  std::vector<Output> outputs;
  for (int i = 0; i < num_partitions; ++i) outputs.emplace_back(node, i);
  return outputs;
}

}  // namespace thalweg
