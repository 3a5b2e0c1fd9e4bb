#include "thalweg/train/losses.h"

#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"

namespace thalweg {

Output SparseSoftmaxCrossEntropy(const Scope& s, Output logits, Output labels) {
  return SparseSoftmaxCrossEntropyWithLogits(s, logits, labels).loss;
}

Output SoftmaxCrossEntropy(const Scope& s, Output logits, Output labels) {
  return SoftmaxCrossEntropyWithLogits(s, logits, labels).loss;
}

Output SquaredError(const Scope& s, Output predictions, Output labels) {
  return SquaredDifference(s, predictions, labels);
}

Output Accuracy(const Scope& scope, Output logits, Output labels) {
  const Scope s = scope.SubScope("accuracy");
  const Output hits = Equal(s, ArgMax(s, logits, 1), Cast(s, labels, kInt64));
  return ReduceMean(s, Cast(s, hits, kFloat));
}

}  // namespace thalweg
