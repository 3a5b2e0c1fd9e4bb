// Random numbers. With seeds, the values are TensorFlow's; with both seeds 0
// every kernel draws its own, unless the graph has a seed. Stateless ops are functions of their seed.
#pragma once

#include <cstdint>
#include <optional>

#include "thalweg/graph/scope.h"

namespace thalweg {

struct RandomOptions {
  int64_t seed = 0;
  int64_t seed2 = 0;
};

// For an operation that has a seed of its own: with that of the graph or, if it
// has none, TensorFlow's default. For one that has not: none, which leaves it to
// the graph (Graph::set_seed).
RandomOptions OpSeed(const Scope& s, const std::optional<int64_t>& seed);

// Tensors of the shape that the vector `shape` describes.
Output RandomUniform(const Scope& s, Output shape, DType dtype = kFloat, RandomOptions options = {});  // [0, 1)
Output RandomUniformInt(const Scope& s, Output shape, Output minval, Output maxval, RandomOptions options = {});
Output RandomStandardNormal(const Scope& s, Output shape, DType dtype = kFloat, RandomOptions options = {});
// Normal numbers within two deviations.
Output TruncatedNormal(const Scope& s, Output shape, DType dtype = kFloat, RandomOptions options = {});

// The rows of `value` in a random order.
Output RandomShuffle(const Scope& s, Output value, RandomOptions options = {});

// Class numbers, int64 [batch, num_samples], by the logits [batch, classes].
Output Multinomial(const Scope& s, Output logits, Output num_samples, RandomOptions options = {});

// `seed`: a vector of two integers.
Output StatelessRandomUniform(const Scope& s, Output shape, Output seed, DType dtype = kFloat);
Output StatelessRandomUniformInt(const Scope& s, Output shape, Output seed, Output minval, Output maxval);
Output StatelessRandomUniformFullInt(const Scope& s, Output shape, Output seed, DType dtype = kUint64);
Output StatelessRandomNormal(const Scope& s, Output shape, Output seed, DType dtype = kFloat);
Output StatelessTruncatedNormal(const Scope& s, Output shape, Output seed, DType dtype = kFloat);

}  // namespace thalweg
