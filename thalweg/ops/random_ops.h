// SPDX-License-Identifier: Apache-2.0
// Random numbers. With seeds, the values are TensorFlow's. With both seeds 0 every kernel
// draws its own, unless the graph has a seed (Graph::set_seed). Stateless ops are
// functions of their seed.
#pragma once

#include <cstdint>
#include <optional>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// The seeds of a random op.
struct RandomOptions {
  int64_t seed = 0;   // with seed2 0, too: other numbers in every run
  int64_t seed2 = 0;  // see seed
};

// The options for an operation with a seed of its own: combined with that of the graph
// or, if it has none, TensorFlow's default. Without a seed they leave it to the graph.
RandomOptions OpSeed(const Scope& s, const std::optional<int64_t>& seed);

// Uniform numbers in [0, 1): RandomUniform(s, {2, 3}).
Output RandomUniform(const Scope& s, const IntsArg& shape, DType dtype = kFloat, const RandomOptions& options = {});
// Uniform integers in [minval, maxval), of the type of both.
Output RandomUniformInt(const Scope& s, const IntsArg& shape, const ScalarArg& minval, const ScalarArg& maxval,
                        const RandomOptions& options = {});
// Numbers of the standard normal distribution.
Output RandomStandardNormal(const Scope& s, const IntsArg& shape, DType dtype = kFloat,
                            const RandomOptions& options = {});
// Numbers of the standard normal distribution within two standard deviations.
Output TruncatedNormal(const Scope& s, const IntsArg& shape, DType dtype = kFloat, const RandomOptions& options = {});
// The rows of `value` in a random order.
Output RandomShuffle(const Scope& s, Output value, const RandomOptions& options = {});
// Class numbers, int64 [batch, num_samples], by the logits [batch, classes].
Output Multinomial(const Scope& s, Output logits, const IntArg& num_samples, const RandomOptions& options = {});

// Uniform numbers in [0, 1) that follow from `seed`, two integers:
// StatelessRandomUniform(s, {2, 3}, {1, 2}).
Output StatelessRandomUniform(const Scope& s, const IntsArg& shape, const IntsArg& seed, DType dtype = kFloat);
// Uniform integers in [minval, maxval) that follow from `seed`.
Output StatelessRandomUniformInt(const Scope& s, const IntsArg& shape, const IntsArg& seed, const ScalarArg& minval,
                                 const ScalarArg& maxval);
// Integers of the whole range of `dtype` that follow from `seed`.
Output StatelessRandomUniformFullInt(const Scope& s, const IntsArg& shape, const IntsArg& seed, DType dtype = kUint64);
// Numbers of the standard normal distribution that follow from `seed`.
Output StatelessRandomNormal(const Scope& s, const IntsArg& shape, const IntsArg& seed, DType dtype = kFloat);
// Numbers of the standard normal distribution, without those beyond two standard deviations, that follow from `seed`.
Output StatelessTruncatedNormal(const Scope& s, const IntsArg& shape, const IntsArg& seed, DType dtype = kFloat);

}  // namespace thalweg
