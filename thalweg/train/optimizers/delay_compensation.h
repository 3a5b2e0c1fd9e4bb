// SPDX-License-Identifier: Apache-2.0
// Delay compensation for asynchronous training (DC-ASGD; Zheng et al. 2016).
//
//   optimizer = DelayCompensation(std::move(optimizer), {.adaptive = true, .lambda = 2});
//
// A gradient g was computed from variables w as a worker read them; when it
// arrives, others have changed them to w'. The gradient at w' is about
//
//   g + lambda g g (w' - w)
//
// where g g stands for the diagonal of the Hessian. Adaptive: lambda, for each
// element, over the root of the moving mean of g g.
#pragma once

#include <memory>

#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

// How strongly stale gradients are compensated.
struct DelayCompensationOptions {
  bool adaptive = false;     // divide lambda by the root of a moving mean of squared gradients
  double lambda = 0.04;      // strength of the compensation; the authors use 2 with `adaptive`
  double mean_decay = 0.95;  // decay of that moving mean; only with `adaptive`
  double epsilon = 1e-7;     // added to the mean before the root; only with `adaptive`
  // Also compensate sparse gradients. The parameter server then keeps the table as
  // it was read until the gradient arrives: an update in between copies the table.
  bool sparse = true;
};

// Wraps `optimizer`. The value of a variable that a step has read is kept until its
// gradient arrives. No other memory is needed per worker.
std::unique_ptr<Optimizer> DelayCompensation(std::unique_ptr<Optimizer> optimizer,
                                             const DelayCompensationOptions& options = {});

}  // namespace thalweg
