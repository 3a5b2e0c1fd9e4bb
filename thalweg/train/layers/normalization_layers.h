// SPDX-License-Identifier: Apache-2.0
// Normalization layers.
#pragma once

#include <string>
#include <vector>

#include "thalweg/train/layers/layers.h"

namespace thalweg {

// The collection of operations that each training step must also run, as in TensorFlow.
// BatchNorm adds the updates of its moving averages.
//
//   optimizer->Minimize(s.WithControlDependencies(UpdateOps(graph)), loss)
inline constexpr char kUpdateOps[] = "update_ops";
// The operations of that collection.
std::vector<Output> UpdateOps(const Graph& graph);

namespace layers {

// The parameters of BatchNorm, and when it uses the statistics of the batch.
struct BatchNormOptions {
  Training training = false;                 // normalize with the statistics of the batch
  double momentum = 0.99;                    // decay of the moving averages
  double epsilon = 1e-3;                     // added to the variance
  bool center = true;                        // add beta
  bool scale = true;                         // multiply by gamma
  bool trainable = true;                     // whether optimizers train beta and gamma
  std::string name = "batch_normalization";  // prefix of the variables, made unique
};

// Batch normalization (Ioffe and Szegedy 2015): gamma * (x - mean) / sqrt(variance + epsilon) +
// beta for each channel, which is the last dimension of x. x has rank 2 or 4. Mean and variance
// are those of the batch while training, otherwise moving averages. The variables are
// `name/gamma`, `name/beta`, `name/moving_mean` and `name/moving_variance`, all [channels]. Run
// UpdateOps() in each training step to update the averages.
Output BatchNorm(const Scope& s, Output x, const BatchNormOptions& options = {});

}  // namespace layers
}  // namespace thalweg
