// TensorSlice: a box cut out of a tensor, as checkpoints of partitioned
// variables name it.
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
  // Along one dimension: [start, start + length), or everything.
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

  // "0,5:-:3,2": start and length, or "-" for everything. INVALID_ARGUMENT if it
  // is nothing like that.
  static absl::StatusOr<TensorSlice> Parse(absl::string_view text);
  static absl::StatusOr<TensorSlice> FromProto(const tensorflow::TensorSliceProto& proto);
  void ToProto(tensorflow::TensorSliceProto* proto) const;
  std::string ToString() const;

  int rank() const { return static_cast<int>(extents_.size()); }
  const Extent& extent(int i) const { return extents_[i]; }
  bool IsFull() const;
  // True if it is all of a tensor of `shape`, whether or not it says so.
  // REQUIRES: it fits into the shape.
  bool Covers(const Shape& shape) const;
  friend bool operator==(const TensorSlice&, const TensorSlice&) = default;

  // The shape that is cut out of `shape`; INTERNAL, as in TensorFlow, if it does
  // not fit.
  absl::StatusOr<Shape> SliceShape(const Shape& shape) const;

  // The key of this part of a tensor in an index: a code whose order is that of
  // the names, then of the numbers.
  std::string Key(absl::string_view name) const;

 private:
  std::vector<Extent> extents_;
};

// What the shape_and_slice of a save or restore op says: "4 5 0,2:-" is the
// first two rows of a tensor of [4,5].
struct ShapeAndSlice {
  Shape shape;  // of the whole
  TensorSlice slice;
  Shape slice_shape;
};
absl::StatusOr<ShapeAndSlice> ParseShapeAndSlice(absl::string_view text);

// Copies what two parts of a tensor of `shape` have in common. Returns the
// number of elements. REQUIRES: the slices fit into the shape, the tensors have
// their shapes and one type.
int64_t CopyIntersection(const Shape& shape, const TensorSlice& from_slice, const Tensor& from,
                         const TensorSlice& to_slice, Tensor* to);
// Only counts.
int64_t CountIntersection(const Shape& shape, const TensorSlice& a, const TensorSlice& b);
// True if every element of `slice` is in exactly one of `parts`.
bool Tile(const Shape& shape, const TensorSlice& slice, const std::vector<TensorSlice>& parts);

}  // namespace thalweg
