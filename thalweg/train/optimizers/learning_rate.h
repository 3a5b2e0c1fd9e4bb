// SPDX-License-Identifier: Apache-2.0
// Learning rates that change from step to step; each is a float scalar, to be
// given to an optimizer:
//
//   const Var step = GetOrCreateGlobalStep(s);
//   const Output rate = ExponentialDecay(s, 0.1, step, {.decay_steps = 1000, .decay_rate = 0.96, .staircase = true});
//   GradientDescent({.learning_rate = rate})->Minimize(s, loss, {.global_step = step});
#pragma once

#include <cstdint>
#include <vector>

#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

struct DecayOptions {
  double decay_steps = 1;
  double decay_rate = 0.96;
  bool staircase = false;  // only whole multiples of decay_steps count
};
// rate * decay_rate ^ (step / decay_steps)
Output ExponentialDecay(const Scope& s, Hyperparameter rate, Output step, const DecayOptions& options);
// rate * exp(-decay_rate * step / decay_steps)
Output NaturalExpDecay(const Scope& s, Hyperparameter rate, Output step, const DecayOptions& options);
// rate / (1 + decay_rate * step / decay_steps)
Output InverseTimeDecay(const Scope& s, Hyperparameter rate, Output step, const DecayOptions& options);

// values[0] up to and including step boundaries[0], values[1] up to
// boundaries[1], ...; one value more than boundaries, which rise.
Output PiecewiseConstant(const Scope& s, Output step, const std::vector<int64_t>& boundaries,
                         const std::vector<double>& values);

struct PolynomialDecayOptions {
  double decay_steps = 1;
  double end_learning_rate = 0.0001;
  double power = 1;
  bool cycle = false;  // begins anew after decay_steps, each time for longer, instead of staying at the end
};
// (rate - end) * (1 - step / decay_steps) ^ power + end
Output PolynomialDecay(const Scope& s, Hyperparameter rate, Output step, const PolynomialDecayOptions& options);

struct CosineDecayOptions {
  double decay_steps = 1;
  double alpha = 0;  // the part of the rate that remains
};
// Half a cosine down to alpha * rate (Loshchilov and Hutter 2016).
Output CosineDecay(const Scope& s, Hyperparameter rate, Output step, const CosineDecayOptions& options);

struct CosineRestartsOptions {
  double first_decay_steps = 1;
  double t_mul = 2;  // how many times as long each cycle is as the one before
  double m_mul = 1;  // how many times as high it begins
  double alpha = 0;  // the part of the rate that remains
};
// The same again and again: CosineDecay with warm restarts.
Output CosineDecayRestarts(const Scope& s, Hyperparameter rate, Output step, const CosineRestartsOptions& options);

struct WarmupOptions {
  double scale = 1;          // how many times larger the batch is than that of the rate
  int64_t warmup_steps = 0;  // from the rate to scale times the rate, in equal steps
};
// Linear scaling with gradual warm-up, for large batches (Goyal et al. 2017):
// scale * rate, but from 1 times rate at the beginning. `rate` may be a schedule.
Output LinearScaling(const Scope& s, Hyperparameter rate, Output step, const WarmupOptions& options);

}  // namespace thalweg
