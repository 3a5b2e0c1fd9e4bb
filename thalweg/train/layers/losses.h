// SPDX-License-Identifier: Apache-2.0
// Losses: what training makes small. All give one number per example, to be
// averaged or weighed: ReduceMean(s, SparseSoftmaxCrossEntropy(s, logits, labels)).
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

// These are elementwise.
//
// -labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits))
Output SigmoidCrossEntropy(const Scope& s, Output logits, Output labels);
// (predictions - labels)^2
Output SquaredError(const Scope& s, Output predictions, Output labels);
// |predictions - labels|
Output AbsoluteError(const Scope& s, Output predictions, Output labels);
// error^2 / 2 up to delta, from there on a straight line (Huber 1964)
Output HuberLoss(const Scope& s, Output predictions, Output labels, double delta = 1);
// max(0, 1 - (2 * label - 1) * logit) for labels 0 and 1
Output HingeLoss(const Scope& s, Output logits, Output labels);

// sum(losses * weights) / (number of losses whose weight is not 0), 0 if there
// are none; weights may broadcast. What the functions of tf.losses give.
Output WeightedMean(const Scope& s, Output losses, Output weights);

struct SampledLossOptions {
  int64_t num_sampled = 64;
  int64_t num_classes = 0;  // the number of rows of `weights`
  int64_t num_true = 1;     // labels of an example
  // Leaves out sampled classes that are labels of the example.
  std::optional<bool> remove_accidental_hits;  // default: false for NCE, true for sampled softmax
  // The classes; by default drawn from a log-uniform distribution, which is that
  // of words that are numbered by falling frequency.
  std::optional<CandidateSamplerResult> sampled;
  CandidateSamplerOptions sampler;
};
// Losses over many classes, of which only the labels and a sample are looked at.
// weights [num_classes, depth], biases [num_classes], inputs [n, depth], labels
// int64 [n, num_true]. For training; evaluate with all classes. If weights and
// biases are in parts, only the rows that are looked at leave their tasks.
//
// Noise-contrastive estimation (Gutmann and Hyvarinen 2010):
Output NceLoss(const Scope& s, Output weights, Output biases, Output labels, Output inputs,
               const SampledLossOptions& options);
Output NceLoss(const Scope& s, const PartitionedVariable& weights, const PartitionedVariable& biases, Output labels,
               Output inputs, const SampledLossOptions& options);
// Softmax over a sample of the classes (Jean et al. 2014):
Output SampledSoftmaxLoss(const Scope& s, Output weights, Output biases, Output labels, Output inputs,
                          const SampledLossOptions& options);
Output SampledSoftmaxLoss(const Scope& s, const PartitionedVariable& weights, const PartitionedVariable& biases,
                          Output labels, Output inputs, const SampledLossOptions& options);

// The part of examples whose largest logit is that of the label; a number.
Output Accuracy(const Scope& s, Output logits, Output labels);

}  // namespace thalweg
