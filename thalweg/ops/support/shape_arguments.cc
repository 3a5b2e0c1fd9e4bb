// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/shape_arguments.h"

#include <algorithm>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

template <typename T>
void CopyAsInt64(const Tensor& t, Dims* out) {
  const T* const values = t.data<T>();
  for (size_t i = 0; i < out->size(); ++i) (*out)[i] = static_cast<int64_t>(values[i]);
}

}  // namespace

Dims ReadIntegers(const Tensor& t) {
  Dims values(t.num_elements());
  switch (t.dtype()) {
    case kInt32:
      CopyAsInt64<int32_t>(t, &values);
      break;
    case kInt64:
      CopyAsInt64<int64_t>(t, &values);
      break;
    case kInt16:
      CopyAsInt64<int16_t>(t, &values);
      break;
    case kInt8:
      CopyAsInt64<int8_t>(t, &values);
      break;
    case kUint8:
      CopyAsInt64<uint8_t>(t, &values);
      break;
    case kUint16:
      CopyAsInt64<uint16_t>(t, &values);
      break;
    default:
      CHECK(false) << "not integers: " << ToString(t.dtype());
  }
  return values;
}

int64_t ReadInteger(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case kInt32:
      return t.data<int32_t>()[i];
    case kInt64:
      return t.data<int64_t>()[i];
    case kInt16:
      return t.data<int16_t>()[i];
    case kInt8:
      return t.data<int8_t>()[i];
    case kUint8:
      return t.data<uint8_t>()[i];
    case kUint16:
      return t.data<uint16_t>()[i];
    default:
      CHECK(false) << "not integers: " << ToString(t.dtype());
  }
  return 0;
}

absl::StatusOr<int64_t> ReadScalar(const Tensor& t, absl::string_view what) {
  if (t.rank() != 0) return InvalidArgument(what, " must be a scalar, got shape ", t.shape());
  return ReadInteger(t);
}

absl::StatusOr<Shape> ReadShape(const Tensor& t, absl::string_view what) {
  if (t.rank() != 1) return InvalidArgument(what, " must be a vector of {int32,int64}, got shape ", t.shape());
  return Shape::Make(ReadIntegers(t));
}

absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return InvalidArgument("axis ", axis, " is out of range [", -rank, ", ", rank, ")");
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::optional<Dims> ConstantIntegers(const ShapeContext& c, int i) {
  const std::optional<Tensor> value = c.Constant(i);
  if (!value.has_value()) return std::nullopt;
  return ReadIntegers(*value);
}

int64_t AddDims(int64_t a, int64_t b) {
  int64_t sum;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) return PartialShape::kUnknown;
  return sum;
}

int64_t MultiplyDims(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t product;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return PartialShape::kUnknown;
  return product;
}

absl::StatusOr<int64_t> MergeDims(int64_t a, int64_t b) {
  if (a < 0) return b;
  if (b < 0 || a == b) return a;
  return InvalidArgument("Dimensions must be equal, but are ", a, " and ", b);
}

int64_t DimOf(const PartialShape& shape, int i) { return shape.has_rank() ? shape.dim(i) : PartialShape::kUnknown; }

PartialShape Concatenate(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) return PartialShape();
  Dims dims(a.dims().begin(), a.dims().end());
  dims.insert(dims.end(), b.dims().begin(), b.dims().end());
  return PartialShape(std::move(dims));
}

PartialShape SubShape(const PartialShape& shape, int begin, int end) {
  if (!shape.has_rank()) return PartialShape();
  if (end < 0) end = shape.rank();
  return PartialShape(Dims(shape.dims().begin() + begin, shape.dims().begin() + end));
}

}  // namespace thalweg
