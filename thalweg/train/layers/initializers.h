// SPDX-License-Identifier: Apache-2.0
// Initial values of variables. Each function makes a recipe; the same options
// and seed give TensorFlow's values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Adds the operations that compute the initial value of a variable. A value, made
// from a function of the scope, the shape and the type. A function that scales by the
// size of a layer takes a fourth argument: the shape of the whole variable, of which
// it initializes a part.
class Initializer {
 public:
  using Plain = std::function<Output(const Scope&, const Shape&, DType)>;  // depends on the part only
  using Scaled = std::function<Output(const Scope&, const Shape&, DType,
                                      const Shape& whole)>;  // depends on the whole variable, too

  // From a function or lambda.
  template <typename F>
  // NOLINTNEXTLINE: implicit by design
  requires std::is_invocable_r_v<Output, F, const Scope&, const Shape&, DType> Initializer(F f)
      : make_([plain = Plain(std::move(f))](const Scope& s, const Shape& shape, DType dtype, const Shape&) {
          return plain(s, shape, dtype);
        }) {}
  // From a function or lambda that also takes the shape of the whole variable.
  template <typename F>
  // NOLINTNEXTLINE: implicit by design
  requires std::is_invocable_r_v<Output, F, const Scope&, const Shape&, DType, const Shape&> Initializer(F f)
      : make_(std::move(f)) {}

  // The initial value of a whole variable.
  Output operator()(const Scope& s, const Shape& shape, DType dtype) const { return make_(s, shape, dtype, shape); }
  // The initial value of one part of a partitioned variable.
  Output operator()(const Scope& s, const Shape& part, DType dtype, const Shape& whole) const {
    return make_(s, part, dtype, whole);
  }

 private:
  Scaled make_;
};

namespace initializers {

// Zeros; false for bool.
Initializer Zeros();
// Ones.
Initializer Ones();
// The same number everywhere.
Initializer Constant(double value);

// Options of initializers that need only a seed.
struct SeedOptions {
  std::optional<int64_t> seed;  // without one, or one of the graph (Graph::set_seed), every run draws differently
};
// The range and the seed of uniformly distributed values.
struct UniformOptions {
  double minval = -0.05;        // smallest value
  double maxval = 0.05;         // upper limit, exclusive
  std::optional<int64_t> seed;  // as in SeedOptions
};
// The mean, standard deviation and seed of normally distributed values.
struct NormalOptions {
  double mean = 0;              // mean
  double stddev = 0.05;         // standard deviation
  std::optional<int64_t> seed;  // as in SeedOptions
};
// Uniform numbers in [minval, maxval).
Initializer Uniform(const UniformOptions& options = {});
// Normally distributed numbers.
Initializer RandomNormal(const NormalOptions& options = {});
// Normally distributed numbers within two standard deviations of the mean.
Initializer TruncatedNormal(const NormalOptions& options = {});

// Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010): keeps the
// variance of signals from layer to layer. The default for layers.
Initializer GlorotUniform(const SeedOptions& options = {});
// Normally distributed with variance 2 / fan_in, within two standard deviations (He et
// al. 2015). For layers with rectifiers.
Initializer HeNormal(const SeedOptions& options = {});

// The default of variables: GlorotUniform for floating-point types, zeros for
// integers and bool.
Initializer Default();

}  // namespace initializers
}  // namespace thalweg
