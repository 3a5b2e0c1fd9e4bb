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

struct DelayCompensationOptions {
  bool adaptive = false;
  double lambda = 0.04;      // for adaptive, the authors took 2
  double mean_decay = 0.95;  // of the moving mean; adaptive only
  double epsilon = 1e-7;     // adaptive only
  // Gradients of rows too. The parameter server then keeps the table as it was
  // read until the gradient is there: an update meanwhile copies the table.
  bool sparse = true;
};

// What is read from a variable in a step is kept beside it until its gradient
// is there; no further memory is needed per worker.
std::unique_ptr<Optimizer> DelayCompensation(std::unique_ptr<Optimizer> optimizer,
                                             const DelayCompensationOptions& options = {});

}  // namespace thalweg
