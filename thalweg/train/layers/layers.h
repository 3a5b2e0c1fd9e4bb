// SPDX-License-Identifier: Apache-2.0
// Layers: functions that add a piece of a model, with its variables, to a graph.
// Variables have the names and shapes that tf.layers gives them, so that
// checkpoints are interchangeable. See also convolution_layers.h,
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

// Whether a model is being trained, for layers that behave differently then. Either fixed
// when the model is built, or a bool scalar that is known when it runs.
class Training {
 public:
  // Fixed, or a tensor:
  Training(bool value) : value_(value) {}       // NOLINT: implicit by design
  Training(Output tensor) : tensor_(tensor) {}  // NOLINT

  bool value() const { return value_; }      // the fixed value; valid if there is no tensor
  Output tensor() const { return tensor_; }  // empty if the value is fixed

 private:
  bool value_ = false;
  Output tensor_;
};

namespace layers {

// The activation, bias and initial values of Dense.
struct DenseOptions {
  Activation activation;                                           // applied to the result; empty: linear
  bool use_bias = true;                                            // add a bias
  Initializer kernel_initializer = initializers::GlorotUniform();  // initial kernel
  Initializer bias_initializer = initializers::Zeros();            // initial bias
  bool trainable = true;                                           // whether optimizers train the variables
  std::string name = "dense";  // prefix of the variables, made unique: dense, dense_1, ...
};

// A fully connected layer: activation(x * kernel + bias). x is [..., in], the result
// [..., units]. The variables are `name/kernel` [in, units] and `name/bias` [units]. The last
// dimension of x must be known; if x has more than two, at most one other may be unknown.
//
//   const Output hidden = layers::Dense(s, images, 100, {.activation = Relu});
Output Dense(const Scope& s, Output x, int64_t units, const DenseOptions& options = {});

// Reshapes [batch, ...] to [batch, product of the others]. Only the first dimension may be
// unknown.
Output Flatten(const Scope& s, Output x);

// The initial rows, type and name of an embedding table.
struct EmbeddingOptions {
  Initializer initializer = initializers::Uniform();  // initial rows
  DType dtype = kFloat;                               // element type
  bool trainable = true;                              // whether optimizers train the table
  std::string name = "embedding";                     // prefix of the variable, made unique
};

// Looks up rows of the variable `name/embeddings` [size, depth] by number: ids [...] give
// [..., depth]. The gradient is sparse: it has only the rows that were used.
Output Embedding(const Scope& s, Output ids, int64_t size, int64_t depth, const EmbeddingOptions& options = {});

// How many elements Dropout drops, and when.
struct DropoutOptions {
  double rate = 0.5;             // fraction of the elements that is dropped
  Training training = false;     // drops only if true
  std::optional<int64_t> seed;   // without one, or one of the graph, every run draws differently
  std::string name = "dropout";  // name scope, made unique
};

// While training, sets elements to zero with probability `rate` and divides the others by
// 1 - rate. Otherwise returns x.
Output Dropout(const Scope& s, Output x, const DropoutOptions& options = {});

}  // namespace layers
}  // namespace thalweg
