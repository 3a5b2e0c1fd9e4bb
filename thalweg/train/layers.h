// Layers: functions that add a piece of a model, with its variables, to a graph.
#pragma once

#include <functional>
#include <string>

#include "thalweg/graph/scope.h"
#include "thalweg/train/initializers.h"

namespace thalweg {

using Activation = std::function<Output(const Scope&, Output)>;

namespace layers {

struct DenseOptions {
  Activation activation;  // none: linear
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  bool trainable = true;
  std::string name = "dense";  // made unique: dense, dense_1, ...
};

// activation(x * kernel + bias) for x [..., in], giving [..., units], with the
// variables `name/kernel` [in, units] and `name/bias` [units]. The last
// dimension of x must be known and, if there are more than two, at most one of
// the others not.
Output Dense(const Scope& s, Output x, int64_t units, const DenseOptions& options = {});

}  // namespace layers
}  // namespace thalweg
