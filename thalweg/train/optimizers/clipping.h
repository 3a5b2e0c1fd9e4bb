// SPDX-License-Identifier: Apache-2.0
// Keeping gradients within bounds.
#pragma once

#include <vector>

#include "thalweg/graph/gradient.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

// Limits every element to [low, high]. Of a sparse gradient only the rows that it
// has are clipped:
Output ClipByValue(const Scope& s, Output t, Hyperparameter low, Hyperparameter high);
Gradient ClipByValue(const Scope& s, const Gradient& gradient, Hyperparameter low, Hyperparameter high);

// Scales down so that the L2 norm is at most clip_norm. The norm of a sparse
// gradient is that of the rows that it has:
Output ClipByNorm(const Scope& s, Output t, Hyperparameter clip_norm);
Gradient ClipByNorm(const Scope& s, const Gradient& gradient, Hyperparameter clip_norm);

// The L2 norm of all gradients together, a scalar. Empty gradients are skipped.
Output GlobalNorm(const Scope& s, const std::vector<Gradient>& gradients);

// Results of ClipByGlobalNorm.
struct ClippedGradients {
  std::vector<GradientAndVar> gradients;  // scaled
  Output global_norm;                     // scalar: the norm before clipping
};
// All gradients, scaled by the same number so that their global norm is at most
// clip_norm (Pascanu et al. 2012). If the norm is not finite, all become NaN.
//
//   auto clipped = ClipByGlobalNorm(s, optimizer->ComputeGradients(s, loss), 5.0);
//   optimizer->ApplyGradients(s, clipped.gradients);
ClippedGradients ClipByGlobalNorm(const Scope& s, std::vector<GradientAndVar> gradients, Hyperparameter clip_norm);

}  // namespace thalweg
