// SPDX-License-Identifier: Apache-2.0
// Keeping gradients within bounds.
#pragma once

#include <vector>

#include "thalweg/graph/gradient.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

// t with every element in [low, high]; of a sparse gradient the rows, as they are. The
// operation is in ops/math_ops.h:
Output ClipByValue(const Scope& s, Output t, Hyperparameter low, Hyperparameter high);
Gradient ClipByValue(const Scope& s, const Gradient& gradient, Hyperparameter low, Hyperparameter high);

// t, scaled down so that its L2 norm is at most clip_norm; of a sparse gradient
// the rows, as they are:
Output ClipByNorm(const Scope& s, Output t, Hyperparameter clip_norm);
Gradient ClipByNorm(const Scope& s, const Gradient& gradient, Hyperparameter clip_norm);

// The L2 norm of everything together; what is empty does not count.
Output GlobalNorm(const Scope& s, const std::vector<Gradient>& gradients);

// Results of ClipByGlobalNorm.
struct ClippedGradients {
  std::vector<GradientAndVar> gradients;
  Output global_norm;  // before
};
// All gradients, scaled by the same number so that their global norm is at most
// clip_norm (Pascanu et al. 2012). If the norm is not finite, all become NaN.
//
//   auto clipped = ClipByGlobalNorm(s, optimizer->ComputeGradients(s, loss), 5.0);
//   optimizer->ApplyGradients(s, clipped.gradients);
ClippedGradients ClipByGlobalNorm(const Scope& s, std::vector<GradientAndVar> gradients, Hyperparameter clip_norm);

}  // namespace thalweg
