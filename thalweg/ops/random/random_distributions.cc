// SPDX-License-Identifier: Apache-2.0
// Random numbers of other distributions, with TensorFlow's values for the same
// seeds: RandomGamma (Marsaglia and Tsang 2000), RandomPoisson (Hormann 1993, or
// Knuth's product for small rates), ParameterizedTruncatedNormal (Robert 1995).
// Gamma and Poisson give samples of shape [shape, parameters]; every element has
// a stretch of the sequence to itself. The stateless forms have a seed as an
// input, and their shape includes that of the parameters.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/random/seeds.h"

namespace thalweg {
namespace {

constexpr int64_t kBlocksPerOutput = 256;

// Uniform and normal doubles, two per block, last first; both kinds take blocks
// of one sequence.
class Doubles {
 public:
  explicit Doubles(Philox generator) : generator_(generator) {}
  double Uniform() {
    if (uniforms_ == 0) {
      const Philox::Block b = generator_();
      uniform_[0] = UnitDouble(b[0], b[1]);
      uniform_[1] = UnitDouble(b[2], b[3]);
      uniforms_ = 2;
    }
    return uniform_[--uniforms_];
  }
  double Normal() {
    if (normals_ == 0) {
      const Philox::Block b = generator_();
      BoxMuller(b[0], b[1], b[2], b[3], &normal_[0], &normal_[1]);
      normals_ = 2;
    }
    return normal_[--normals_];
  }

 private:
  Philox generator_;
  double uniform_[2] = {}, normal_[2] = {};
  int uniforms_ = 0, normals_ = 0;
};

double Gamma(double alpha, Doubles& random) {
  if (alpha == 1) return -std::log1p(-random.Uniform());
  const bool small = alpha < 1;
  const double d = alpha + (small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / std::sqrt(d);
  if (!(d > 0)) return std::numeric_limits<double>::quiet_NaN();
  while (true) {
    const double x = random.Normal();
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = random.Uniform();
    if (u < 1 - 0.0331 * (x * x) * (x * x) || std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) {
      return small ? d * v * std::pow(random.Uniform(), 1 / alpha) : d * v;
    }
  }
}

// Not above `most`, the largest number of the result's type.
double Poisson(double rate, double most, Doubles& random) {
  if (!(rate >= 0)) return std::numeric_limits<double>::quiet_NaN();
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double product = 1;
    for (double x = 0;; x += 1) {
      product *= random.Uniform();
      if (product <= limit && x <= most) return x;
    }
  }
  if (std::isinf(rate)) return rate;
  const double log_rate = std::log(rate), b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  constexpr int kTries = 100000;  // rates far above `most` would never end
  for (int i = 0; i < kTries; ++i) {
    const double u = random.Uniform() - 0.5, v = random.Uniform();
    const double shifted = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / shifted + b) * u + rate + 0.43);
    if (k > most) continue;
    if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
    int sign;
    if (std::log(v * inverse_alpha / (a / (shifted * shifted) + b)) <= -rate + k * log_rate - lgamma_r(k + 1, &sign)) {
      return k;
    }
  }
  return most;
}

using SampleTypes = Types<float, double, Half, int32_t, int64_t>;

template <typename T>
double ToDouble(T x) {
  if constexpr (std::is_same_v<T, Half>) {
    return static_cast<double>(static_cast<float>(x));
  } else {
    return static_cast<double>(x);
  }
}
template <typename T>
T FromDouble(double x) {
  if constexpr (std::is_same_v<T, Half>) {
    return Half(static_cast<float>(x));
  } else if constexpr (std::is_integral_v<T>) {
    if (!(x < static_cast<double>(std::numeric_limits<T>::max())))
      return std::isnan(x) ? T(0) : std::numeric_limits<T>::max();
    return static_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}
template <typename T>
double Most() {
  if constexpr (std::is_same_v<T, Half>) {
    return 65504;
  } else {
    return static_cast<double>(std::numeric_limits<T>::max());
  }
}

enum class Kind { kGamma, kPoisson };

// Samples of each of the parameters: sample s of parameter p is out[s, p].
absl::Status Draw(KernelContext& context, Kind kind, const Tensor& parameters, const Philox& generator, Tensor* out) {
  const int64_t count = parameters.num_elements(), total = out->num_elements();
  if (total == 0) return absl::OkStatus();
  const int64_t samples = total / count;
  std::vector<double> values(count);
  RETURN_IF_ERROR(Dispatch(SampleTypes(), parameters.dtype(), [&]<typename T>() {
    for (int64_t p = 0; p < count; ++p) values[p] = ToDouble(parameters.data<T>()[p]);
    return absl::OkStatus();
  }));
  return Dispatch(SampleTypes(), out->dtype(), [&]<typename T>() {
    context.ParallelFor(total, 100, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Philox own = generator;
        own.Skip(static_cast<uint64_t>(kBlocksPerOutput * i));
        Doubles random(own);
        const int64_t p = i / samples;
        const double x = kind == Kind::kGamma ? Gamma(values[p], random) : Poisson(values[p], Most<T>(), random);
        out->mutable_data<T>()[i % samples * count + p] = FromDouble<T>(x);
      }
    });
    return absl::OkStatus();
  });
}

class SampleKernel : public Kernel {
 public:
  // Where the generator is: in the attributes, in a seed, or in a key and a counter.
  enum class Source { kAttrs, kSeed, kKey };
  SampleKernel(Kind kind, Source source) : kind_(kind), source_(source) {}

  absl::Status Init(const KernelInit& init) override {
    if (source_ != Source::kAttrs) return absl::OkStatus();
    return SeedFromAttrs(init, &generator_);
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const Shape given, RandomShape(context.input(0)));
    const Tensor& parameters = context.input(source_ == Source::kAttrs ? 1 : source_ == Source::kSeed ? 2 : 4);
    if (source_ != Source::kAttrs) {
      ASSIGN_OR_RETURN(const Philox generator,
                       source_ == Source::kSeed
                           ? PhiloxFromSeed(context.input(1))
                           : PhiloxFromKeyCounter(context.input(1), context.input(2), context.input(3)));
      const int lead = given.rank() - parameters.rank();
      if (lead < 0 || given.dims().subspan(lead) != parameters.shape().dims()) {
        return InvalidArgument("Shape passed in must end with broadcasted shape.");
      }
      ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, given));
      return Draw(context, kind_, parameters, generator, out);
    }
    Dims dims(given.dims().begin(), given.dims().end());
    dims.insert(dims.end(), parameters.shape().dims().begin(), parameters.shape().dims().end());
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return Draw(context, kind_, parameters, generator_.Reserve(shape.num_elements() * kBlocksPerOutput), out);
  }

 private:
  const Kind kind_;
  const Source source_;
  SharedPhilox generator_;
};

// ---- Truncated normal ----

// Numbers of one element type, a block at a time.
template <typename T>
struct Blocks {
  static constexpr int kSize = std::is_same_v<T, double> ? 2 : 4;
  explicit Blocks(Philox g) : generator(g) {}
  void Uniform(T* out) {
    const Philox::Block b = generator();
    for (int i = 0; i < kSize; ++i) {
      if constexpr (std::is_same_v<T, double>) {
        out[i] = UnitDouble(b[2 * i], b[2 * i + 1]);
      } else {
        out[i] = UnitFloat(b[i]);
      }
    }
  }
  void Normal(T* out) {
    const Philox::Block b = generator();
    if constexpr (std::is_same_v<T, double>) {
      BoxMuller(b[0], b[1], b[2], b[3], &out[0], &out[1]);
    } else {
      BoxMuller(b[0], b[1], &out[0], &out[1]);
      BoxMuller(b[2], b[3], &out[2], &out[3]);
    }
  }
  Philox generator;
};

template <typename T>
struct Truncated {
  T mean = 0, deviation = 1, low = 0, high = 0;
};

// Calls put(value) for `count` samples, by the method that rejects least: normal
// numbers if most of them are inside, uniform ones if the range is narrow, else
// exponential ones for a tail.
template <typename T, typename Put>
absl::Status DrawTruncated(Truncated<T> p, int64_t count, Blocks<T>& random, const Put& put) {
  constexpr int kTries = 1000;
  if (!(p.deviation > 0) || !(p.low < p.high) || (!std::isfinite(p.low) && !std::isfinite(p.high))) {
    return InvalidArgument("Invalid parameters");
  }
  if ((std::isinf(p.low) && p.low < 0) || p.high < p.mean) {  // the other way round
    std::swap(p.low, p.high);
    p.deviation = -p.deviation;
  }
  const T low = (p.low - p.mean) / p.deviation, high = (p.high - p.mean) / p.deviation;
  const T root = std::sqrt(low * low + T(4));
  const T cutoff = T(2) * std::exp(T(0.5) + (low * (low - root)) / T(4)) / (low + root);
  const T range = high - low, alpha = (low + root) / T(2);
  const bool normal = (low < T(-1.3) && high >= 0) || (high > T(1.3) && low <= 0);
  const T plus = low < 0 ? T(0) : low * low;
  T x[4], y[4];
  int tries = 0;
  while (count > 0) {
    if (normal) {
      random.Normal(x);
    } else {
      random.Uniform(x);
      if (range < cutoff) random.Uniform(y);
    }
    for (int i = 0; i < Blocks<T>::kSize && count > 0; ++i) {
      T z = x[i];
      bool accept = false;
      if (normal) {
        accept = z >= low && z <= high;
      } else if (range < cutoff) {
        z = x[i] * range + low;
        accept = y[i] <= std::exp((plus - z * z) / T(2));
      } else {
        z = -std::log(x[i]) / alpha + low;
        const T w = low < alpha ? alpha - z : low - alpha;
        accept = x[++i] <= std::exp(-w * w / T(2)) && z < high;
      }
      if (accept) {
        put(z * p.deviation + p.mean);
        --count;
        tries = 0;
      } else if (++tries > kTries) {
        return Internal("TruncatedNormal rejection sampler failed to accept a sample.");
      }
    }
  }
  return absl::OkStatus();
}

// Inputs shape, [seed,] means, deviations, minvals, maxvals.
class TruncatedNormalKernel : public Kernel {
 public:
  explicit TruncatedNormalKernel(bool stateless) : stateless_(stateless) {}

  absl::Status Init(const KernelInit& init) override {
    if (stateless_) return absl::OkStatus();
    return SeedFromAttrs(init, &generator_);
  }

  absl::Status Compute(KernelContext& context) override {
    if (context.input(0).rank() != 1) {
      return InvalidArgument("Input shape should be a vector, got shape: ", context.input(0).shape());
    }
    if (!stateless_ && context.input(0).num_elements() == 0) {
      return InvalidArgument("Shape tensor must not be empty, got ", context.input(0).ToString());
    }
    ASSIGN_OR_RETURN(const Shape shape, RandomShape(context.input(0)));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    return Dispatch(Types<float, double, Half, BFloat16>(), out->dtype(), [&]<typename T>() {
      using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
      return stateless_ ? Stateless<T, F>(context, out) : Stateful<T, F>(context, out);
    });
  }

 private:
  template <typename T, typename F>
  static Truncated<F> At(KernelContext& context, int first, const int64_t (&at)[4]) {
    F values[4];
    for (int i = 0; i < 4; ++i) values[i] = static_cast<F>(context.input(first + i).data<T>()[at[i]]);
    return {values[0], values[1], values[2], values[3]};
  }

  template <typename T, typename F>
  absl::Status Stateful(KernelContext& context, Tensor* out) {
    const int64_t total = out->num_elements();
    int64_t batches = out->dim(0), each = batches == 0 ? 0 : total / batches;
    bool scalars = true;
    const char* const names[] = {"means", "stddevs", "minvals", "maxvals"};
    for (int i = 0; i < 4; ++i) {
      const Tensor& t = context.input(1 + i);
      if (t.rank() > 1)
        return InvalidArgument("Input ", names[i], " should be a scalar or vector, got shape: ", t.shape());
      scalars = scalars && (t.rank() == 0 || (i < 2 && t.num_elements() == 1));
    }
    for (int i = 0; i < 4 && !scalars; ++i) {
      const Tensor& t = context.input(1 + i);
      if (t.num_elements() != 1 && t.num_elements() != batches) {
        return InvalidArgument("Input ", names[i], " should have length 1 or shape[0], got shape: ", t.shape());
      }
    }
    if (scalars) each = 100, batches = (total + 99) / 100;
    Blocks<F> random(generator_.Reserve(batches * 2 * 1000 * (each + 3) / 4));
    T* to = out->mutable_data<T>();
    for (int64_t b = 0; b < batches; ++b) {
      int64_t at[4];
      for (int i = 0; i < 4; ++i) at[i] = context.input(1 + i).num_elements() == 1 ? 0 : b;
      RETURN_IF_ERROR(DrawTruncated<F>(At<T, F>(context, 1, at), std::min(each, total - b * each), random,
                                       [&](F x) { *to++ = static_cast<T>(x); }));
    }
    return absl::OkStatus();
  }

  template <typename T, typename F>
  absl::Status Stateless(KernelContext& context, Tensor* out) const {
    ASSIGN_OR_RETURN(const Philox generator, PhiloxFromSeed(context.input(1)));
    PartialShape shape = PartialShape(Shape());
    for (int i = 0; i < 4; ++i) {
      ASSIGN_OR_RETURN(shape, BroadcastShape(shape, context.input(2 + i).shape()));
    }
    const Shape parameters = *shape.AsShape();
    const int lead = out->rank() - parameters.rank();
    if (lead < 0 || out->shape().dims().subspan(lead) != parameters.dims()) {
      return InvalidArgument("Shape passed in must end with broadcasted shape.");
    }
    const int64_t batches = parameters.num_elements();
    if (out->num_elements() == 0) return absl::OkStatus();
    const int64_t samples = out->num_elements() / batches;
    Blocks<F> random(generator);
    for (int64_t b = 0; b < batches; ++b) {
      int64_t at[4] = {};
      for (int i = 0; i < 4; ++i) {
        const Shape& s = context.input(2 + i).shape();
        int64_t rest = b, step = 1;
        for (int d = parameters.rank() - 1, e = s.rank() - 1; e >= 0; --d, --e) {
          if (s.dim(e) != 1) at[i] += rest % parameters.dim(d) * step;
          rest /= parameters.dim(d);
          step *= s.dim(e);
        }
      }
      T* to = out->mutable_data<T>() + b;
      RETURN_IF_ERROR(DrawTruncated<F>(At<T, F>(context, 2, at), samples, random, [&](F x) {
        *to = static_cast<T>(x);
        to += batches;
      }));
    }
    return absl::OkStatus();
  }

  const bool stateless_;
  SharedPhilox generator_;
};

// ---- Shapes and registration ----

absl::Status GivenShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}
absl::Status WithParameters(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape shape, c.ConstantAsShape(0));
  if (!shape.has_rank() || !c.input(1).has_rank()) return absl::OkStatus();
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.end(), c.input(1).dims().begin(), c.input(1).dims().end());
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

Op Seeded(Op& op) { return op.Attr("seed: int = 0").Attr("seed2: int = 0").Stateful().NotDifferentiable(); }

const OpRegistration kRandomDistributionsOps[] = {
    Seeded(Op("RandomGamma").Input("shape: S").Input("alpha: T").Output("output: T"))
        .Attr("S: {int32, int64}")
        .Attr("T: {half, float, double}")
        .Shape(WithParameters)
        .Kernel<SampleKernel>(Kind::kGamma, SampleKernel::Source::kAttrs),
    Op("StatelessRandomGammaV2")
        .Input("shape: T")
        .Input("seed: Tseed")
        .Input("alpha: dtype")
        .Output("output: dtype")
        .Attr("dtype: {half, float, double}")
        .Attr("T: {int32, int64}")
        .Attr("Tseed: {int32, int64} = DT_INT64")
        .Shape(GivenShape)
        .Kernel<SampleKernel>(Kind::kGamma, SampleKernel::Source::kSeed)
        .NotDifferentiable(),
    Op("StatelessRandomGammaV3")
        .Input("shape: shape_dtype")
        .Input("key: uint64")
        .Input("counter: uint64")
        .Input("alg: int32")
        .Input("alpha: dtype")
        .Output("output: dtype")
        .Attr("dtype: {half, float, double}")
        .Attr("shape_dtype: {int32, int64} = DT_INT32")
        .Shape(GivenShape)
        .Kernel<SampleKernel>(Kind::kGamma, SampleKernel::Source::kKey)
        .NotDifferentiable(),
    Seeded(Op("RandomPoisson").Input("shape: S").Input("rate: dtype").Output("output: dtype"))
        .Attr("S: {int32, int64}")
        .Attr("dtype: {half, float, double}")
        .Shape(WithParameters)
        .Kernel<SampleKernel>(Kind::kPoisson, SampleKernel::Source::kAttrs),
    Seeded(Op("RandomPoissonV2").Input("shape: S").Input("rate: R").Output("output: dtype"))
        .Attr("S: {int32, int64}")
        .Attr("R: {half, float, double, int32, int64} = DT_DOUBLE")
        .Attr("dtype: {half, float, double, int32, int64} = DT_INT64")
        .Shape(WithParameters)
        .Kernel<SampleKernel>(Kind::kPoisson, SampleKernel::Source::kAttrs),
    Op("StatelessRandomPoisson")
        .Input("shape: T")
        .Input("seed: Tseed")
        .Input("lam: Rtype")
        .Output("output: dtype")
        .Attr("Rtype: {half, float, double, int32, int64}")
        .Attr("dtype: {half, float, double, int32, int64}")
        .Attr("T: {int32, int64}")
        .Attr("Tseed: {int32, int64} = DT_INT64")
        .Shape(GivenShape)
        .Kernel<SampleKernel>(Kind::kPoisson, SampleKernel::Source::kSeed)
        .NotDifferentiable(),
    Seeded(Op("ParameterizedTruncatedNormal")
               .Input("shape: T")
               .Input("means: dtype")
               .Input("stdevs: dtype")
               .Input("minvals: dtype")
               .Input("maxvals: dtype")
               .Output("output: dtype"))
        .Attr("dtype: {half, bfloat16, float, double}")
        .Attr("T: {int32, int64}")
        .Shape(GivenShape)
        .Kernel<TruncatedNormalKernel>(false),
    Op("StatelessParameterizedTruncatedNormal")
        .Input("shape: S")
        .Input("seed: Tseed")
        .Input("means: dtype")
        .Input("stddevs: dtype")
        .Input("minvals: dtype")
        .Input("maxvals: dtype")
        .Output("output: dtype")
        .Attr("S: {int32, int64}")
        .Attr("Tseed: {int32, int64} = DT_INT64")
        .Attr("dtype: {half, float, double}")
        .Shape(GivenShape)
        .Kernel<TruncatedNormalKernel>(true)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
