// SPDX-License-Identifier: Apache-2.0
// Towers: copies of a model on several devices of one worker. Each computes the gradients of a part of the batch, and
// the worker applies their mean.
//
//   std::vector<std::vector<GradientAndVar>> towers;
//   for (int i = 0; i < n; ++i) {
//     const Scope tower = s.WithDevice(absl::StrCat("/device:CPU:", i));
//     towers.push_back(optimizer->ComputeGradients(tower, Loss(tower, variables, parts[i])));
//   }
//   train_op = optimizer->ApplyGradients(s, AverageGradients(s, towers), {.global_step = step});
//
// The towers of a worker are always synchronous with each other. The workers are too if the optimizer is a
// SyncReplicas; otherwise they update the variables asynchronously.
#pragma once

#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

// The mean over towers of each variable's gradients. A missing gradient counts as zero. Sparse gradients stay sparse:
// rows and their indices. REQUIRES: all towers list the same variables in the same order.
std::vector<GradientAndVar> AverageGradients(const Scope& s, const std::vector<std::vector<GradientAndVar>>& towers);

}  // namespace thalweg
