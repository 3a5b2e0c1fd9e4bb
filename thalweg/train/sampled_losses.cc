// Losses over a sample of the classes.
#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/losses.h"

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

Output Rows(const Scope& s, Output x, Output begin, Output count) {
  // Of a matrix or a vector: all of the other dimension.
  const bool is_matrix = x.shape().rank() == 2;
  const Output zero = Const(s, {0}), all = Const(s, {-1});
  return is_matrix ? Slice(s, x, Concat(s, {begin, zero}, 0), Concat(s, {count, all}, 0)) : Slice(s, x, begin, count);
}

// Logits of the labels and of the sample, less the logarithm of how often each
// class is expected in a sample.
SampledLogits ComputeSampledLogits(const Scope& s, Output weights, Output biases, Output labels, Output inputs,
                                   const SampledLossOptions& options, bool remove_accidental_hits) {
  labels = Cast(s, labels, kInt64);
  const CandidateSamples sampled = options.sampled
                                       ? *options.sampled
                                       : LogUniformCandidateSampler(s, labels, options.num_true, options.num_sampled,
                                                                    options.num_classes, options.sampler);
  const Output candidates = StopGradient(s, sampled.sampled_candidates);
  const Output flat = Reshape(s, labels, {-1});
  if (!s.ok()) return {};
  // One gather, and so one sparse gradient, for both.
  const Output ids = Concat(s, {flat, candidates}, 0);
  const Output all_weights = Gather(s, weights, ids);
  const Output all_biases = Gather(s, biases, ids);
  const Output begin = Const(s, {0}), rest = Const(s, {-1}), num_labels = ShapeOf(s, flat);
  if (!s.ok()) return {};
  const Output true_weights = Rows(s, all_weights, begin, num_labels);
  const Output sampled_weights = Rows(s, all_weights, num_labels, rest);
  SampledLogits logits;
  logits.sampled_logits = MatMul(s, inputs, sampled_weights, {.transpose_b = true});
  // The products of each input with the weights of its labels, summed over the depth.
  const int32_t num_true = static_cast<int32_t>(options.num_true);
  Output products;
  if (num_true == 1) {
    products = Mul(s, inputs, true_weights);
  } else {
    if (!s.ok()) return {};
    const int32_t depth = static_cast<int32_t>(weights.shape().dim(1));
    products = Mul(s, ExpandDims(s, inputs, 1), Reshape(s, true_weights, {-1, num_true, depth}));
  }
  const Output sums = ReduceSum(s, products, {-1});
  logits.true_logits =
      Add(s, Reshape(s, sums, {-1, num_true}), Reshape(s, Rows(s, all_biases, begin, num_labels), {-1, num_true}));
  logits.sampled_logits = Add(s, logits.sampled_logits, Rows(s, all_biases, num_labels, rest));
  if (remove_accidental_hits) {
    const AccidentalHits hits = ComputeAccidentalHits(s, labels, candidates, options.num_true);
    if (!s.ok()) return {};
    const Output where = Pack(s, {hits.indices, Cast(s, hits.ids, kInt32)}, 1);
    const Output shape = Concat(s,
                                {Slice(s, ShapeOf(s, labels), Const(s, {0}), Const(s, {1})),
                                 Const(s, {static_cast<int32_t>(options.num_sampled)})},
                                0);
    logits.sampled_logits = Add(s, logits.sampled_logits, ScatterNd(s, where, hits.weights, shape));
  }
  const Output true_counts = StopGradient(s, sampled.true_expected_count);
  const Output sampled_counts = StopGradient(s, sampled.sampled_expected_count);
  logits.true_logits = Sub(s, logits.true_logits, Log(s, true_counts));
  logits.sampled_logits = Sub(s, logits.sampled_logits, Log(s, sampled_counts));
  return logits;
}

}  // namespace

Output NceLoss(const Scope& scope, Output weights, Output biases, Output labels, Output inputs,
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

Output SampledSoftmaxLoss(const Scope& scope, Output weights, Output biases, Output labels, Output inputs,
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

}  // namespace thalweg
