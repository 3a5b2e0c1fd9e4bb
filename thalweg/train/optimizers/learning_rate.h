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

// How fast a learning rate decays, and whether it falls in stairs.
struct DecayOptions {
  double decay_steps = 1;    // steps after which the rate has decayed once by decay_rate
  double decay_rate = 0.96;  // decay per decay_steps; see the functions
  bool staircase = false;    // round step / decay_steps down: the rate falls in stairs
};
// rate * decay_rate ^ (step / decay_steps)
Output ExponentialDecay(const Scope& s, Hyperparameter rate, Output step, const DecayOptions& options);
// rate * exp(-decay_rate * step / decay_steps)
Output NaturalExpDecay(const Scope& s, Hyperparameter rate, Output step, const DecayOptions& options);
// rate / (1 + decay_rate * step / decay_steps)
Output InverseTimeDecay(const Scope& s, Hyperparameter rate, Output step, const DecayOptions& options);

// values[0] up to and including step boundaries[0], then values[1] up to
// boundaries[1], and so on. The boundaries rise; there is one more value than
// boundaries.
Output PiecewiseConstant(const Scope& s, Output step, const std::vector<int64_t>& boundaries,
                         const std::vector<double>& values);

// The length, end and exponent of a polynomial decay.
struct PolynomialDecayOptions {
  double decay_steps = 1;             // steps until end_learning_rate is reached
  double end_learning_rate = 0.0001;  // the final rate
  double power = 1;                   // exponent of the polynomial; 1 is linear
  bool cycle = false;                 // restart with a longer period instead of staying at end_learning_rate
};
// (rate - end) * (1 - step / decay_steps) ^ power + end
Output PolynomialDecay(const Scope& s, Hyperparameter rate, Output step, const PolynomialDecayOptions& options);

// The length and the end of a cosine decay.
struct CosineDecayOptions {
  double decay_steps = 1;  // steps until alpha * rate is reached
  double alpha = 0;        // the final rate, as a fraction of the first
};
// Half a cosine down to alpha * rate (Loshchilov and Hutter 2016).
Output CosineDecay(const Scope& s, Hyperparameter rate, Output step, const CosineDecayOptions& options);

// The lengths and the rates of the cycles of a cosine decay.
struct CosineRestartsOptions {
  double first_decay_steps = 1;  // length of the first cycle in steps
  double t_mul = 2;              // length of a cycle relative to the one before
  double m_mul = 1;              // first rate of a cycle relative to that of the one before
  double alpha = 0;              // the final rate, as a fraction of the first
};
// CosineDecay with warm restarts.
Output CosineDecayRestarts(const Scope& s, Hyperparameter rate, Output step, const CosineRestartsOptions& options);

// The length and the final rate of a warm-up.
struct WarmupOptions {
  double scale = 1;          // batch size relative to the one that `rate` was tuned for
  int64_t warmup_steps = 0;  // steps in which the rate grows linearly to scale * rate
};
// Linear scaling with gradual warm-up, for large batches (Goyal et al. 2017):
// scale * rate, after a linear rise from `rate`. `rate` may itself be a schedule.
Output LinearScaling(const Scope& s, Hyperparameter rate, Output step, const WarmupOptions& options);

}  // namespace thalweg
