// SPDX-License-Identifier: Apache-2.0
// Loss functions. Each gives one number per example, which a program averages or weights:
// ReduceMean(s, SparseSoftmaxCrossEntropy(s, logits, labels)).
#pragma once

#include <optional>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/sampling_ops.h"
#include "thalweg/train/layers/partitioned_variable.h"

namespace thalweg {

// -log(softmax(logits)[label]) for logits [n, classes] and labels int [n].
Output SparseSoftmaxCrossEntropy(const Scope& s, Output logits, Output labels);
// -sum(labels * log(softmax(logits))) for labels that are distributions, [n, classes].
Output SoftmaxCrossEntropy(const Scope& s, Output logits, Output labels);

// -labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits)), elementwise.
Output SigmoidCrossEntropy(const Scope& s, Output logits, Output labels);
// (predictions - labels)^2, elementwise.
Output SquaredError(const Scope& s, Output predictions, Output labels);
// |predictions - labels|, elementwise.
Output AbsoluteError(const Scope& s, Output predictions, Output labels);
// error^2 / 2 up to `delta`, linear beyond it, elementwise (Huber 1964).
Output HuberLoss(const Scope& s, Output predictions, Output labels, double delta = 1);
// max(0, 1 - (2 * label - 1) * logit) for labels 0 and 1, elementwise.
Output HingeLoss(const Scope& s, Output logits, Output labels);

// sum(losses * weights) / (number of losses whose weight is not 0), as tf.losses computes
// it; 0 if all weights are 0. Weights broadcast.
Output WeightedMean(const Scope& s, Output losses, Output weights);

// How a sampled loss draws classes.
struct SampledLossOptions {
  int64_t num_sampled = 64;  // classes to sample per batch
  int64_t num_classes = 0;   // number of rows of `weights`
  int64_t num_true = 1;      // labels per example
  // Ignore sampled classes that are labels of the example. Default: false for NCE, true for sampled softmax.
  std::optional<bool> remove_accidental_hits;
  // The sampled classes. By default they are drawn from a log-uniform distribution, which
  // suits words that are numbered by falling frequency.
  std::optional<CandidateSamplerResult> sampled;
  CandidateSamplerOptions sampler;  // options of that default sampler
};
// Noise-contrastive estimation (Gutmann and Hyvarinen 2010): a loss over many classes that
// computes only the labels and a sample of the others. weights [num_classes, depth], biases
// [num_classes], inputs [n, depth], labels int64 [n, num_true]; the result is [n]. For
// training; evaluate with all classes. Of partitioned weights and biases only the rows that
// are used are sent:
Output NceLoss(const Scope& s, Output weights, Output biases, Output labels, Output inputs,
               const SampledLossOptions& options);
Output NceLoss(const Scope& s, const PartitionedVariable& weights, const PartitionedVariable& biases, Output labels,
               Output inputs, const SampledLossOptions& options);
// Softmax over a sample of the classes (Jean et al. 2014), with the shapes of NceLoss:
Output SampledSoftmaxLoss(const Scope& s, Output weights, Output biases, Output labels, Output inputs,
                          const SampledLossOptions& options);
Output SampledSoftmaxLoss(const Scope& s, const PartitionedVariable& weights, const PartitionedVariable& biases,
                          Output labels, Output inputs, const SampledLossOptions& options);

// The fraction of examples whose largest logit is that of the label: a float scalar.
Output Accuracy(const Scope& s, Output logits, Output labels);

}  // namespace thalweg
