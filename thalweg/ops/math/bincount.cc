// SPDX-License-Identifier: Apache-2.0
// Counting values: Bincount and its dense, sparse and ragged forms count how
// often each number below `size` occurs, or add up weights; with binary_output,
// whether it occurs at all. HistogramFixedWidth counts by ranges of equal width
// between two limits, and Bucketize says in which range each value is.
#include <algorithm>
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

using WeightTypes = Types<int32_t, int64_t, float, double>;

absl::StatusOr<int64_t> ReadSize(const Tensor& size) {
  if (size.rank() != 0) return InvalidArgument("Shape must be rank 0 but is rank ", size.rank());
  const int64_t value = size.dtype() == kInt64 ? size.scalar<int64_t>() : size.scalar<int32_t>();
  if (value < 0) return InvalidArgument("size (", value, ") must be non-negative");
  return value;
}

int64_t IndexAt(const Tensor& t, int64_t i) {
  return t.dtype() == kInt64 ? t.data<int64_t>()[i] : t.data<int32_t>()[i];
}

// Adds value i to row(i) of [rows, size].
template <typename Row>
absl::Status Count(KernelContext& context, const Shape& shape, const Tensor& values, const Tensor& weights, bool binary,
                   const Row& row) {
  const int64_t size = shape.dim(shape.rank() - 1), count = values.num_elements();
  for (int64_t i = 0; i < count; ++i) {
    if (IndexAt(values, i) < 0) return InvalidArgument("Input arr must be non-negative!");
  }
  if (weights.num_elements() != 0 && weights.num_elements() != count) {
    return InvalidArgument("Input indices and weights must have the same size.");
  }
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
  return Dispatch(WeightTypes(), weights.dtype(), [&]<typename T>() {
    T* const bins = out->mutable_data<T>();
    std::fill_n(bins, out->num_elements(), T(0));
    const T* const weight = weights.num_elements() != 0 ? weights.data<T>() : nullptr;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bin = IndexAt(values, i);
      if (bin >= size) continue;
      T& to = bins[row(i) * size + bin];
      to = binary ? T(1) : WrapAdd(to, weight != nullptr ? weight[i] : T(1));
    }
    return absl::OkStatus();
  });
}

absl::Status Bincount(KernelContext& context) {
  ASSIGN_OR_RETURN(const int64_t size, ReadSize(context.input(1)));
  return Count(context, Shape({size}), context.input(0), context.input(2), false, [](int64_t) { return int64_t{0}; });
}

class BincountKernel : public Kernel {
 public:
  enum Form { kDense, kSparse, kRagged };
  explicit BincountKernel(Form form) : form_(form) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(binary_, init.Attr<bool>("binary_output"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    switch (form_) {
      case kDense:
        return Dense(context);
      case kSparse:
        return Sparse(context);
      case kRagged:
        return Ragged(context);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Dense(KernelContext& context) const {
    const Tensor &values = context.input(0), &weights = context.input(2);
    if (values.rank() > 2) return InvalidArgument("Shape must be at most rank 2 but is rank ", values.rank());
    ASSIGN_OR_RETURN(const int64_t size, ReadSize(context.input(1)));
    if (weights.num_elements() != 0 && weights.shape() != values.shape()) {
      return InvalidArgument(
          "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as all weights "
          "equal "
          "to 1. Received ",
          weights.shape());
    }
    if (values.rank() < 2) {
      return Count(context, Shape({size}), values, weights, binary_, [](int64_t) { return int64_t{0}; });
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({values.dim(0), size}));
    return Count(context, shape, values, weights, binary_, [&](int64_t i) { return i / values.dim(1); });
  }

  absl::Status Sparse(KernelContext& context) const {
    ASSIGN_OR_RETURN(const int64_t size, ReadSize(context.input(3)));
    const Tensor &values = context.input(1), &weights = context.input(4);
    ASSIGN_OR_RETURN(const SparseValue sparse,
                     SparseValue::Make(context.input(0), values, context.input(2), SparseValue::kUnordered));
    if (sparse.rank() == 1) {
      return Count(context, Shape({size}), values, weights, binary_, [](int64_t) { return int64_t{0}; });
    }
    if (sparse.rank() == 0) return InvalidArgument("dense_shape must have at least one element");
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({sparse.dims[0], size}));
    return Count(context, shape, values, weights, binary_, [&](int64_t i) { return sparse.row(i)[0]; });
  }

  absl::Status Ragged(KernelContext& context) const {
    const Tensor &splits = context.input(0), &values = context.input(1), &weights = context.input(3);
    ASSIGN_OR_RETURN(const int64_t size, ReadSize(context.input(2)));
    const absl::Span<const int64_t> ends = splits.flat<int64_t>();
    if (ends.empty()) return InvalidArgument("Splits must be non-empty");
    if (ends[0] != 0) return InvalidArgument("Splits must start with 0, not with ", ends[0]);
    if (ends.back() != values.num_elements()) {
      return InvalidArgument("Splits must end with the number of values, got ", ends.back(), " instead of ",
                             values.num_elements());
    }
    if (!std::is_sorted(ends.begin(), ends.end())) return InvalidArgument("Splits must be sorted");
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({static_cast<int64_t>(ends.size()) - 1, size}));
    size_t row = 0;
    return Count(context, shape, values, weights, binary_, [&](int64_t i) {
      while (i >= ends[row + 1]) ++row;
      return static_cast<int64_t>(row);
    });
  }

  const Form form_;
  bool binary_ = false;
};

absl::Status HistogramFixedWidth(KernelContext& context) {
  const Tensor &values = context.input(0), &range = context.input(1), &nbins = context.input(2);
  if (range.rank() != 1) return InvalidArgument("value_range should be a vector.");
  if (range.num_elements() != 2) return InvalidArgument("value_range should be a vector of 2 elements.");
  if (nbins.rank() != 0) return InvalidArgument("nbins should be a scalar.");
  const int32_t bins = nbins.scalar<int32_t>();
  return Dispatch(WeightTypes(), values.dtype(), [&]<typename T>() -> absl::Status {
    const T low = range.data<T>()[0], high = range.data<T>()[1];
    if (!(low < high)) {
      return InvalidArgument("value_range should satisfy value_range[0] < value_range[1], but got '[", low, ", ", high,
                             "]'");
    }
    if (bins <= 0) return InvalidArgument("nbins should be a positive number, but got '", bins, "'");
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape({bins})));
    memset(out->raw(), 0, out->TotalBytes());
    const double step = static_cast<double>(high) / bins - static_cast<double>(low) / bins;
    for (const T value : values.flat<T>()) {
      if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(value)) return InvalidArgument("Histogram values must not contain NaN");
      }
      const double place = (static_cast<double>(std::clamp(value, low, high)) - static_cast<double>(low)) / step;
      // No number where a limit is infinite.
      const auto bin = static_cast<int32_t>(place > 0 ? std::min(place, bins - 1.0) : 0.0);
      if (out->dtype() == kInt64) {
        ++out->mutable_data<int64_t>()[bin];
      } else {
        ++out->mutable_data<int32_t>()[bin];
      }
    }
    return absl::OkStatus();
  });
}

class BucketizeKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(boundaries_, init.Attr<std::vector<float>>("boundaries"));
    if (!std::is_sorted(boundaries_.begin(), boundaries_.end())) return InvalidArgument("Expected sorted boundaries");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.shape()));
    return Dispatch(WeightTypes(), x.dtype(), [&]<typename T>() {
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const auto it = std::upper_bound(boundaries_.begin(), boundaries_.end(), x.data<T>()[i]);
        out->mutable_data<int32_t>()[i] = static_cast<int32_t>(it - boundaries_.begin());
      }
      return absl::OkStatus();
    });
  }

 private:
  std::vector<float> boundaries_;
};

// [size], or [rows, size] if input `values` is of rank 2.
template <int values, int size>
absl::Status BincountShape(ShapeContext& c) {
  const std::optional<Tensor> constant = c.Constant(size);
  int64_t bins = PartialShape::kUnknown;
  if (constant) {
    ASSIGN_OR_RETURN(bins, ReadSize(*constant));
  }
  const PartialShape& shape = c.input(values);
  if (values >= 0 && !shape.has_rank()) return absl::OkStatus();
  if (shape.rank() > 2) return InvalidArgument("Shape must be at most rank 2 but is rank ", shape.rank());
  c.set_output(0, shape.rank() == 2 ? PartialShape({shape.dim(0), bins}) : PartialShape({bins}));
  return absl::OkStatus();
}

absl::Status FlatBincountShape(ShapeContext& c) {
  const std::optional<Tensor> constant = c.Constant(1);
  int64_t bins = PartialShape::kUnknown;
  if (constant) {
    ASSIGN_OR_RETURN(bins, ReadSize(*constant));
  }
  c.set_output(0, PartialShape({bins}));
  return absl::OkStatus();
}

absl::Status HistogramShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  RETURN_IF_ERROR(c.RequireScalar(2));
  const std::optional<Tensor> bins = c.Constant(2);
  if (bins && bins->scalar<int32_t>() <= 0) return InvalidArgument("Requires nbins > 0: ", bins->scalar<int32_t>());
  c.set_output(0, PartialShape({bins ? bins->scalar<int32_t>() : PartialShape::kUnknown}));
  return absl::OkStatus();
}

Op WithTypes(Op& op) {
  return op.Output("output: T")
      .Attr("Tidx: {int32, int64}")
      .Attr("T: {int32, int64, float, double}")
      .Attr("binary_output: bool = false")
      .NotDifferentiable();
}

const OpRegistration kBincountOps[] = {
    Op("Bincount")
        .Input("arr: int32")
        .Input("size: int32")
        .Input("weights: T")
        .Output("bins: T")
        .Attr("T: {int32, int64, float, double}")
        .Shape(FlatBincountShape)
        .Compute(Bincount)
        .NotDifferentiable(),
    WithTypes(Op("DenseBincount").Input("input: Tidx").Input("size: Tidx").Input("weights: T"))
        .Shape(BincountShape<0, 1>)
        .Kernel<BincountKernel>(BincountKernel::kDense),
    WithTypes(Op("SparseBincount")
                  .Input("indices: int64")
                  .Input("values: Tidx")
                  .Input("dense_shape: int64")
                  .Input("size: Tidx")
                  .Input("weights: T"))
        .Shape(shapes::Unknown)
        .Kernel<BincountKernel>(BincountKernel::kSparse),
    WithTypes(Op("RaggedBincount").Input("splits: int64").Input("values: Tidx").Input("size: Tidx").Input("weights: T"))
        .Shape(shapes::Unknown)
        .Kernel<BincountKernel>(BincountKernel::kRagged),
    Op("HistogramFixedWidth")
        .Input("values: T")
        .Input("value_range: T")
        .Input("nbins: int32")
        .Output("out: dtype")
        .Attr("T: {int32, int64, float, double}")
        .Attr("dtype: {int32, int64} = DT_INT32")
        .Shape(HistogramShape)
        .Compute(HistogramFixedWidth)
        .NotDifferentiable(),
    Op("Bucketize")
        .Input("input: T")
        .Output("output: int32")
        .Attr("T: {int32, int64, float, double}")
        .Attr("boundaries: list(float)")
        .Shape(shapes::LikeInput0)
        .Kernel<BucketizeKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
