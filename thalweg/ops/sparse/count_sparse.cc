// SPDX-License-Identifier: Apache-2.0
// DenseCountSparseOutput, SparseCountSparseOutput, RaggedCountSparseOutput: how
// often, or with which sum of weights, each integer is in a vector or in each row
// of a matrix, as a sparse tensor.
#include <algorithm>
#include <map>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

class CountKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(least_, init.Attr<int64_t>("minlength"));
    ASSIGN_OR_RETURN(most_, init.Attr<int64_t>("maxlength"));
    ASSIGN_OR_RETURN(binary_, init.Attr<bool>("binary_output"));
    return absl::OkStatus();
  }

 protected:
  // Counts `values`; element i belongs to row `row(i)`. `is_vector`: there is one
  // row, and the result has no dimension for it.
  template <typename Row>
  absl::Status Count(KernelContext& c, const Tensor& values, const Tensor& weights, int64_t rows, bool is_vector,
                     const Row& row) const {
    if (weights.num_elements() > 0 && !(weights.shape() == values.shape())) {
      return InvalidArgument("Weights and values must have the same shape. Weight shape: ", weights.shape(),
                             "; values shape: ", values.shape());
    }
    return Dispatch(IndexTypes(), values.dtype(), [&]<typename T>() {
      return Dispatch(Types<int32_t, int64_t, float, double>(), c.output_type(1), [&]<typename W>() -> absl::Status {
        std::map<int64_t, std::map<int64_t, W>> counts;  // by row, of those that have any
        int64_t largest = -1;
        for (int64_t i = 0; i < values.num_elements(); ++i) {
          const int64_t value = values.data<T>()[i];
          if (value < 0 || (most_ > 0 && value >= most_)) continue;
          const int64_t r = row(i);
          if (r < 0 || r >= rows) return InvalidArgument("element ", i, " is in row ", r, " of ", rows);
          W& count = counts[r][value];
          if (binary_) {
            count = W(1);
          } else {
            count += weights.num_elements() > 0 ? weights.data<W>()[i] : W(1);
          }
          largest = std::max(largest, value);
        }
        if (largest == std::numeric_limits<int64_t>::max()) return InvalidArgument("value ", largest, " is too large");
        const int64_t width = most_ > 0 ? most_ : std::max(largest + 1, least_);
        return Write(c, counts, rows, width, is_vector);
      });
    });
  }

 private:
  template <typename W>
  static absl::Status Write(KernelContext& c, const std::map<int64_t, std::map<int64_t, W>>& counts, int64_t rows,
                            int64_t width, bool is_vector) {
    int64_t total = 0;
    for (const auto& [row, of_row] : counts) total += static_cast<int64_t>(of_row.size());
    const int rank = is_vector ? 1 : 2;
    ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(0, Shape({total, rank})));
    ASSIGN_OR_RETURN(Tensor* const values, c.Allocate(1, Shape({total})));
    ASSIGN_OR_RETURN(Tensor* const shape, c.Allocate(2, Shape({rank})));
    int64_t* index = indices->mutable_data<int64_t>();
    W* value = values->mutable_data<W>();
    for (const auto& [row, of_row] : counts) {
      for (const auto& [key, count] : of_row) {
        if (!is_vector) *index++ = row;
        *index++ = key;
        *value++ = count;
      }
    }
    if (!is_vector) shape->mutable_data<int64_t>()[0] = rows;
    shape->mutable_data<int64_t>()[rank - 1] = width;
    return absl::OkStatus();
  }

  int64_t least_ = -1, most_ = -1;
  bool binary_ = false;
};

class DenseCountKernel final : public CountKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(0);
    if (values.rank() != 1 && values.rank() != 2) {
      return InvalidArgument("Input must be a 1 or 2-dimensional tensor. Got: ", values.shape());
    }
    const bool is_vector = values.rank() == 1;
    const int64_t width = values.dim(values.rank() - 1);
    return Count(c, values, c.input(1), is_vector ? 1 : values.dim(0), is_vector,
                 [&](int64_t i) { return is_vector ? 0 : i / width; });
  }
};

class SparseCountKernel final : public CountKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor &indices = c.input(0), &values = c.input(1), &shape = c.input(2);
    if (indices.rank() != 2) {
      return InvalidArgument("Input indices must be a 2-dimensional tensor. Got: ", indices.shape());
    }
    if (values.rank() != 1) return InvalidArgument("Input values must be a vector. Got: ", values.shape());
    if (shape.rank() != 1) return InvalidArgument("Input dense_shape must be a vector. Got: ", shape.shape());
    if (values.dim(0) != indices.dim(0)) {
      return InvalidArgument("Number of values must match first dimension of indices. Got ", values.dim(0),
                             " values, indices shape: ", indices.shape());
    }
    if (shape.dim(0) != indices.dim(1)) {
      return InvalidArgument("Number of dimensions must match second dimension of indices. Got ", shape.dim(0),
                             " dimensions, indices shape: ", indices.shape());
    }
    if (shape.dim(0) == 0) return InvalidArgument("The shape argument requires at least one element.");
    const bool is_vector = shape.dim(0) == 1;
    const int64_t rows = is_vector ? 1 : shape.data<int64_t>()[0], rank = indices.dim(1);
    if (rows < 0) return InvalidArgument("dense_shape must not be negative, got ", rows, " rows");
    return Count(c, values, c.input(3), rows, is_vector,
                 [&](int64_t i) { return is_vector ? 0 : indices.data<int64_t>()[i * rank]; });
  }
};

class RaggedCountKernel final : public CountKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor &splits = c.input(0), &values = c.input(1);
    const absl::Span<const int64_t> ends = splits.flat<int64_t>();
    if (splits.rank() != 1) return InvalidArgument("Splits must be a vector. Got: ", splits.shape());
    if (ends.empty()) return InvalidArgument("Must provide at least one splits element.");
    if (ends[0] != 0) return InvalidArgument("Splits must start with 0, not with ", ends[0]);
    if (ends.back() != values.num_elements()) {
      return InvalidArgument("Splits must end with the number of values, got ", ends.back(), " instead of ",
                             values.num_elements());
    }
    if (!std::is_sorted(ends.begin(), ends.end())) return InvalidArgument("Splits must not decrease");
    if (values.rank() != 1) return InvalidArgument("Values must be a vector. Got: ", values.shape());
    return Count(c, values, c.input(2), static_cast<int64_t>(ends.size()) - 1, false,
                 [&](int64_t i) { return std::upper_bound(ends.begin(), ends.end(), i) - ends.begin() - 1; });
  }
};

absl::Status CountShape(ShapeContext& c) {
  const int rank = c.node().op() == "DenseCountSparseOutput" && c.input(0).has_rank() ? c.input(0).rank() : -1;
  c.set_output(0, PartialShape({PartialShape::kUnknown, rank}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape({rank}));
  return absl::OkStatus();
}

Op Counts(Op op) {
  return op.Output("output_indices: int64")
      .Output("output_values: output_type")
      .Output("output_dense_shape: int64")
      .Attr("T: {int32, int64}")
      .Attr("minlength: int >= -1 = -1")
      .Attr("maxlength: int >= -1 = -1")
      .Attr("binary_output: bool")
      .Attr("output_type: {int32, int64, float, double}")
      .Shape(CountShape)
      .NotDifferentiable();
}

const OpRegistration kCountSparseOps[] = {
    Counts(Op("DenseCountSparseOutput").Input("values: T").Input("weights: output_type")).Kernel<DenseCountKernel>(),
    Counts(Op("SparseCountSparseOutput")
               .Input("indices: int64")
               .Input("values: T")
               .Input("dense_shape: int64")
               .Input("weights: output_type"))
        .Kernel<SparseCountKernel>(),
    Counts(Op("RaggedCountSparseOutput").Input("splits: int64").Input("values: T").Input("weights: output_type"))
        .Kernel<RaggedCountKernel>(),
};

}  // namespace
}  // namespace thalweg
