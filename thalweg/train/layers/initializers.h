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

// Adds operations that compute a tensor of a shape and type. A value, made from
// a function. One that scales by the size of a layer takes a fourth argument:
// the shape of the whole, of which a part is wanted.
class Initializer {
 public:
  using Plain = std::function<Output(const Scope&, const Shape&, DType)>;
  using Scaled = std::function<Output(const Scope&, const Shape&, DType, const Shape& whole)>;

  template <typename F>
  requires std::is_invocable_r_v<Output, F, const Scope&, const Shape&, DType> Initializer(
      F f)  // NOLINT: implicit by design
      : make_([plain = Plain(std::move(f))](const Scope& s, const Shape& shape, DType dtype, const Shape&) {
          return plain(s, shape, dtype);
        }) {}
  template <typename F>
  requires std::is_invocable_r_v<Output, F, const Scope&, const Shape&, DType, const Shape&> Initializer(F f)
      : make_(std::move(f)) {}  // NOLINT

  Output operator()(const Scope& s, const Shape& shape, DType dtype) const { return make_(s, shape, dtype, shape); }
  // A part of a variable that is divided.
  Output operator()(const Scope& s, const Shape& part, DType dtype, const Shape& whole) const {
    return make_(s, part, dtype, whole);
  }

 private:
  Scaled make_;
};

namespace initializers {

// Zeros; false, of bool.
Initializer Zeros();
// Ones.
Initializer Ones();
// One number everywhere.
Initializer Constant(double value);

// Without a seed, every run starts differently, unless the graph has one
// (Graph::set_seed).
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
// Uniform numbers in [minval, maxval).
Initializer Uniform(const UniformOptions& options = {});
// Normally distributed numbers.
Initializer RandomNormal(const NormalOptions& options = {});
Initializer TruncatedNormal(const NormalOptions& options = {});  // within two deviations

// Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010): keeps the
// variance of signals from layer to layer. The default for layers.
Initializer GlorotUniform(const SeedOptions& options = {});
// Normal, cut at two deviations, of variance 2 / fan_in (He et al. 2015): for
// layers of rectifiers.
Initializer HeNormal(const SeedOptions& options = {});

// What a variable begins with unless told otherwise: GlorotUniform or, where
// that makes no sense, for integers and bool, zeros.
Initializer Default();

}  // namespace initializers
}  // namespace thalweg
