// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/optimizers/learning_rate.h"

#include <numbers>

#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

Output Number(const Scope& s, double value) { return Const(s, static_cast<float>(value)); }

// False, with an error, if steps are divided by nothing.
bool Positive(const Scope& s, absl::string_view schedule, double steps) {
  if (!(steps > 0)) s.Fail(InvalidArgument(schedule, ": decay_steps must be positive, got ", steps));
  return s.ok();
}

// step / decay_steps
Output Elapsed(const Scope& s, Output step, double decay_steps, bool staircase) {
  const Output p = RealDiv(s, Cast(s, step, kFloat), Number(s, decay_steps));
  return staircase ? Floor(s, p) : p;
}

// From twice `half` times the rate to alpha times it, at part p of half a wave.
Output Cosine(const Scope& s, Hyperparameter rate, Output half, Output p, double alpha) {
  const Output decayed = Mul(s, half, Add(s, Number(s, 1), Cos(s, Mul(s, Number(s, std::numbers::pi), p))));
  const Output part = Add(s, Mul(s, Number(s, 1 - alpha), decayed), Number(s, alpha));
  return Mul(s, rate.AsTensor(s, "learning_rate", kFloat), part);
}

}  // namespace

Output ExponentialDecay(const Scope& scope, Hyperparameter rate, Output step, const DecayOptions& options) {
  if (!Positive(scope, "ExponentialDecay", options.decay_steps)) return {};
  const Scope s = scope.SubScope("ExponentialDecay");
  const Output p = Elapsed(s, step, options.decay_steps, options.staircase);
  return Mul(s, rate.AsTensor(s, "learning_rate", kFloat), Pow(s, Number(s, options.decay_rate), p));
}

Output NaturalExpDecay(const Scope& scope, Hyperparameter rate, Output step, const DecayOptions& options) {
  if (!Positive(scope, "NaturalExpDecay", options.decay_steps)) return {};
  const Scope s = scope.SubScope("NaturalExpDecay");
  const Output p = Elapsed(s, step, options.decay_steps, options.staircase);
  return Mul(s, rate.AsTensor(s, "learning_rate", kFloat), Exp(s, Mul(s, Number(s, -options.decay_rate), p)));
}

Output InverseTimeDecay(const Scope& scope, Hyperparameter rate, Output step, const DecayOptions& options) {
  if (!Positive(scope, "InverseTimeDecay", options.decay_steps)) return {};
  const Scope s = scope.SubScope("InverseTimeDecay");
  const Output p = Elapsed(s, step, options.decay_steps, options.staircase);
  const Output divisor = Add(s, Number(s, 1), Mul(s, Number(s, options.decay_rate), p));
  return RealDiv(s, rate.AsTensor(s, "learning_rate", kFloat), divisor);
}

Output PiecewiseConstant(const Scope& scope, Output step, const std::vector<int64_t>& boundaries,
                         const std::vector<double>& values) {
  if (!scope.ok()) return {};
  if (values.size() != boundaries.size() + 1) {
    scope.Fail(InvalidArgument("PiecewiseConstant: ", boundaries.size(), " boundaries need ", boundaries.size() + 1,
                               " values, got ", values.size()));
    return {};
  }
  for (size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] <= boundaries[i - 1]) {
      scope.Fail(InvalidArgument("PiecewiseConstant: boundaries must rise, got ", boundaries[i - 1], " before ",
                                 boundaries[i]));
      return {};
    }
  }
  const Scope s = scope.SubScope("PiecewiseConstant");
  if (boundaries.empty()) return Number(s, values[0]);
  // The value's number is that of boundaries which the step is behind.
  const Output behind = Greater(s, Cast(s, step, kInt64), Const(s, boundaries));
  const Output which = ReduceSum(s, Cast(s, behind, kInt32));
  return Gather(s, Const(s, std::vector<float>(values.begin(), values.end())), which);
}

Output PolynomialDecay(const Scope& scope, Hyperparameter rate, Output step, const PolynomialDecayOptions& options) {
  if (!Positive(scope, "PolynomialDecay", options.decay_steps)) return {};
  const Scope s = scope.SubScope("PolynomialDecay");
  const Output now = Cast(s, step, kFloat);
  const Output one = Number(s, 1);
  Output p = RealDiv(s, now, Number(s, options.decay_steps));
  // The part of the current cycle, which is ceil(p) times as long as the first;
  // or all, in the end.
  p = options.cycle ? RealDiv(s, p, Maximum(s, Ceil(s, p), one)) : Minimum(s, p, one);
  const Output start = rate.AsTensor(s, "learning_rate", kFloat), end = Number(s, options.end_learning_rate);
  const Output left = Pow(s, Sub(s, one, p), Number(s, options.power));
  return Add(s, Mul(s, Sub(s, start, end), left), end);
}

Output CosineDecay(const Scope& scope, Hyperparameter rate, Output step, const CosineDecayOptions& options) {
  if (!Positive(scope, "CosineDecay", options.decay_steps)) return {};
  const Scope s = scope.SubScope("CosineDecay");
  const Output p = Minimum(s, Elapsed(s, step, options.decay_steps, false), Number(s, 1));
  return Cosine(s, rate, Number(s, 0.5), p, options.alpha);
}

Output CosineDecayRestarts(const Scope& scope, Hyperparameter rate, Output step, const CosineRestartsOptions& options) {
  if (!Positive(scope, "CosineDecayRestarts", options.first_decay_steps)) return {};
  if (!(options.t_mul >= 1 && options.m_mul > 0)) {
    scope.Fail(InvalidArgument("CosineDecayRestarts: t_mul must be at least 1 and m_mul positive, got ", options.t_mul,
                               " and ", options.m_mul));
    return {};
  }
  const Scope s = scope.SubScope("SGDRDecay");
  // In lengths of the first cycle; cycle i is t_mul ^ i long.
  Output p = Elapsed(s, step, options.first_decay_steps, false), i;
  if (options.t_mul == 1) {
    i = Floor(s, p);
    p = Sub(s, p, i);
  } else {
    const Output one = Number(s, 1), longer = Number(s, 1 - options.t_mul), t_mul = Number(s, options.t_mul);
    i = Floor(s, RealDiv(s, Log(s, Sub(s, one, Mul(s, p, longer))), Log(s, t_mul)));
    const Output length = Pow(s, t_mul, i);
    p = RealDiv(s, Sub(s, p, RealDiv(s, Sub(s, one, length), longer)), length);
  }
  return Cosine(s, rate, Mul(s, Number(s, 0.5), Pow(s, Number(s, options.m_mul), i)), p, options.alpha);
}

Output LinearScaling(const Scope& scope, Hyperparameter rate, Output step, const WarmupOptions& options) {
  if (!scope.ok()) return {};
  if (options.warmup_steps < 0 || !(options.scale > 0)) {
    scope.Fail(InvalidArgument("LinearScaling: scale must be positive and warmup_steps not negative, got ",
                               options.scale, " and ", options.warmup_steps));
    return {};
  }
  const Scope s = scope.SubScope("LinearScaling");
  const Output base = rate.AsTensor(s, "learning_rate", kFloat);
  if (options.warmup_steps == 0) return Mul(s, base, Number(s, options.scale));
  const Output p = Elapsed(s, step, static_cast<double>(options.warmup_steps), false);
  const Output warm = Minimum(s, p, Number(s, 1));
  return Mul(s, base, Add(s, Number(s, 1), Mul(s, Number(s, options.scale - 1), warm)));
}

}  // namespace thalweg
