// SPDX-License-Identifier: Apache-2.0
// Shapes. A Shape belongs to a tensor: every dimension is known. A PartialShape is
// what a graph knows before it runs: the rank or single dimensions may be unknown.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tensorflow {
class TensorShapeProto;
}

namespace thalweg {

// The dimensions of a shape.
using Dims = absl::InlinedVector<int64_t, 4>;

// The shape of a tensor. Dimensions are >= 0 and their product fits into int64. A value; cheap to copy.
class Shape {
 public:
  static constexpr int kMaxRank = 254;  // the most dimensions that a shape has

  Shape() = default;  // a scalar
  // REQUIRES: valid dimensions (CHECKed). For dimensions that come from
  // outside, use Make.
  Shape(std::initializer_list<int64_t> dims);
  // As above.
  explicit Shape(absl::Span<const int64_t> dims);

  // INVALID_ARGUMENT for negative dimensions, too many of them, or a product
  // that overflows.
  static absl::StatusOr<Shape> Make(absl::Span<const int64_t> dims);
  /// @cond INTERNAL
  static absl::StatusOr<Shape> FromProto(const tensorflow::TensorShapeProto& proto);
  void ToProto(tensorflow::TensorShapeProto* proto) const;
  /// @endcond

  int rank() const { return static_cast<int>(dims_.size()); }  // number of dimensions
  int64_t dim(int i) const { return dims_[i]; }                // REQUIRES: 0 <= i < rank()
  absl::Span<const int64_t> dims() const { return dims_; }     // all dimensions
  int64_t num_elements() const { return num_elements_; }       // product of the dimensions
  bool is_scalar() const { return dims_.empty(); }             // rank 0
  bool is_vector() const { return dims_.size() == 1; }         // rank 1
  bool is_matrix() const { return dims_.size() == 2; }         // rank 2

  // Change one dimension. REQUIRES: the result is valid:
  void set_dim(int i, int64_t size);
  void AddDim(int64_t size);
  void InsertDim(int i, int64_t size);
  void RemoveDim(int i);
  // Product of dimensions [begin, end).
  int64_t Product(int begin, int end) const;

  std::string ToString() const;  // "[2,3]"
  // True if the dimensions are the same.
  friend bool operator==(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }

 private:
  Dims dims_;
  int64_t num_elements_ = 1;
};

// A shape that may be partly unknown: without a rank, or with some unknown dimensions (-1).
class PartialShape {
 public:
  static constexpr int64_t kUnknown = -1;  // stands for a dimension that is not known

  PartialShape() = default;  // unknown rank
  // The rank is known: {-1, 784} has an unknown first dimension, {} is a scalar.
  PartialShape(std::initializer_list<int64_t> dims) : dims_(Dims(dims)) {}
  // As above.
  explicit PartialShape(Dims dims) : dims_(std::move(dims)) {}
  // Fully known.
  PartialShape(const Shape& shape) : dims_(Dims(shape.dims().begin(), shape.dims().end())) {}  // NOLINT: a Shape is one

  // `rank` unknown dimensions.
  static PartialShape OfRank(int rank) { return PartialShape(Dims(rank, kUnknown)); }
  /// @cond INTERNAL
  static absl::StatusOr<PartialShape> FromProto(const tensorflow::TensorShapeProto& proto);
  void ToProto(tensorflow::TensorShapeProto* proto) const;
  /// @endcond

  // True if the number of dimensions is known.
  bool has_rank() const { return dims_.has_value(); }
  // Number of dimensions; -1 if it is not known.
  int rank() const { return has_rank() ? static_cast<int>(dims_->size()) : -1; }
  // REQUIRES: has_rank() and 0 <= i < rank().
  int64_t dim(int i) const { return (*dims_)[i]; }
  absl::Span<const int64_t> dims() const { return *dims_; }  // REQUIRES: has_rank()
  bool fully_known() const;                                  // every dimension is known
  std::optional<Shape> AsShape() const;                      // if fully known
  // Product of the dimensions; -1 if not fully known.
  int64_t num_elements() const;

  // True if a tensor of `shape` may appear where this is expected.
  bool Accepts(const Shape& shape) const;
  // Combines what is known of both: {-1, 3} and {2, -1} give {2, 3}. INVALID_ARGUMENT if they
  // contradict each other.
  static absl::StatusOr<PartialShape> Merge(const PartialShape& a, const PartialShape& b);

  std::string ToString() const;  // "[?,784]", "<unknown>"
  // True if the same is known.
  friend bool operator==(const PartialShape& a, const PartialShape& b) { return a.dims_ == b.dims_; }

 private:
  std::optional<Dims> dims_;
};

}  // namespace thalweg
