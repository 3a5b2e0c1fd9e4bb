// SPDX-License-Identifier: Apache-2.0
// A slice of a tensor: an interval in each dimension. Checkpoints of partitioned variables
// consist of slices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/proto/tensor_bundle.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

class TensorSlice {
 public:
  // The interval in one dimension: [start, start + length), or the whole dimension.
  struct Extent {
    static constexpr int64_t kFull = -1;
    int64_t start = 0;
    int64_t length = kFull;
    bool full() const { return length == kFull; }
    friend bool operator==(const Extent&, const Extent&) = default;
  };

  TensorSlice() = default;
  explicit TensorSlice(std::vector<Extent> extents) : extents_(std::move(extents)) {}
  static TensorSlice Full(int rank) { return TensorSlice(std::vector<Extent>(rank)); }

  // Parses "0,5:-:3,2": start and length of each dimension, or "-" for the whole dimension.
  static absl::StatusOr<TensorSlice> Parse(absl::string_view text);
  static absl::StatusOr<TensorSlice> FromProto(const tensorflow::TensorSliceProto& proto);
  void ToProto(tensorflow::TensorSliceProto* proto) const;
  std::string ToString() const;

  int rank() const { return static_cast<int>(extents_.size()); }
  const Extent& extent(int i) const { return extents_[i]; }
  bool IsFull() const;
  // True if the slice contains the whole of a tensor of `shape`, even if its extents are
  // explicit. REQUIRES: it fits into the shape.
  bool Covers(const Shape& shape) const;
  friend bool operator==(const TensorSlice&, const TensorSlice&) = default;

  // The shape of this slice of a tensor of `shape`. INTERNAL, as in TensorFlow, if it does not
  // fit.
  absl::StatusOr<Shape> SliceShape(const Shape& shape) const;

  // The key of this slice in an index. The encoding preserves the order of the names, then of
  // the extents.
  std::string Key(absl::string_view name) const;

 private:
  std::vector<Extent> extents_;
};

// The shape_and_slice of a save or restore op: "4 5 0,2:-" is the first two rows of a tensor
// of shape [4,5].
struct ShapeAndSlice {
  Shape shape;  // shape of the whole tensor
  TensorSlice slice;
  Shape slice_shape;
};
absl::StatusOr<ShapeAndSlice> ParseShapeAndSlice(absl::string_view text);

// Copies the intersection of two slices of a tensor of `shape`. Returns the number of
// elements. REQUIRES: the slices fit into the shape, and the tensors have the slices' shapes
// and the same type.
int64_t CopyIntersection(const Shape& shape, const TensorSlice& from_slice, const Tensor& from,
                         const TensorSlice& to_slice, Tensor* to);
// The number of elements in the intersection.
int64_t CountIntersection(const Shape& shape, const TensorSlice& a, const TensorSlice& b);
// True if every element of `slice` is in exactly one of `parts`.
bool Tile(const Shape& shape, const TensorSlice& slice, const std::vector<TensorSlice>& parts);

}  // namespace thalweg
