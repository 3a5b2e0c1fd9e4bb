// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/initializers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/random_ops.h"

namespace thalweg::initializers {
namespace {

// A scalar of any type of fixed size.
Output Number(const Scope& s, double value, DType dtype) {
  Tensor tensor;
  s.Fail(Dispatch(PodTypes(), dtype, [&]<typename T>() {
    tensor = Tensor::Scalar<T>(static_cast<T>(value));
    return absl::OkStatus();
  }));
  return s.ok() ? Const(s, tensor) : Output();
}

Output Sizes(const Scope& s, const Shape& shape) {
  std::vector<int32_t> sizes(shape.dims().begin(), shape.dims().end());
  return Const(s.WithOpName("shape"), sizes);
}

Output UniformBetween(const Scope& scope, const Shape& shape, DType dtype, double low, double high,
                      const std::optional<int64_t>& seed) {
  const Scope s = scope.SubScope("random_uniform");
  const Output drawn = RandomUniform(s, Sizes(s, shape), dtype, OpSeed(s, seed));
  const Output min = Number(s.WithOpName("min"), low, dtype), max = Number(s.WithOpName("max"), high, dtype);
  return Add(s, Mul(s.WithOpName("mul"), drawn, Sub(s.WithOpName("sub"), max, min)), min);
}

using Draw = Output (*)(const Scope&, const IntsArg&, DType, const RandomOptions&);

Output Scaled(const Scope& s, Draw draw, const Shape& shape, DType dtype, double mean, double stddev,
              const std::optional<int64_t>& seed) {
  const Output drawn = draw(s, Sizes(s, shape), dtype, OpSeed(s, seed));
  const Output scaled = Mul(s.WithOpName("mul"), drawn, Number(s.WithOpName("stddev"), stddev, dtype));
  return Add(s, scaled, Number(s.WithOpName("mean"), mean, dtype));
}

// Fan-in and fan-out: the sizes of a matrix; for a convolution filter [..., in, out], in and out
// times the size of the window.
struct Fans {
  double in = 1;
  double out = 1;
};
Fans FansOf(const Shape& shape) {
  if (shape.rank() == 0) return {};
  if (shape.rank() == 1) return {static_cast<double>(shape.dim(0)), static_cast<double>(shape.dim(0))};
  const double window = static_cast<double>(shape.Product(0, shape.rank() - 2));
  return {window * shape.dim(shape.rank() - 2), window * shape.dim(shape.rank() - 1)};
}

}  // namespace

Initializer Constant(double value) {
  return [=](const Scope& s, const Shape& shape, DType dtype) -> Output {
    // Small ones are constants of the graph, as TensorFlow has them.
    constexpr int64_t kSmall = 1000;
    const Output scalar = Number(s.WithOpName("Const"), value, dtype);
    if (shape.is_scalar() || !s.ok()) return scalar;
    if (shape.num_elements() >= kSmall) return Fill(s, Sizes(s, shape), scalar);
    Tensor tensor(dtype, shape);
    s.Fail(Dispatch(PodTypes(), dtype, [&]<typename T>() {
      std::fill_n(tensor.mutable_data<T>(), tensor.num_elements(), static_cast<T>(value));
      return absl::OkStatus();
    }));
    return Const(s, tensor);
  };
}

Initializer Zeros() { return Constant(0); }
Initializer Ones() { return Constant(1); }

Initializer Uniform(const UniformOptions& options) {
  return [=](const Scope& s, const Shape& shape, DType dtype) {
    return UniformBetween(s, shape, dtype, options.minval, options.maxval, options.seed);
  };
}

Initializer RandomNormal(const NormalOptions& options) {
  return [=](const Scope& s, const Shape& shape, DType dtype) {
    return Scaled(s.SubScope("random_normal"), RandomStandardNormal, shape, dtype, options.mean, options.stddev,
                  options.seed);
  };
}

Initializer TruncatedNormal(const NormalOptions& options) {
  return [=](const Scope& s, const Shape& shape, DType dtype) {
    return Scaled(s.SubScope("truncated_normal"), thalweg::TruncatedNormal, shape, dtype, options.mean, options.stddev,
                  options.seed);
  };
}

Initializer GlorotUniform(const SeedOptions& options) {
  return [=](const Scope& s, const Shape& shape, DType dtype, const Shape& whole) {
    const Fans fans = FansOf(whole);
    const double limit = std::sqrt(3.0 / std::max(1.0, (fans.in + fans.out) / 2));
    return UniformBetween(s, shape, dtype, -limit, limit, options.seed);
  };
}

Initializer Default() {
  return
      [glorot = GlorotUniform(), zeros = Zeros()](const Scope& s, const Shape& shape, DType dtype, const Shape& whole) {
        return IsInteger(dtype) || dtype == kBool ? zeros(s, shape, dtype) : glorot(s, shape, dtype, whole);
      };
}

Initializer HeNormal(const SeedOptions& options) {
  return [=](const Scope& s, const Shape& shape, DType dtype, const Shape& whole) {
    // The standard deviation of a normal distribution truncated at two standard deviations.
    constexpr double kCutDeviation = 0.87962566103423978;
    const double stddev = std::sqrt(2.0 / std::max(1.0, FansOf(whole).in)) / kCutDeviation;
    return Scaled(s.SubScope("truncated_normal"), thalweg::TruncatedNormal, shape, dtype, 0, stddev, options.seed);
  };
}

}  // namespace thalweg::initializers
