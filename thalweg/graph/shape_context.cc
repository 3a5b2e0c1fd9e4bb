// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/shape_context.h"

#include <algorithm>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

std::optional<Tensor> ConstantValue(const Output& output) {
  const Node* node = output.node;
  while (node->op() == "Identity" || node->op() == "StopGradient") node = node->input(0).node;
  if (node->op() != "Const") return std::nullopt;
  absl::StatusOr<Tensor> value = GetAttr<Tensor>(node->def(), "value");
  if (!value.ok()) return std::nullopt;
  return *std::move(value);
}

std::vector<int64_t> IntegerElements(const Tensor& t) {
  std::vector<int64_t> values;
  if (t.dtype() == kInt32) values.assign(t.flat<int32_t>().begin(), t.flat<int32_t>().end());
  if (t.dtype() == kInt64) values.assign(t.flat<int64_t>().begin(), t.flat<int64_t>().end());
  return values;
}

absl::StatusOr<PartialShape> MakeShape(Dims dims) {
  if (dims.size() > Shape::kMaxRank)
    return InvalidArgument("shape has ", dims.size(), " dimensions, at most ", Shape::kMaxRank);
  return PartialShape(std::move(dims));
}

// A dimension that a scalar describes; -1 if unknown.
int64_t SizeOf(const Output& output) {
  const std::optional<Tensor> value = ConstantValue(output);
  if (!value.has_value() || value->num_elements() != 1) return PartialShape::kUnknown;
  const std::vector<int64_t> v = IntegerElements(*value);
  return v.empty() ? PartialShape::kUnknown : v[0];
}

// The shape that sizes describe of which only the number is known.
PartialShape OfLength(const PartialShape& sizes) {
  const bool known = sizes.has_rank() && sizes.rank() == 1 && sizes.dim(0) >= 0 && sizes.dim(0) <= Shape::kMaxRank;
  return known ? PartialShape::OfRank(static_cast<int>(sizes.dim(0))) : PartialShape();
}

// The shape that a vector of sizes describes, if it is not a concatenation.
absl::StatusOr<PartialShape> PartAsShape(const Output& output) {
  if (const std::optional<Tensor> value = ConstantValue(output)) {
    if (value->rank() == 0) {
      // A scalar -1 means an unknown shape, as in TensorFlow.
      const std::vector<int64_t> v = IntegerElements(*value);
      if (v.size() == 1 && v[0] == -1) return PartialShape();
      return InvalidArgument("shape must be a vector, got a scalar");
    }
    Dims dims;
    for (const int64_t size : IntegerElements(*value)) {
      if (size < -1) return InvalidArgument("Dimension ", size, " must be >= -1 in a shape");
      dims.push_back(size);
    }
    if (value->rank() != 1) return InvalidArgument("shape must be a vector, got shape ", value->shape());
    return MakeShape(std::move(dims));
  }
  const Node& node = *output.node;
  if (node.op() == "Shape") return node.input(0).shape();
  if (node.op() == "Pack") {
    Dims dims;
    for (const Output& input : node.inputs()) dims.push_back(std::max<int64_t>(SizeOf(input), -1));
    return MakeShape(std::move(dims));
  }
  return OfLength(output.shape());
}

// The parts of concatenations, from left to right.
absl::StatusOr<PartialShape> SizesAsShape(const Output& output) {
  // A shape has at most kMaxRank dimensions, but parts may be empty, and may occur in other
  // parts many times. The limit bounds the work.
  constexpr int kMaxParts = 4 * Shape::kMaxRank;
  std::vector<Output> left{output};
  Dims dims;
  for (int parts = 0; !left.empty(); ++parts) {
    if (parts == kMaxParts) return OfLength(output.shape());
    const Output part = left.back();
    left.pop_back();
    const Node& node = *part.node;
    if (node.op() == "ConcatV2") {
      for (int i = node.num_inputs() - 2; i >= 0; --i) left.push_back(node.input(i));
      continue;
    }
    ASSIGN_OR_RETURN(const PartialShape shape, PartAsShape(part));
    if (!shape.has_rank()) return PartialShape();
    dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
    if (dims.size() > Shape::kMaxRank) break;
  }
  return MakeShape(std::move(dims));
}

}  // namespace

const PartialShape& ShapeContext::input(int i) const { return node_.input(i).shape(); }

std::optional<Tensor> ShapeContext::Constant(int i) const { return ConstantValue(node_.input(i)); }

absl::StatusOr<PartialShape> ShapeContext::ConstantAsShape(int i) const { return SizesAsShape(node_.input(i)); }

absl::StatusOr<PartialShape> ShapeContext::WithRank(int i, int rank) const {
  const PartialShape& shape = input(i);
  if (!shape.has_rank()) return PartialShape::OfRank(rank);
  if (shape.rank() == rank) return shape;
  return InvalidArgument("Shape must be rank ", rank, " but is rank ", shape.rank(), " for input ", i, " ", shape);
}

absl::StatusOr<PartialShape> BroadcastShape(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) return PartialShape();
  const int rank = std::max(a.rank(), b.rank());
  Dims dims(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank());
    const int ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a.dim(ia);
    const int64_t db = ib < 0 ? 1 : b.dim(ib);
    if (da == 1) {
      dims[i] = db;
    } else if (db == 1 || da == db) {
      dims[i] = da;
    } else if (da == -1 || db == -1) {
      dims[i] = std::max(da, db);  // the known one: the other must be it, or 1
    } else {
      return InvalidArgument("Dimensions must be equal, but are ", da, " and ", db, " for shapes ", a, " and ", b);
    }
  }
  return PartialShape(std::move(dims));
}

namespace shapes {

absl::Status Unknown(ShapeContext&) { return absl::OkStatus(); }

absl::Status Scalar(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, Shape());
  return absl::OkStatus();
}

absl::Status Vector(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status LikeInput0(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(0));
  return absl::OkStatus();
}

absl::Status Broadcast(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, BroadcastShape(c.input(0), c.input(1)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status NoOutputs(ShapeContext&) { return absl::OkStatus(); }

absl::Status MergeInputs(ShapeContext& c) {
  PartialShape merged;
  for (int i = 0; i < c.num_inputs(); ++i) {
    ASSIGN_OR_RETURN(merged, PartialShape::Merge(merged, c.input(i)));
  }
  c.set_output(0, std::move(merged));
  return absl::OkStatus();
}

absl::Status FromShapeAttr(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.Attr<PartialShape>("shape"));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

}  // namespace shapes
}  // namespace thalweg
