// SPDX-License-Identifier: Apache-2.0
// Layers that keep activations in a range in which networks learn well.
#pragma once

#include <string>
#include <vector>

#include "thalweg/train/layers/layers.h"

namespace thalweg {

// Operations that a step of training has to run besides the optimizer's, as
// TensorFlow's collection of that name: batch normalization adds its own.
//
//   optimizer->Minimize(s.WithControlDependencies(UpdateOps(graph)), loss)
inline constexpr char kUpdateOps[] = "update_ops";
// The operations in that collection.
std::vector<Output> UpdateOps(const Graph& graph);

namespace layers {

struct BatchNormOptions {
  Training training = false;
  double momentum = 0.99;  // of the moving averages
  double epsilon = 1e-3;
  bool center = true;  // has beta
  bool scale = true;   // has gamma
  bool trainable = true;
  std::string name = "batch_normalization";
};

// gamma * (x - mean) / sqrt(variance + epsilon) + beta per channel, the last
// dimension, for x of rank 2 or 4 (Ioffe and Szegedy 2015). Mean and variance
// are those of the batch while training, else moving averages of them. The
// variables are `name/gamma`, `name/beta`, `name/moving_mean` and
// `name/moving_variance`, all [channels]. See UpdateOps for the averages.
Output BatchNorm(const Scope& s, Output x, const BatchNormOptions& options = {});

}  // namespace layers
}  // namespace thalweg
