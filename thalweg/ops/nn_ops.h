// Neural networks: activations, biases, softmax and losses.
#pragma once

#include <string>
#include <utility>

#include "thalweg/graph/scope.h"

namespace thalweg {

struct BiasAddOptions {
  std::string data_format = "NHWC";  // or "NCHW": where the channels are
};
Output BiasAdd(const Scope& s, Output value, Output bias, BiasAddOptions options = {});
Output BiasAddGrad(const Scope& s, Output out_backprop, BiasAddOptions options = {});

Output Relu(const Scope& s, Output features);
Output Relu6(const Scope& s, Output features);
struct LeakyReluOptions {
  float alpha = 0.2f;
};
Output LeakyRelu(const Scope& s, Output features, LeakyReluOptions options = {});
Output Elu(const Scope& s, Output features);
Output Selu(const Scope& s, Output features);
Output Softplus(const Scope& s, Output features);
Output Softsign(const Scope& s, Output features);

// Over the last dimension.
Output Softmax(const Scope& s, Output logits);
Output LogSoftmax(const Scope& s, Output logits);

// Per row of [batch, classes]: the loss and its derivative by the features.
// Labels are a distribution per row, or for the sparse form a class number.
struct CrossEntropy {
  Output loss;
  Output backprop;
};
CrossEntropy SoftmaxCrossEntropyWithLogits(const Scope& s, Output features, Output labels);
CrossEntropy SparseSoftmaxCrossEntropyWithLogits(const Scope& s, Output features, Output labels);

// Half the sum of the squares.
Output L2Loss(const Scope& s, Output t);

// Whether the target class of each row is among the k best predictions.
Output InTopK(const Scope& s, Output predictions, Output targets, Output k);

struct TopKOptions {
  bool sorted = true;
};
struct TopKResult {
  Output values;
  Output indices;
};
// The k largest elements along the last dimension.
TopKResult TopK(const Scope& s, Output input, Output k, TopKOptions options = {});

}  // namespace thalweg
