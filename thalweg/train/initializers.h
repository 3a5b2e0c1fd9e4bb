// Initial values of variables. Each function makes a recipe; the same options
// and seed give TensorFlow's values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Adds operations that compute a tensor of a shape and type.
using Initializer = std::function<Output(const Scope&, const Shape&, DType)>;

namespace initializers {

Initializer Zeros();
Initializer Ones();
Initializer Constant(double value);

// Without a seed, every run starts differently.
struct SeedOptions {
  std::optional<int64_t> seed;
};
struct UniformOptions {
  double minval = -0.05;
  double maxval = 0.05;
  std::optional<int64_t> seed;
};
struct NormalOptions {
  double mean = 0;
  double stddev = 0.05;
  std::optional<int64_t> seed;
};
Initializer Uniform(const UniformOptions& options = {});
Initializer RandomNormal(const NormalOptions& options = {});
Initializer TruncatedNormal(const NormalOptions& options = {});  // within two deviations

// Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010): keeps the
// variance of signals from layer to layer. The default for layers.
Initializer GlorotUniform(const SeedOptions& options = {});
// Normal, cut at two deviations, of variance 2 / fan_in (He et al. 2015): for
// layers of rectifiers.
Initializer HeNormal(const SeedOptions& options = {});

}  // namespace initializers
}  // namespace thalweg
