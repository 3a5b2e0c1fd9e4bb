// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/losses.h"

#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {
namespace {

Output Number(const Scope& s, double value, Output like) {
  return s.ok() ? Hyperparameter(value).AsTensor(s, "Const", RemoveRef(like.dtype())) : Output();
}

}  // namespace

Output SparseSoftmaxCrossEntropy(const Scope& s, Output logits, Output labels) {
  return SparseSoftmaxCrossEntropyWithLogits(s, logits, labels).loss;
}

Output SoftmaxCrossEntropy(const Scope& s, Output logits, Output labels) {
  return SoftmaxCrossEntropyWithLogits(s, logits, labels).loss;
}

Output SigmoidCrossEntropy(const Scope& scope, Output logits, Output labels) {
  // max(x, 0) - x * z + log(1 + exp(-|x|)): nothing overflows.
  const Scope s = scope.SubScope("logistic_loss");
  const Output positive = GreaterEqual(s, logits, Number(s, 0, logits));
  if (!s.ok()) return {};
  const Output zeros = ZerosLike(s, logits);
  const Output relu = Select(s, positive, logits, zeros);
  const Output minus_abs = Select(s, positive, Neg(s, logits), logits);
  return Add(s, Sub(s, relu, Mul(s, logits, labels)), Log1p(s, Exp(s, minus_abs)));
}

Output SquaredError(const Scope& s, Output predictions, Output labels) {
  return SquaredDifference(s, predictions, labels);
}

Output AbsoluteError(const Scope& s, Output predictions, Output labels) { return Abs(s, Sub(s, predictions, labels)); }

Output HuberLoss(const Scope& scope, Output predictions, Output labels, double delta) {
  const Scope s = scope.SubScope("huber_loss");
  const Output error = AbsoluteError(s, predictions, labels);
  const Output limit = Number(s, delta, predictions);
  const Output quadratic = Minimum(s, error, limit);
  const Output half = Mul(s, Number(s, 0.5, predictions), Mul(s, quadratic, quadratic));
  return Add(s, half, Mul(s, limit, Sub(s, error, quadratic)));
}

Output HingeLoss(const Scope& scope, Output logits, Output labels) {
  const Scope s = scope.SubScope("hinge_loss");
  const Output one = Number(s, 1, logits);
  const Output sign = Sub(s, Mul(s, labels, Number(s, 2, logits)), one);
  return Relu(s, Sub(s, one, Mul(s, sign, logits)));
}

Output WeightedMean(const Scope& scope, Output losses, Output weights) {
  const Scope s = scope.SubScope("weighted_loss");
  const Output weighed = Mul(s, losses, weights);
  const Output zero = Number(s, 0, weights);
  if (!s.ok()) return {};
  const Output counts = Cast(s, NotEqual(s, weights, zero), RemoveRef(losses.dtype()));
  return DivNoNan(s, ReduceSum(s, weighed), ReduceSum(s, Mul(s, counts, OnesLike(s, losses))));
}

Output Accuracy(const Scope& scope, Output logits, Output labels) {
  const Scope s = scope.SubScope("accuracy");
  const Output hits = Equal(s, ArgMax(s, logits, 1), Cast(s, labels, kInt64));
  return ReduceMean(s, Cast(s, hits, kFloat));
}

}  // namespace thalweg
