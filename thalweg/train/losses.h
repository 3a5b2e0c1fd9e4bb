// Losses: what training makes small. All give one number per example, to be
// averaged or weighed: ReduceMean(s, SparseSoftmaxCrossEntropy(s, logits, labels)).
#pragma once

#include "thalweg/graph/scope.h"

namespace thalweg {

// -log(softmax(logits)[label]) for logits [n, classes] and labels int [n].
Output SparseSoftmaxCrossEntropy(const Scope& s, Output logits, Output labels);
// -sum(labels * log(softmax(logits))) for labels that are distributions, [n, classes].
Output SoftmaxCrossEntropy(const Scope& s, Output logits, Output labels);
// (predictions - labels)^2, elementwise.
Output SquaredError(const Scope& s, Output predictions, Output labels);

// The part of examples whose largest logit is that of the label; a number.
Output Accuracy(const Scope& s, Output logits, Output labels);

}  // namespace thalweg
