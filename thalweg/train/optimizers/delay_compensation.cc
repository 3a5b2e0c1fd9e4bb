// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/optimizers/delay_compensation.h"

#include <utility>

#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/optimizers/wrapped_optimizer.h"

namespace thalweg {
namespace {

class DelayCompensationOptimizer final : public WrappedOptimizer {
 public:
  DelayCompensationOptimizer(std::unique_ptr<Optimizer> inner, const DelayCompensationOptions& options)
      : WrappedOptimizer("DelayCompensation", std::move(inner)), options_(options) {}

  Output ApplyGradients(const Scope& s, const std::vector<GradientAndVar>& gradients,
                        const ApplyGradientsOptions& options) override {
    if (!s.ok()) return {};
    const Scope own = s.InScope("").WithoutControlDependencies().SubScope("delay_compensation");
    std::vector<GradientAndVar> compensated;
    for (const GradientAndVar& g : gradients) {
      compensated.push_back(g);
      if (!g.gradient || (g.gradient.sparse() && !options_.sparse)) continue;
      const Scope beside = own.ColocateWith(g.variable.ref);
      compensated.back().gradient = g.gradient.sparse() ? CompensateRows(beside, g) : Compensate(beside, g);
    }
    return inner().ApplyGradients(s, compensated, options);
  }

 private:
  Gradient Compensate(const Scope& s, const GradientAndVar& g) {
    const Var& v = g.variable;
    const Output values = g.gradient.values;
    // Read when the gradient is there; v.read is what it was computed from.
    const Output now = Identity(s.WithControlDependencies({values}), v.ref);
    Output mean_square;
    if (options_.adaptive) {
      const Var slot = MakeSlot(s.InScope(""), v, "mean_square", initializers::Zeros());
      if (!s.ok()) return {};
      mean_square = Assign(s, slot.ref, MovingMean(s, slot, values), {.use_locking = true});
    }
    return Sum(s, values, Sub(s, now, v.read), mean_square);
  }

  Gradient CompensateRows(const Scope& s, const GradientAndVar& g) {
    const Var& v = g.variable;
    const Gradient rows = SumRepeatedRows(s, g.gradient);
    const Output before = Gather(s, v.read, rows.indices);
    const Output now = Gather(s.WithControlDependencies({rows.values}), v.ref, rows.indices);
    Output mean_square;
    if (options_.adaptive) {
      const Var slot = MakeSlot(s.InScope(""), v, "mean_square", initializers::Zeros());
      if (!s.ok()) return {};
      mean_square = MovingMean(s, Gather(s, slot, rows.indices), rows.values);
      const Output kept = ScatterUpdate(s, slot.ref, rows.indices, mean_square);
      mean_square = Identity(s.WithControlDependencies({kept}), mean_square);
    }
    return Gradient(Sum(s, rows.values, Sub(s, now, before), mean_square), rows.indices, rows.dense_shape);
  }

  Output MovingMean(const Scope& s, Output mean, Output g) const {
    const Output decay = Number(s, options_.mean_decay, g), rest = Number(s, 1 - options_.mean_decay, g);
    return Add(s, Mul(s, mean, decay), Mul(s, Square(s, g), rest));
  }

  // g + lambda g g (w' - w)
  Output Sum(const Scope& s, Output g, Output moved, Output mean_square) const {
    Output lambda = Number(s, options_.lambda, g);
    if (mean_square) {
      lambda = RealDiv(s, lambda, Sqrt(s, Add(s, mean_square, Number(s, options_.epsilon, g))));
    }
    return Add(s, g, Mul(s, lambda, Mul(s, Square(s, g), moved)));
  }

  static Output Number(const Scope& s, double value, Output like) {
    return Hyperparameter(value).AsTensor(s, "number", RemoveRef(like.dtype()));
  }

  const DelayCompensationOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> DelayCompensation(std::unique_ptr<Optimizer> optimizer,
                                             const DelayCompensationOptions& options) {
  return std::make_unique<DelayCompensationOptimizer>(std::move(optimizer), options);
}

}  // namespace thalweg
