// SPDX-License-Identifier: Apache-2.0
#include "thalweg/checkpoint/tensor_slice.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using Extent = TensorSlice::Extent;

// Codes whose bytes have the order of what they stand for.

// The number of bytes, then these, high ones first.
void AppendOrdered(std::string* code, uint64_t value) {
  const int bytes = (std::bit_width(value) + 7) / 8;
  code->push_back(static_cast<char>(bytes));
  for (int i = bytes - 1; i >= 0; --i) code->push_back(static_cast<char>(value >> (8 * i)));
}

// The text, with its 0 and 255 marked, and an end that is below every other.
void AppendOrdered(std::string* code, absl::string_view text) {
  for (const char c : text) {
    code->push_back(c);
    if (c == '\0') code->push_back('\xff');
    if (c == '\xff') code->push_back('\0');
  }
  code->append("\0\1", 2);
}

// Two's complement, high bytes first, in as few bytes n as leave room for a head
// of n ones and a zero. The head is laid over the sign's bits with xor, so that
// negative numbers have its complement and come first.
void AppendOrderedSigned(std::string* code, int64_t value) {
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  const int bytes = std::bit_width(magnitude) / 7 + 1;
  std::string text;
  for (int i = bytes - 1; i >= 0; --i)
    text.push_back(static_cast<char>(i >= 8 ? (value < 0 ? -1 : 0) : value >> (8 * i)));
  for (int bit = 0; bit < bytes; ++bit) text[bit / 8] = static_cast<char>(text[bit / 8] ^ (0x80 >> (bit % 8)));
  code->append(text);
}

// The intersection of two extents of a dimension, with an explicit length (0 if they are
// disjoint).
Extent Common(const Extent& a, const Extent& b, int64_t size) {
  const auto end = [&](const Extent& e) { return e.full() ? size : e.start + e.length; };
  const int64_t start = std::max(a.start, b.start);
  return {start, std::max<int64_t>(std::min(end(a), end(b)) - start, 0)};
}

absl::Status CheckExtent(const Extent& e, absl::string_view text) {
  if (e.full() && e.start == 0) return absl::OkStatus();
  if (e.start < 0 || e.length <= 0) {
    return InvalidArgument("Expected non-negative start and positive length but got start = ", e.start,
                           ", length = ", e.length, ": string = ", text);
  }
  if (e.length > std::numeric_limits<int64_t>::max() - e.start) {
    return InvalidArgument("Extent end exceeds the maximum possible size: string = ", text);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TensorSlice> TensorSlice::Parse(absl::string_view text) {
  std::vector<Extent> extents;
  for (const absl::string_view item : absl::StrSplit(text, ':', absl::SkipEmpty())) {
    Extent extent;
    if (item != "-") {
      const std::vector<absl::string_view> pair = absl::StrSplit(item, ',', absl::SkipEmpty());
      if (pair.size() != 2 || !absl::SimpleAtoi(pair[0], &extent.start) || !absl::SimpleAtoi(pair[1], &extent.length)) {
        return InvalidArgument("Expected a pair of numbers or '-' but got '", item, "': string = ", text);
      }
      if (extent.full()) extent.length = 0;  // a length of -1 in a file does not mean the whole dimension
      RETURN_IF_ERROR(CheckExtent(extent, text));
    }
    extents.push_back(extent);
  }
  return TensorSlice(std::move(extents));
}

absl::StatusOr<TensorSlice> TensorSlice::FromProto(const tensorflow::TensorSliceProto& proto) {
  std::vector<Extent> extents;
  for (const auto& e : proto.extent()) {
    const Extent extent{e.start(), e.has_length_case() == e.kLength ? e.length() : Extent::kFull};
    RETURN_IF_ERROR(CheckExtent(extent, proto.ShortDebugString()));
    extents.push_back(extent);
  }
  return TensorSlice(std::move(extents));
}

void TensorSlice::ToProto(tensorflow::TensorSliceProto* proto) const {
  proto->Clear();
  for (const Extent& e : extents_) {
    auto* const extent = proto->add_extent();
    if (e.full()) continue;
    extent->set_start(e.start);
    extent->set_length(e.length);
  }
}

std::string TensorSlice::ToString() const {
  return absl::StrJoin(extents_, ":", [](std::string* out, const Extent& e) {
    e.full() ? absl::StrAppend(out, "-") : absl::StrAppend(out, e.start, ",", e.length);
  });
}

bool TensorSlice::IsFull() const {
  return std::all_of(extents_.begin(), extents_.end(), [](const Extent& e) { return e.full(); });
}

bool TensorSlice::Covers(const Shape& shape) const {
  for (int i = 0; i < rank(); ++i) {
    if (!extents_[i].full() && extents_[i].length != shape.dim(i)) return false;
  }
  return true;
}

absl::StatusOr<Shape> TensorSlice::SliceShape(const Shape& shape) const {
  if (shape.rank() != rank()) return Internal("Mismatching ranks: shape = ", shape, ", slice = ", ToString());
  Dims dims;
  for (int i = 0; i < rank(); ++i) {
    const Extent& e = extents_[i];
    if (!e.full() && (e.start > shape.dim(i) || e.length > shape.dim(i) - e.start)) {
      return Internal("Extent in dimension ", i, " out of bounds: shape = ", shape, ", slice = ", ToString());
    }
    dims.push_back(e.full() ? shape.dim(i) : e.length);
  }
  return Shape::Make(dims);
}

std::string TensorSlice::Key(absl::string_view name) const {
  std::string code;
  AppendOrdered(&code, uint64_t{0});
  AppendOrdered(&code, name);
  AppendOrdered(&code, static_cast<uint64_t>(rank()));
  for (const Extent& e : extents_) {
    AppendOrderedSigned(&code, e.start);
    AppendOrderedSigned(&code, e.length);
  }
  return code;
}

absl::StatusOr<ShapeAndSlice> ParseShapeAndSlice(absl::string_view text) {
  std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  if (parts.size() < 2) {
    return InvalidArgument("Need least two elements in shape_and_slice specification: ", text);
  }
  ShapeAndSlice result;
  ASSIGN_OR_RETURN(result.slice, TensorSlice::Parse(parts.back()));
  parts.pop_back();
  Dims dims;
  for (const absl::string_view part : parts) {
    int64_t dim;
    if (!absl::SimpleAtoi(part, &dim)) {
      return InvalidArgument("Non numerical dimension in shape_and_slice: ", text);
    }
    dims.push_back(dim);
  }
  ASSIGN_OR_RETURN(result.shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(result.slice_shape, result.slice.SliceShape(result.shape));
  return result;
}

int64_t CountIntersection(const Shape& shape, const TensorSlice& a, const TensorSlice& b) {
  int64_t count = 1;
  for (int i = 0; i < shape.rank(); ++i) count *= Common(a.extent(i), b.extent(i), shape.dim(i)).length;
  return count;
}

bool Tile(const Shape& shape, const TensorSlice& slice, const std::vector<TensorSlice>& parts) {
  int64_t missing = CountIntersection(shape, slice, slice);
  std::vector<const TensorSlice*> used;
  for (const TensorSlice& part : parts) {
    const int64_t count = CountIntersection(shape, part, slice);
    if (count == 0) continue;
    // Parts apart from each other that together have the right size leave no gap.
    for (const TensorSlice* other : used) {
      if (CountIntersection(shape, part, *other) > 0) return false;
    }
    used.push_back(&part);
    missing -= count;
  }
  return missing == 0;
}

int64_t CopyIntersection(const Shape& shape, const TensorSlice& from_slice, const Tensor& from,
                         const TensorSlice& to_slice, Tensor* to) {
  const int64_t count = CountIntersection(shape, from_slice, to_slice);
  if (count == 0) return 0;
  // Row by row, a row being the common part along the last dimension. `index`
  // counts through the rows; the places of both sides are kept beside it.
  const int rank = shape.rank();
  Dims lengths, from_strides(rank, 1), to_strides(rank, 1);
  int64_t from_place = 0, to_place = 0;
  for (int i = rank - 1; i >= 0; --i) {
    if (i + 1 < rank) {
      from_strides[i] = from_strides[i + 1] * from.dim(i + 1);
      to_strides[i] = to_strides[i + 1] * to->dim(i + 1);
    }
    const Extent common = Common(from_slice.extent(i), to_slice.extent(i), shape.dim(i));
    lengths.insert(lengths.begin(), common.length);
    from_place += (common.start - from_slice.extent(i).start) * from_strides[i];
    to_place += (common.start - to_slice.extent(i).start) * to_strides[i];
  }
  const int64_t row = rank == 0 ? 1 : lengths[rank - 1];
  const auto copy_row = [&] {
    if (from.dtype() == kString) {
      std::copy_n(from.data<std::string>() + from_place, row, to->mutable_data<std::string>() + to_place);
    } else {
      const size_t size = ElementSize(from.dtype());
      std::memcpy(static_cast<char*>(to->raw()) + to_place * size,
                  static_cast<const char*>(from.raw()) + from_place * size, row * size);
    }
  };
  Dims index(rank, 0);
  while (true) {
    copy_row();
    int i = rank - 2;
    for (; i >= 0; --i) {
      from_place += from_strides[i];
      to_place += to_strides[i];
      if (++index[i] < lengths[i]) break;
      from_place -= index[i] * from_strides[i];
      to_place -= index[i] * to_strides[i];
      index[i] = 0;
    }
    if (i < 0) return count;
  }
}

}  // namespace thalweg
