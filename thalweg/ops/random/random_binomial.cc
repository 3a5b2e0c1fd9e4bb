// SPDX-License-Identifier: Apache-2.0
// StatelessRandomBinomial and StatefulRandomBinomial: how many of `counts` tries succeed that do so with
// probability `probs`, with TensorFlow's values for the same seeds. The shape
// ends with that of the parameters, which broadcast. Where few successes are
// expected, by sums of geometric numbers; else by transformed rejection
// (Hormann 1993, "The generation of binomial random variates", BTRS).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/random/random_state.h"

namespace thalweg {
namespace {

// How much of the sequence is reserved per element. Sums of geometric numbers have at most ten
// terms on average.
constexpr uint64_t kBlocksPerRejection = 256, kBlocksPerSum = 42;

// Two doubles a block, the last first.
class Uniforms {
 public:
  explicit Uniforms(Philox generator) : generator_(generator) {}
  double operator()() {
    if (left_ == 0) {
      const Philox::Block b = generator_();
      values_[0] = UnitDouble(b[0], b[1]);
      values_[1] = UnitDouble(b[2], b[3]);
      left_ = 2;
    }
    return values_[--left_];
  }

 private:
  Philox generator_;
  double values_[2] = {};
  int left_ = 0;
};

double ByGeometric(double count, double p, Uniforms& random) {
  double tries = 0, successes = 0;
  while (true) {
    tries += std::ceil(std::log(random()) / std::log1p(-p));
    if (!(tries <= count)) return successes;
    ++successes;
  }
}

// The error of Stirling's formula for log(k!).
double StirlingTail(double k) {
  static constexpr double kTails[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                      0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                                      0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return kTails[static_cast<int>(k)];
  const double square = (k + 1) * (k + 1);
  return (1. / 12 - (1. / 360 - 1. / 1260 / square) / square) / (k + 1);
}

double ByRejection(double count, double p, Uniforms& random) {
  const double deviation = std::sqrt(count * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5;
  const double tight = 0.92 - 4.2 / b, r = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation;
  const double m = std::floor((count + 1) * p);
  constexpr int kTries = 100000;  // counts beyond all precision would never end
  for (int i = 0; i < kTries; ++i) {
    const double u = random() - 0.5;
    double v = random();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= tight) return k;
    if (!(k >= 0 && k <= count)) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + StirlingTail(m) +
                         StirlingTail(count - m) - StirlingTail(k) - StirlingTail(count - k);
    if (v <= bound) return k;
  }
  return m;
}

double Binomial(double count, double p, Philox generator, uint64_t element) {
  if (std::isnan(count) || std::isnan(p)) return std::numeric_limits<double>::quiet_NaN();
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  const double rarer = std::min(p, 1 - p);
  const bool many = count * rarer >= 10;
  generator.Skip((many ? kBlocksPerRejection : kBlocksPerSum) * element);
  Uniforms random(generator);
  const double x = many ? ByRejection(count, rarer, random) : ByGeometric(count, rarer, random);
  return p <= 0.5 ? x : count - x;
}

using Numbers = Types<Half, float, double, int32_t, int64_t>;

// The elements of `t`, repeated to `shape`. REQUIRES: they broadcast.
absl::StatusOr<Tensor> Repeated(KernelContext& c, const Tensor& t, const Shape& shape) {
  ASSIGN_OR_RETURN(Tensor repeated, c.AllocateTemporary(kDouble, shape));
  double* const values = repeated.mutable_data<double>();
  RETURN_IF_ERROR(Dispatch(Numbers(), t.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      int64_t rest = i, at = 0, stride = 1;
      for (int d = shape.rank() - 1, own = t.rank() - 1; own >= 0; --d, --own) {
        if (t.dim(own) != 1) at += rest % shape.dim(d) * stride;
        stride *= t.dim(own);
        rest /= shape.dim(d);
      }
      if constexpr (std::is_same_v<T, Half>) {
        values[i] = static_cast<float>(t.data<T>()[at]);
      } else {
        values[i] = static_cast<double>(t.data<T>()[at]);
      }
    }
    return absl::OkStatus();
  }));
  return repeated;
}

template <typename T>
T Result(double x) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(x)) return 0;
    if (!(x < static_cast<double>(std::numeric_limits<T>::max()))) return std::numeric_limits<T>::max();
    return static_cast<T>(x);
  } else if constexpr (std::is_same_v<T, Half>) {
    return Half(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

// The generator of a stateful op, whose parameters have `batches` elements.
absl::StatusOr<Philox> NextGenerator(KernelContext& c, int64_t batches, int64_t samples) {
  return AdvanceState(c, static_cast<uint64_t>(batches) * 2 * 100 * (static_cast<uint64_t>(samples) + 3) / 4);
}

template <bool kStateful>
absl::Status ComputeBinomial(KernelContext& c) {
  constexpr int kShape = kStateful ? 2 : 0;
  ASSIGN_OR_RETURN(const Shape shape, RandomShape(c.input(kShape)));
  if (kStateful) RETURN_IF_ERROR(CheckAlgorithm(c, 1));
  const Tensor &counts = c.input(kStateful ? 3 : 2), &probs = c.input(kStateful ? 4 : 3);
  ASSIGN_OR_RETURN(const PartialShape joined, BroadcastShape(counts.shape(), probs.shape()));
  const Shape parameters(joined.dims());
  const int lead = shape.rank() - parameters.rank();
  if (lead < 0 || shape.dims().subspan(lead) != parameters.dims()) {
    return InvalidArgument("Shape passed in must end with broadcasted shape ", parameters, ", got ", shape);
  }
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  const int64_t total = shape.num_elements(), batches = parameters.num_elements();
  if (total == 0) return absl::OkStatus();
  const int64_t samples = total / batches;
  ASSIGN_OR_RETURN(const Philox generator, kStateful ? NextGenerator(c, batches, samples) : PhiloxFromSeed(c.input(1)));
  ASSIGN_OR_RETURN(const Tensor all_counts, Repeated(c, counts, parameters));
  ASSIGN_OR_RETURN(const Tensor all_probs, Repeated(c, probs, parameters));
  const double *const n = all_counts.data<double>(), *const p = all_probs.data<double>();
  return Dispatch(Numbers(), out->dtype(), [&]<typename T>() {
    c.ParallelFor(total, 200, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / samples;
        out->mutable_data<T>()[i % samples * batches + batch] = Result<T>(Binomial(n[batch], p[batch], generator, i));
      }
    });
    return absl::OkStatus();
  });
}

template <int kInput>
absl::Status BinomialShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape shape, c.ConstantAsShape(kInput));
  c.set_output(0, shape);
  return absl::OkStatus();
}

Op Binomial(Op op) {
  return op.Attr("T: {half, float, double, int32, int64} = DT_DOUBLE")
      .Attr("dtype: {half, float, double, int32, int64} = DT_INT64")
      .Input("counts: T")
      .Input("probs: T")
      .Output("output: dtype")
      .NotDifferentiable();
}

const OpRegistration kRandomBinomialOps[] = {
    Binomial(Op("StatelessRandomBinomial")
                 .Input("shape: S")
                 .Input("seed: Tseed")
                 .Attr("S: {int32, int64}")
                 .Attr("Tseed: {int32, int64} = DT_INT64"))
        .Shape(BinomialShape<0>)
        .Compute(ComputeBinomial<false>),
    Binomial(Op("StatefulRandomBinomial")
                 .Input("resource: resource")
                 .Input("algorithm: int64")
                 .Input("shape: S")
                 .Attr("S: {int32, int64}"))
        .Stateful()
        .Shape(BinomialShape<2>)
        .Compute(ComputeBinomial<true>),
};

}  // namespace
}  // namespace thalweg
