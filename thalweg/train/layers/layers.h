// SPDX-License-Identifier: Apache-2.0
// Layers: functions that add a piece of a model, with its variables, to a graph.
// Variables have the names and shapes that tf.layers gives them, so that
// checkpoints go both ways. See also convolution_layers.h,
// normalization_layers.h and recurrent_layers.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "thalweg/graph/scope.h"
#include "thalweg/train/layers/initializers.h"

namespace thalweg {

// A function that a layer applies to its result: Relu, Tanh, ...
using Activation = std::function<Output(const Scope&, Output)>;

// Whether a model is being trained, for layers that behave differently then:
// known when the model is built or, as a bool scalar, only when it runs.
class Training {
 public:
  Training(bool value) : value_(value) {}       // NOLINT: implicit by design
  Training(Output tensor) : tensor_(tensor) {}  // NOLINT

  bool value() const { return value_; }  // if there is no tensor
  Output tensor() const { return tensor_; }

 private:
  bool value_ = false;
  Output tensor_;
};

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

// [batch, ...] to [batch, everything else]; only the first dimension may be
// unknown.
Output Flatten(const Scope& s, Output x);

struct EmbeddingOptions {
  Initializer initializer = initializers::Uniform();
  DType dtype = kFloat;
  bool trainable = true;
  std::string name = "embedding";
};

// Rows of the variable `name/embeddings` [size, depth] by number: ids [...] give
// [..., depth]. Its gradient has only the rows that were used.
Output Embedding(const Scope& s, Output ids, int64_t size, int64_t depth, const EmbeddingOptions& options = {});

struct DropoutOptions {
  double rate = 0.5;  // what part is dropped
  Training training = false;
  std::optional<int64_t> seed;  // without one, of the graph's either, every run draws differently
  std::string name = "dropout";
};

// While training, zeros with the probability `rate`, and everything else divided
// by 1 - rate; else x.
Output Dropout(const Scope& s, Output x, const DropoutOptions& options = {});

}  // namespace layers
}  // namespace thalweg
