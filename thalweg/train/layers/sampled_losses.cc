// SPDX-License-Identifier: Apache-2.0
// Losses over a sample of the classes.
#include <functional>

#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/layers/losses.h"

namespace thalweg {
namespace {

struct SampledLogits {
  Output true_logits;     // [n, num_true]
  Output sampled_logits;  // [n, num_sampled]
};

absl::Status CheckOptions(absl::string_view loss, const SampledLossOptions& o) {
  if (o.num_sampled <= 0 || o.num_classes <= 0 || o.num_true <= 0) {
    return InvalidArgument(loss, ": num_sampled, num_classes and num_true must be positive, got ", o.num_sampled, ", ",
                           o.num_classes, " and ", o.num_true);
  }
  return absl::OkStatus();
}

// Looks up the rows of a table (weights or biases) for some classes.
using Lookup = std::function<Output(const Scope& s, Output ids)>;

Lookup Of(Output table) {
  return [table](const Scope& s, Output ids) { return Gather(s, table, ids); };
}
Lookup Of(const PartitionedVariable& table) {
  return [&table](const Scope& s, Output ids) { return EmbeddingLookup(s, table, ids); };
}

Output Slices(const Scope& s, Output x, bool is_matrix, Output begin, Output count) {
  const Output zero = Const(s, {0}), all = Const(s, {-1});
  return is_matrix ? Slice(s, x, Concat(s, {begin, zero}, 0), Concat(s, {count, all}, 0)) : Slice(s, x, begin, count);
}

// Logits of the labels and of the sample, less the logarithm of how often each
// class is expected in a sample.
SampledLogits ComputeSampledLogits(const Scope& s, const Lookup& weights, const Lookup& biases, Output labels,
                                   Output inputs, const SampledLossOptions& options, bool remove_accidental_hits) {
  labels = Cast(s, labels, kInt64);
  const CandidateSamplerResult sampled =
      options.sampled ? *options.sampled
                      : LogUniformCandidateSampler(s, labels, options.num_true, options.num_sampled,
                                                   options.num_classes, options.sampler);
  const Output candidates = StopGradient(s, sampled.sampled_candidates);
  const Output flat = Reshape(s, labels, {-1});
  if (!s.ok()) return {};
  // One gather, and so one sparse gradient, for both.
  const Output ids = Concat(s, {flat, candidates}, 0);
  const Output all_weights = weights(s, ids);
  const Output all_biases = biases(s, ids);
  const Output begin = Const(s, {0}), rest = Const(s, {-1}), num_labels = ShapeOf(s, flat);
  if (!s.ok()) return {};
  const Output true_weights = Slices(s, all_weights, /*is_matrix=*/true, begin, num_labels);
  const Output sampled_weights = Slices(s, all_weights, /*is_matrix=*/true, num_labels, rest);
  SampledLogits logits;
  logits.sampled_logits = MatMul(s, inputs, sampled_weights, {.transpose_b = true});
  // The products of each input with the weights of its labels, summed over the depth.
  const int32_t num_true = static_cast<int32_t>(options.num_true);
  Output products;
  if (num_true == 1) {
    products = Mul(s, inputs, true_weights);
  } else {
    if (!s.ok()) return {};
    const Output depth = Slice(s, ShapeOf(s, true_weights), Const(s, {1}), Const(s, {1}));
    const Output by_example = Concat(s, {Const(s, {-1, num_true}), depth}, 0);
    products = Mul(s, ExpandDims(s, inputs, 1), Reshape(s, true_weights, by_example));
  }
  const Output sums = ReduceSum(s, products, {-1});
  const Output true_biases = Slices(s, all_biases, /*is_matrix=*/false, begin, num_labels);
  logits.true_logits = Add(s, Reshape(s, sums, {-1, num_true}), Reshape(s, true_biases, {-1, num_true}));
  logits.sampled_logits = Add(s, logits.sampled_logits, Slices(s, all_biases, /*is_matrix=*/false, num_labels, rest));
  if (remove_accidental_hits) {
    const AccidentalHitsResult hits = ComputeAccidentalHits(s, labels, candidates, options.num_true);
    if (!s.ok()) return {};
    const Output where = Pack(s, {hits.indices, Cast(s, hits.ids, kInt32)}, 1);
    const Output shape = Concat(s,
                                {Slice(s, ShapeOf(s, labels), Const(s, {0}), Const(s, {1})),
                                 Const(s, {static_cast<int32_t>(options.num_sampled)})},
                                0);
    // A label that an example has twice is hit twice: one of the weights, which are
    // the lowest number there is, and not their sum.
    const Output hit_weights =
        s.Add("SparseToDense", {where, shape, hits.weights, Const(s, 0.0f)}, {{"validate_indices", false}});
    if (!s.ok()) return {};
    logits.sampled_logits = Add(s, logits.sampled_logits, hit_weights);
  }
  const Output true_counts = StopGradient(s, sampled.true_expected_count);
  const Output sampled_counts = StopGradient(s, sampled.sampled_expected_count);
  logits.true_logits = Sub(s, logits.true_logits, Log(s, true_counts));
  logits.sampled_logits = Sub(s, logits.sampled_logits, Log(s, sampled_counts));
  return logits;
}

Output Nce(const Scope& scope, const Lookup& weights, const Lookup& biases, Output labels, Output inputs,
           const SampledLossOptions& options) {
  if (!scope.ok()) return {};
  scope.Fail(CheckOptions("NceLoss", options));
  const Scope s = scope.SubScope("nce_loss");
  const SampledLogits logits =
      ComputeSampledLogits(s, weights, biases, labels, inputs, options, options.remove_accidental_hits.value_or(false));
  if (!s.ok()) return {};
  // Each label is a positive example of 1 / num_true, each sampled class a negative one.
  const Output share = Const(s, 1 / static_cast<float>(options.num_true));
  const Output positive = SigmoidCrossEntropy(s, logits.true_logits, Mul(s, OnesLike(s, logits.true_logits), share));
  const Output negative = SigmoidCrossEntropy(s, logits.sampled_logits, ZerosLike(s, logits.sampled_logits));
  return Add(s, ReduceSum(s, positive, {1}), ReduceSum(s, negative, {1}));
}

Output SampledSoftmax(const Scope& scope, const Lookup& weights, const Lookup& biases, Output labels, Output inputs,
                      const SampledLossOptions& options) {
  if (!scope.ok()) return {};
  scope.Fail(CheckOptions("SampledSoftmaxLoss", options));
  const Scope s = scope.SubScope("sampled_softmax_loss");
  const SampledLogits logits =
      ComputeSampledLogits(s, weights, biases, labels, inputs, options, options.remove_accidental_hits.value_or(true));
  if (!s.ok()) return {};
  const Output share = Const(s, 1 / static_cast<float>(options.num_true));
  const Output targets =
      Concat(s, {Mul(s, OnesLike(s, logits.true_logits), share), ZerosLike(s, logits.sampled_logits)}, 1);
  return SoftmaxCrossEntropy(s, Concat(s, {logits.true_logits, logits.sampled_logits}, 1), StopGradient(s, targets));
}

}  // namespace

Output NceLoss(const Scope& s, Output weights, Output biases, Output labels, Output inputs,
               const SampledLossOptions& options) {
  return Nce(s, Of(weights), Of(biases), labels, inputs, options);
}
Output NceLoss(const Scope& s, const PartitionedVariable& weights, const PartitionedVariable& biases, Output labels,
               Output inputs, const SampledLossOptions& options) {
  return Nce(s, Of(weights), Of(biases), labels, inputs, options);
}

Output SampledSoftmaxLoss(const Scope& s, Output weights, Output biases, Output labels, Output inputs,
                          const SampledLossOptions& options) {
  return SampledSoftmax(s, Of(weights), Of(biases), labels, inputs, options);
}
Output SampledSoftmaxLoss(const Scope& s, const PartitionedVariable& weights, const PartitionedVariable& biases,
                          Output labels, Output inputs, const SampledLossOptions& options) {
  return SampledSoftmax(s, Of(weights), Of(biases), labels, inputs, options);
}

}  // namespace thalweg
