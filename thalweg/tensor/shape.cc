// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/shape.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/proto/tensor.pb.h"

namespace thalweg {
namespace {

std::string Join(absl::Span<const int64_t> dims) {
  std::string text = "[";
  for (const int64_t dim : dims) {
    if (text.size() > 1) text += ",";
    text += dim == PartialShape::kUnknown ? "?" : std::to_string(dim);
  }
  return text + "]";
}

// The product of `dims`; unknown ones and zeros count as 1, so that no product
// of some of them overflows either. nullopt if it does not fit.
std::optional<int64_t> Magnitude(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    if (dim > 0 && __builtin_mul_overflow(product, dim, &product)) return std::nullopt;
  }
  return product;
}

// OK for dimensions of at least `smallest` (0, or -1 where unknown ones are
// allowed) that make a shape.
absl::Status Validate(absl::Span<const int64_t> dims, int64_t smallest) {
  if (dims.size() > Shape::kMaxRank) {
    return InvalidArgument("shape has ", dims.size(), " dimensions, at most ", Shape::kMaxRank, " are allowed");
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < smallest) {
      return InvalidArgument("shape [", absl::StrJoin(dims, ","), "]: dimension ", i, " is ", dims[i],
                             ", expected at least ", smallest);
    }
  }
  if (!Magnitude(dims)) {
    return InvalidArgument("shape ", Join(dims),
                           " has more than 2^63-1 elements. Encountered overflow when multiplying its dimensions.");
  }
  return absl::OkStatus();
}

// REQUIRES: valid dimensions.
int64_t CountElements(absl::Span<const int64_t> dims) {
  return std::find(dims.begin(), dims.end(), 0) != dims.end() ? 0 : *Magnitude(dims);
}

absl::StatusOr<Dims> DimsFromProto(const tensorflow::TensorShapeProto& proto) {
  if (proto.dim_size() > Shape::kMaxRank) {
    return InvalidArgument("shape has ", proto.dim_size(), " dimensions, at most ", Shape::kMaxRank, " are allowed");
  }
  Dims dims;
  for (const auto& dim : proto.dim()) dims.push_back(dim.size());
  return dims;
}

}  // namespace

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(absl::MakeConstSpan(dims.begin(), dims.size())) {}

Shape::Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {
  const absl::Status valid = Validate(dims, 0);
  CHECK(valid.ok()) << valid.message();
  num_elements_ = CountElements(dims);
}

absl::StatusOr<Shape> Shape::Make(absl::Span<const int64_t> dims) {
  RETURN_IF_ERROR(Validate(dims, 0));
  Shape shape;
  shape.dims_.assign(dims.begin(), dims.end());
  shape.num_elements_ = CountElements(dims);
  return shape;
}

absl::StatusOr<Shape> Shape::FromProto(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return InvalidArgument("shape has an unknown rank, expected a fully known shape");
  ASSIGN_OR_RETURN(const Dims dims, DimsFromProto(proto));
  return Make(dims);
}

void Shape::ToProto(tensorflow::TensorShapeProto* proto) const {
  proto->Clear();
  for (const int64_t dim : dims_) proto->add_dim()->set_size(dim);
}

void Shape::set_dim(int i, int64_t size) {
  dims_[i] = size;
  *this = Shape(dims());
}

void Shape::AddDim(int64_t size) { InsertDim(rank(), size); }

void Shape::InsertDim(int i, int64_t size) {
  CHECK(0 <= i && i <= rank()) << "dimension " << i << " of " << ToString();
  dims_.insert(dims_.begin() + i, size);
  *this = Shape(dims());
}

void Shape::RemoveDim(int i) {
  CHECK(0 <= i && i < rank()) << "dimension " << i << " of " << ToString();
  dims_.erase(dims_.begin() + i);
  num_elements_ = CountElements(dims_);
}

int64_t Shape::Product(int begin, int end) const {
  CHECK(0 <= begin && begin <= end && end <= rank()) << begin << " to " << end << " of " << ToString();
  return CountElements(dims().subspan(begin, end - begin));
}

std::string Shape::ToString() const { return Join(dims_); }

absl::StatusOr<PartialShape> PartialShape::FromProto(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) {
    if (proto.dim_size() == 0) return PartialShape();
    return InvalidArgument("shape has an unknown rank and ", proto.dim_size(), " dimensions, expected none");
  }
  ASSIGN_OR_RETURN(Dims dims, DimsFromProto(proto));
  RETURN_IF_ERROR(Validate(dims, kUnknown));
  return PartialShape(std::move(dims));
}

void PartialShape::ToProto(tensorflow::TensorShapeProto* proto) const {
  proto->Clear();
  if (!has_rank()) return proto->set_unknown_rank(true);
  for (const int64_t dim : *dims_) proto->add_dim()->set_size(dim);
}

bool PartialShape::fully_known() const {
  return has_rank() && std::all_of(dims_->begin(), dims_->end(), [](int64_t dim) { return dim != kUnknown; });
}

std::optional<Shape> PartialShape::AsShape() const {
  if (!fully_known()) return std::nullopt;
  absl::StatusOr<Shape> shape = Shape::Make(*dims_);
  if (!shape.ok()) return std::nullopt;
  return *std::move(shape);
}

int64_t PartialShape::num_elements() const {
  const std::optional<Shape> shape = AsShape();
  return shape ? shape->num_elements() : -1;
}

bool PartialShape::Accepts(const Shape& shape) const {
  if (!has_rank()) return true;
  return std::equal(dims_->begin(), dims_->end(), shape.dims().begin(), shape.dims().end(),
                    [](int64_t expected, int64_t got) { return expected == kUnknown || expected == got; });
}

absl::StatusOr<PartialShape> PartialShape::Merge(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank()) return b;
  if (!b.has_rank()) return a;
  if (a.rank() != b.rank()) return InvalidArgument("shapes differ in rank: ", a, " and ", b);
  Dims dims = *a.dims_;
  for (int i = 0; i < b.rank(); ++i) {
    if (dims[i] == kUnknown) {
      dims[i] = b.dim(i);
    } else if (b.dim(i) != kUnknown && b.dim(i) != dims[i]) {
      return InvalidArgument("shapes differ in dimension ", i, ": ", a, " and ", b);
    }
  }
  return PartialShape(std::move(dims));
}

std::string PartialShape::ToString() const { return has_rank() ? Join(*dims_) : "<unknown>"; }

}  // namespace thalweg
