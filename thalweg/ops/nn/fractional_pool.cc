// SPDX-License-Identifier: Apache-2.0
// FractionalMaxPool and FractionalAvgPool: pooling of images over regions of
// one or two sizes, so that the output is smaller by a ratio that need not be a
// whole number (Graham, "Fractional Max-Pooling", 2014). Where regions begin is
// drawn at random, and given out for the gradients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

using PoolTypes = Types<int32_t, int64_t, float, double>;

// The sizes of regions: a sequence of the two, shuffled.
std::vector<int64_t> ShuffledSizes(int64_t input, int64_t output, SharedPhilox& generator) {
  std::vector<int64_t> sizes(output, input / output);
  for (int64_t i = 0; i < input % output; ++i) ++sizes[i];
  PhiloxSingle random(generator.Reserve((output + 3) / 4));
  for (int64_t i = 0; i + 1 < output; ++i) std::swap(sizes[i], sizes[i + random() % static_cast<uint32_t>(output - i)]);
  return sizes;
}

// Or ceil(alpha (i + u)) for a random u.
std::vector<int64_t> PseudoRandomSizes(int64_t input, int64_t output, SharedPhilox& generator) {
  const double alpha = static_cast<double>(input) / static_cast<double>(output);
  const int64_t k = input / output;
  const double most = std::min(static_cast<double>(k + 2) / alpha - 1,
                               static_cast<double>(input + 1 - k) / alpha - static_cast<double>(output - 1));
  PhiloxSingle random(generator.Reserve(1));
  const uint32_t a = random(), b = random();
  const double u = UnitDouble(a, b) * most;
  std::vector<int64_t> starts(output + 1), sizes(output);
  starts[0] = 1;
  starts[output] = input + 1;
  for (int64_t i = 1; i < output; ++i)
    starts[i] = static_cast<int64_t>(std::ceil(alpha * (static_cast<double>(i) + u)));
  for (int64_t i = 0; i < output; ++i) sizes[i] = starts[i + 1] - starts[i];
  return sizes;
}

// Regions of one dimension: i covers [start[i], End(i)).
struct Regions {
  std::vector<int64_t> start;
  int64_t input = 0;
  bool overlapping = false;  // adjacent windows share a border
  int64_t count() const { return static_cast<int64_t>(start.size()) - 1; }
  int64_t End(int64_t i) const { return std::min(start[i + 1] + (overlapping ? 1 : 0), input); }
};

// f(region, element) for positions of every region of every image, in order.
template <typename F>
void ForRegions(int64_t batch, const Regions& rows, const Regions& columns, const F& f) {
  int64_t region = 0;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t r = 0; r < rows.count(); ++r) {
      for (int64_t c = 0; c < columns.count(); ++c, ++region) {
        for (int64_t y = rows.start[r]; y < rows.End(r); ++y) {
          for (int64_t x = columns.start[c]; x < columns.End(c); ++x)
            f(region, (b * rows.input + y) * columns.input + x);
        }
      }
    }
  }
}

class FractionalPoolKernel : public Kernel {
 public:
  explicit FractionalPoolKernel(bool average) : average_(average) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(ratio_, init.Attr<std::vector<float>>("pooling_ratio"));
    ASSIGN_OR_RETURN(pseudo_random_, init.Attr<bool>("pseudo_random"));
    ASSIGN_OR_RETURN(overlapping_, init.Attr<bool>("overlapping"));
    ASSIGN_OR_RETURN(const bool deterministic, init.Attr<bool>("deterministic"));
    ASSIGN_OR_RETURN(seed_, init.Attr<int64_t>("seed"));
    ASSIGN_OR_RETURN(seed2_, init.Attr<int64_t>("seed2"));
    if (ratio_.size() != 4) return InvalidArgument("pooling_ratio field must specify 4 dimensions");
    for (const float ratio : ratio_) {
      if (!(ratio >= 1)) return InvalidArgument("pooling_ratio cannot be smaller than 1, got: ", ratio);
    }
    if (ratio_[0] != 1 || ratio_[3] != 1) {
      return Unimplemented("Fractional ", average_ ? "average" : "max",
                           " pooling is not yet supported on the batch nor channel dimension.");
    }
    if (!deterministic && (seed_ != 0 || seed2_ != 0)) {
      return InvalidArgument("Both seed and seed2 should be 0 if deterministic is false.");
    }
    if (deterministic && seed_ == 0 && seed2_ == 0) {  // the same in every step
      SharedPhilox random;
      random.Seed(0, 0);
      const Philox::Block block = random.Reserve(1)();
      seed_ = static_cast<int64_t>(block[0]) + 1;
      seed2_ = static_cast<int64_t>(block[1]);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    if (x.rank() != 4) return InvalidArgument("tensor_in must be 4-dimensional");
    Dims dims(4);
    for (int i = 0; i < 4; ++i) {
      if (static_cast<float>(x.dim(i)) < ratio_[i]) {
        return InvalidArgument("Pooling ratio is higher than input dimension size for dimension ", i,
                               ". Input dim size: ", x.dim(i), " pooling ratio: ", ratio_[i]);
      }
      dims[i] = static_cast<int64_t>(std::floor(static_cast<float>(x.dim(i)) / ratio_[i]));
    }
    SharedPhilox generator;
    generator.Seed(seed_, seed2_);
    Regions regions[2];
    for (int i = 0; i < 2; ++i) {
      const int64_t input = x.dim(1 + i), output = dims[1 + i];
      const std::vector<int64_t> sizes =
          pseudo_random_ ? PseudoRandomSizes(input, output, generator) : ShuffledSizes(input, output, generator);
      regions[i] = {{0}, input, overlapping_};
      for (const int64_t size : sizes) regions[i].start.push_back(regions[i].start.back() + size);
      ASSIGN_OR_RETURN(Tensor * sequence, context.Allocate(1 + i, Shape({output + 1})));
      std::copy(regions[i].start.begin(), regions[i].start.end(), sequence->mutable_data<int64_t>());
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    const int64_t channels = dims[3];
    return Dispatch(PoolTypes(), x.dtype(), [&]<typename T>() {
      T* const y = out->mutable_data<T>();
      std::fill_n(y, out->num_elements(), average_ ? T(0) : std::numeric_limits<T>::lowest());
      std::vector<int64_t> counts(out->num_elements() / std::max<int64_t>(1, channels));
      ForRegions(dims[0], regions[0], regions[1], [&](int64_t region, int64_t place) {
        const T* const from = x.data<T>() + place * channels;
        T* const to = y + region * channels;
        ++counts[region];
        for (int64_t c = 0; c < channels; ++c) to[c] = average_ ? WrapAdd(to[c], from[c]) : std::max(to[c], from[c]);
      });
      for (int64_t i = 0; average_ && i < out->num_elements(); ++i) y[i] /= static_cast<T>(counts[i / channels]);
      return absl::OkStatus();
    });
  }

 private:
  const bool average_;
  std::vector<float> ratio_;
  bool pseudo_random_ = false;
  bool overlapping_ = false;
  int64_t seed_ = 0;
  int64_t seed2_ = 0;
};

class FractionalPoolGradKernel : public Kernel {
 public:
  explicit FractionalPoolGradKernel(bool average) : average_(average) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(overlapping_, init.Attr<bool>("overlapping"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const int first = average_ ? 1 : 2;
    const Tensor& dy = context.input(first);
    Shape shape;
    if (average_) {
      const Tensor& sizes = context.input(0);
      if (sizes.rank() != 1 || sizes.num_elements() != 4) {
        return InvalidArgument("original input tensor shape must be 1-dimensional and 4 elements");
      }
      ASSIGN_OR_RETURN(shape, Shape::Make(sizes.flat<int64_t>()));
    } else {
      shape = context.input(0).shape();
      if (shape.rank() != 4) return InvalidArgument("orig_input should be a tensor of rank 4, got ", shape);
      if (context.input(1).shape() != dy.shape()) {
        return InvalidArgument("orig_output and out_backprop must have one shape, got ", context.input(1).shape(),
                               " and ", dy.shape());
      }
    }
    if (shape.num_elements() == 0) return InvalidArgument("orig_input must not be empty, got ", shape);
    for (const int i : {0, 1}) {
      for (const int64_t start : context.input(first + 1 + i).flat<int64_t>()) {
        if (start >= 0) continue;
        return InvalidArgument(i == 0 ? "Row" : "Column", " sequence tensor values must not be negative, got ", start);
      }
    }
    if (dy.rank() != 4) return InvalidArgument("out_backprop must be 4-dimensional");
    if (dy.dim(0) != shape.dim(0) || dy.dim(3) != shape.dim(3)) {
      return InvalidArgument("out_backprop of shape ", dy.shape(), " does not fit an input of shape ", shape);
    }
    Regions regions[2];
    for (int i = 0; i < 2; ++i) {
      const Tensor& sequence = context.input(first + 1 + i);
      const char* name = i == 0 ? "row" : "col";
      if (sequence.rank() != 1) {
        return InvalidArgument(name, "_pooling_sequence must be a vector, received shape ", sequence.shape());
      }
      if (sequence.num_elements() != dy.dim(1 + i) + 1) {
        return InvalidArgument("Given out_backprop shape ", dy.shape(), ", ", name,
                               "_seq_tensor must have one element more than that dimension, but got ",
                               sequence.num_elements());
      }
      const absl::Span<const int64_t> starts = sequence.flat<int64_t>();
      regions[i] = {std::vector<int64_t>(starts.begin(), starts.end()), shape.dim(1 + i), overlapping_};
      for (const int64_t start : starts) {
        if (start < 0 || start > shape.dim(1 + i)) {
          return InvalidArgument(name, "_pooling_sequence has ", start, " outside of [0, ", shape.dim(1 + i), "]");
        }
      }
    }
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    const int64_t channels = shape.dim(3), positions = dy.num_elements() / channels;
    Tensor wide;
    if (average_) {
      ASSIGN_OR_RETURN(wide, context.AllocateTemporary(kDouble, shape));
      ClearElements(&wide);
    }
    return Dispatch(PoolTypes(), dy.dtype(), [&]<typename T>() -> absl::Status {
      if (average_) {
        double* const sums = wide.mutable_data<double>();
        std::vector<int64_t> counts(positions);
        ForRegions(dy.dim(0), regions[0], regions[1], [&](int64_t region, int64_t) { ++counts[region]; });
        ForRegions(dy.dim(0), regions[0], regions[1], [&](int64_t region, int64_t place) {
          for (int64_t c = 0; c < channels; ++c) {
            sums[place * channels + c] +=
                static_cast<double>(dy.data<T>()[region * channels + c]) / static_cast<double>(counts[region]);
          }
        });
        for (int64_t i = 0; i < shape.num_elements(); ++i) out->mutable_data<T>()[i] = static_cast<T>(sums[i]);
        return absl::OkStatus();
      }
      const T* const x = context.input(0).data<T>();
      std::vector<int64_t> best(dy.num_elements(), -1);
      ForRegions(dy.dim(0), regions[0], regions[1], [&](int64_t region, int64_t place) {
        for (int64_t c = 0; c < channels; ++c) {
          int64_t& at = best[region * channels + c];
          if (at < 0 || x[at] < x[place * channels + c]) at = place * channels + c;
        }
      });
      ClearElements(out);
      for (size_t i = 0; i < best.size(); ++i) {
        if (best[i] < 0) return InvalidArgument("Invalid input backprop index: ", best[i], ", ", shape.num_elements());
        if (!(x[best[i]] == context.input(1).data<T>()[i])) {
          return InvalidArgument("tensor_out_dup is not the same as tensor_out");
        }
        T& to = out->mutable_data<T>()[best[i]];
        to = WrapAdd(to, dy.data<T>()[i]);
      }
      return absl::OkStatus();
    });
  }

 private:
  const bool average_;
  bool overlapping_ = false;
};

absl::Status FractionalShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const std::vector<float> ratio, c.Attr<std::vector<float>>("pooling_ratio"));
  if (ratio.size() != 4) return InvalidArgument("pooling_ratio field must specify 4 dimensions");
  Dims dims(4, PartialShape::kUnknown);
  for (int i = 0; i < 4; ++i) {
    if (!(ratio[i] >= 1)) return InvalidArgument("pooling_ratio cannot be smaller than 1, got: ", ratio[i]);
    if (input.dim(i) >= 0) {
      dims[i] = static_cast<int64_t>(std::floor(static_cast<float>(input.dim(i)) / ratio[i]));
    }
  }
  c.set_output(0, PartialShape(std::move(dims)));
  for (int i = 1; i < 3; ++i) c.set_output(i, PartialShape::OfRank(1));
  return absl::OkStatus();
}
absl::Status AvgGradShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape shape, c.ConstantAsShape(0));
  c.set_output(0, shape.has_rank() && shape.rank() == 4 ? shape : PartialShape::OfRank(4));
  return absl::OkStatus();
}

Op Fractional(const char* name, bool average) {
  return Op(name)
      .Input("value: T")
      .Output("output: T")
      .Output("row_pooling_sequence: int64")
      .Output("col_pooling_sequence: int64")
      .Attr("pooling_ratio: list(float) >= 4")
      .Attr("pseudo_random: bool = false")
      .Attr("overlapping: bool = false")
      .Attr("deterministic: bool = false")
      .Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Attr("T: {float, double, int32, int64}")
      .Shape(FractionalShape)
      .Kernel<FractionalPoolKernel>(average);
}

Op FractionalGrad(Op& op, bool average) {
  return op.Input("out_backprop: T")
      .Input("row_pooling_sequence: int64")
      .Input("col_pooling_sequence: int64")
      .Output("output: T")
      .Attr("overlapping: bool = false")
      .Attr("T: {float, double, int32, int64}")
      .Kernel<FractionalPoolGradKernel>(average);
}

const OpRegistration kFractionalPoolOps[] = {
    Fractional("FractionalMaxPool", false),
    Fractional("FractionalAvgPool", true),
    FractionalGrad(Op("FractionalMaxPoolGrad").Input("orig_input: T").Input("orig_output: T"), false)
        .Shape(shapes::LikeInput0),
    FractionalGrad(Op("FractionalAvgPoolGrad").Input("orig_input_tensor_shape: int64"), true).Shape(AvgGradShape),
};

}  // namespace
}  // namespace thalweg
