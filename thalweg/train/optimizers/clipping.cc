// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/optimizers/clipping.h"

#include <limits>

#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"

namespace thalweg {
namespace {

Output Number(const Scope& s, double value, DType dtype) { return Hyperparameter(value).AsTensor(s, "Const", dtype); }

}  // namespace

Output ClipByValue(const Scope& scope, Output t, Hyperparameter low, Hyperparameter high) {
  if (!scope.ok()) return {};
  const Scope s = scope.SubScope("clip_by_value");
  const DType dtype = RemoveRef(t.dtype());
  return ClipByValue(s, t, low.AsTensor(s, "clip_value_min", dtype), high.AsTensor(s, "clip_value_max", dtype));
}

Gradient ClipByValue(const Scope& s, const Gradient& gradient, Hyperparameter low, Hyperparameter high) {
  if (!gradient) return gradient;
  Gradient clipped = gradient;
  clipped.values = ClipByValue(s, gradient.values, low, high);
  return clipped;
}

Output ClipByNorm(const Scope& scope, Output t, Hyperparameter clip_norm) {
  if (!scope.ok()) return {};
  const Scope s = scope.SubScope("clip_by_norm");
  const DType dtype = RemoveRef(t.dtype());
  const Output limit = clip_norm.AsTensor(s, "clip_norm", dtype);
  const Output sum = ReduceSum(s, Mul(s, t, t));
  // The root of 1 stands for that of 0, whose derivative is infinite.
  const Output positive = Greater(s, sum, Number(s, 0, dtype));
  const Output norm = Select(s, positive, Sqrt(s, Select(s, positive, sum, OnesLike(s, sum))), sum);
  return RealDiv(s, Mul(s, t, limit), Maximum(s, norm, limit));
}

Gradient ClipByNorm(const Scope& s, const Gradient& gradient, Hyperparameter clip_norm) {
  if (!gradient) return gradient;
  Gradient clipped = gradient;
  clipped.values = ClipByNorm(s, gradient.values, clip_norm);
  return clipped;
}

Output GlobalNorm(const Scope& scope, const std::vector<Gradient>& gradients) {
  if (!scope.ok()) return {};
  const Scope s = scope.SubScope("global_norm");
  std::vector<Output> halves;
  for (const Gradient& g : gradients) {
    if (g) halves.push_back(L2Loss(s.ColocateWith(g.values), g.values));
  }
  if (halves.empty()) {
    s.Fail(InvalidArgument("GlobalNorm: there are no gradients"));
    return {};
  }
  if (!s.ok()) return {};
  const Output sum = AddN(s, halves);
  return Sqrt(s.WithOpName("global_norm"), Mul(s, sum, Number(s, 2, RemoveRef(sum.dtype()))));
}

ClippedGradients ClipByGlobalNorm(const Scope& scope, std::vector<GradientAndVar> gradients, Hyperparameter clip_norm) {
  std::vector<Gradient> all;
  for (const GradientAndVar& g : gradients) all.push_back(g.gradient);
  ClippedGradients result{std::move(gradients), GlobalNorm(scope, all)};
  if (!scope.ok()) return result;
  const Scope s = scope.SubScope("clip_by_global_norm");
  const DType dtype = RemoveRef(result.global_norm.dtype());
  const Output limit = clip_norm.AsTensor(s, "clip_norm", dtype);
  const Output one = Number(s, 1, dtype);
  // limit / max(norm, limit), and NaN for a norm that is infinite or NaN.
  Output scale = Mul(s, limit, Minimum(s, RealDiv(s, one, result.global_norm), RealDiv(s, one, limit)));
  scale = Select(s, IsFinite(s, result.global_norm), scale, Number(s, std::numeric_limits<double>::quiet_NaN(), dtype));
  for (GradientAndVar& g : result.gradients) {
    if (!g.gradient || !s.ok()) continue;
    const DType type = RemoveRef(g.gradient.values.dtype());
    g.gradient.values =
        Mul(s.ColocateWith(g.gradient.values), g.gradient.values, type == dtype ? scale : Cast(s, scale, type));
  }
  return result;
}

}  // namespace thalweg
