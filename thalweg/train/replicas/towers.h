// SPDX-License-Identifier: Apache-2.0
// Towers: copies of a model on several devices of a worker, each with a part of
// the batch, in step with each other.
//
//   std::vector<std::vector<GradientAndVar>> towers;
//   for (int i = 0; i < n; ++i) {
//     const Scope tower = s.WithDevice(absl::StrCat("/device:CPU:", i));
//     towers.push_back(optimizer->ComputeGradients(tower, Loss(tower, variables, parts[i])));
//   }
//   train_op = optimizer->ApplyGradients(s, AverageGradients(s, towers), {.global_step = step});
//
// With an asynchronous optimizer across workers this is local sync, global
// async; with SyncReplicas, everything is in step.
#pragma once

#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

// The mean over towers of the gradients of each variable; one that is missing
// counts as zero. Those of rows stay rows. The towers have the same variables
// in the same order.
std::vector<GradientAndVar> AverageGradients(const Scope& s, const std::vector<std::vector<GradientAndVar>>& towers);

}  // namespace thalweg
