// SPDX-License-Identifier: Apache-2.0
// Multinomial: num_samples draws per row of `logits` [batch, classes], class c
// with probability softmax(logits)[c]. Logits that are not finite have probability 0.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/random/seeds.h"
#include "thalweg/ops/random_ops.h"

namespace thalweg {
namespace {

// The running sums of exp(logit - largest), by which a uniform number finds its
// class. Returns the total.
template <typename T>
double CumulateRow(const T* logits, int64_t classes, double* sums) {
  double largest = std::numeric_limits<double>::lowest();
  for (int64_t j = 0; j < classes; ++j) {
    const double logit = static_cast<double>(logits[j]);
    if (std::isfinite(logit)) largest = std::max(largest, logit);
  }
  double total = 0;
  for (int64_t j = 0; j < classes; ++j) {
    const double logit = static_cast<double>(logits[j]);
    if (std::isfinite(logit)) total += std::exp(logit - largest);
    sums[j] = total;
  }
  return total;
}

template <typename T, typename Out>
void Sample(const Tensor& logits, int64_t samples, const Philox& generator, Out* out) {
  const int64_t batch = logits.dim(0), classes = logits.dim(1);
  std::vector<double> sums(classes);
  PhiloxSingle next(generator);
  for (int64_t b = 0; b < batch; ++b) {
    const double total = CumulateRow(logits.data<T>() + b * classes, classes, sums.data());
    for (int64_t j = 0; j < samples; ++j) {
      const uint32_t high = next(), low = next();
      const auto found = std::upper_bound(sums.begin(), sums.end(), UnitDouble(high, low) * total);
      *out++ = static_cast<Out>(found - sums.begin());
    }
  }
}

absl::StatusOr<int64_t> CheckInputs(const Tensor& logits, const Tensor& num_samples) {
  if (!logits.shape().is_matrix()) return InvalidArgument("logits should be a matrix, got shape ", logits.shape());
  if (!num_samples.shape().is_scalar()) {
    return InvalidArgument("num_samples should be a scalar, got shape ", num_samples.shape());
  }
  const int64_t samples = num_samples.scalar<int32_t>();
  if (samples < 0) return InvalidArgument("num_samples should be nonnegative, got ", samples);
  if (logits.dim(1) <= 0) return InvalidArgument("num_classes should be positive, got ", logits.dim(1));
  return samples;
}

absl::Status Draw(KernelContext& context, const Tensor& logits, int64_t samples, const Philox& generator) {
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({logits.dim(0), samples}));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  return Dispatch(RealTypes(), logits.dtype(), [&]<typename T>() {
    if (out->dtype() == kInt32) {
      Sample<T>(logits, samples, generator, out->mutable_data<int32_t>());
    } else {
      Sample<T>(logits, samples, generator, out->mutable_data<int64_t>());
    }
    return absl::OkStatus();
  });
}

class MultinomialKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override { return SeedFromAttrs(init, &generator_); }
  absl::Status Compute(KernelContext& context) override {
    const Tensor& logits = context.input(0);
    ASSIGN_OR_RETURN(const int64_t samples, CheckInputs(logits, context.input(1)));
    // Reserves as much of the sequence as TensorFlow: two numbers per sample, 256 times over.
    const uint64_t reserved =
        static_cast<uint64_t>(logits.dim(0)) * static_cast<uint64_t>((samples + 3) / 4 * 4) * 2 * 256;
    return Draw(context, logits, samples, generator_.Reserve(static_cast<int64_t>(reserved)));
  }

 private:
  SharedPhilox generator_;
};

absl::Status StatelessMultinomial(KernelContext& context) {
  const Tensor& logits = context.input(0);
  ASSIGN_OR_RETURN(const int64_t samples, CheckInputs(logits, context.input(1)));
  ASSIGN_OR_RETURN(const Philox generator, PhiloxFromSeed(context.input(2)));
  return Draw(context, logits, samples, generator);
}

absl::Status MultinomialShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape logits, c.WithRank(0, 2));
  RETURN_IF_ERROR(c.RequireScalar(1));
  const std::optional<Tensor> samples = c.Constant(1);
  c.set_output(
      0, PartialShape({logits.dim(0), samples.has_value() ? samples->scalar<int32_t>() : PartialShape::kUnknown}));
  return absl::OkStatus();
}

const OpRegistration kMultinomialOps[] = {
    Op("Multinomial")
        .Input("logits: T")
        .Input("num_samples: int32")
        .Output("output: output_dtype")
        .Attr("seed: int = 0")
        .Attr("seed2: int = 0")
        .Attr("T: realnumbertype")
        .Attr("output_dtype: {int32, int64} = DT_INT64")
        .Stateful()
        .Shape(MultinomialShape)
        .Kernel<MultinomialKernel>()
        .NotDifferentiable(),
    Op("StatelessMultinomial")
        .Input("logits: T")
        .Input("num_samples: int32")
        .Input("seed: Tseed")
        .Output("output: output_dtype")
        .Attr("T: realnumbertype")
        .Attr("Tseed: {int32, int64} = DT_INT64")
        .Attr("output_dtype: {int32, int64} = DT_INT64")
        .Shape(MultinomialShape)
        .Compute(StatelessMultinomial)
        .NotDifferentiable(),
};

}  // namespace

Output Multinomial(const Scope& s, Output logits, const IntArg& num_samples, const RandomOptions& options) {
  return s.Add("Multinomial", {logits, num_samples.AsTensor(s, "num_samples")},
               {{"seed", options.seed}, {"seed2", options.seed2}});
}

}  // namespace thalweg
