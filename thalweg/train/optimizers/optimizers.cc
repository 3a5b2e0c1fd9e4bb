// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/optimizers/optimizers.h"

#include <algorithm>

#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

class GradientDescentOptimizer final : public Optimizer {
 public:
  explicit GradientDescentOptimizer(const GradientDescentOptions& options)
      : Optimizer("GradientDescent"), options_(options) {}

 private:
  Output ApplyDense(const Scope& s, Output gradient, const Var& variable) override {
    const Output rate = options_.learning_rate.AsTensor(s, "learning_rate", variable.dtype());
    return ApplyGradientDescent(s, variable.ref, rate, gradient, {.use_locking = options_.use_locking});
  }
  Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& variable) override {
    const Output rate = options_.learning_rate.AsTensor(s, "learning_rate", variable.dtype());
    return ScatterSub(s, variable.ref, gradient.indices, Mul(s, gradient.values, rate),
                      {.use_locking = options_.use_locking});
  }
  bool AllowsRepeatedRows() const override { return true; }

  const GradientDescentOptions options_;
};

class MomentumOptimizer final : public Optimizer {
 public:
  explicit MomentumOptimizer(const MomentumOptions& options) : Optimizer("Momentum"), options_(options) {}

 private:
  void CreateSlots(const Scope& s, const std::vector<Var>& variables) override {
    for (const Var& v : variables) MakeSlot(s, v, "momentum", initializers::Zeros());
  }
  Output ApplyDense(const Scope& s, Output gradient, const Var& variable) override {
    return ApplyMomentum(s, variable.ref, GetSlot(variable, "momentum").ref, Rate(s, variable), gradient,
                         Momentum(s, variable), Attrs());
  }
  Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& variable) override {
    return SparseApplyMomentum(s, variable.ref, GetSlot(variable, "momentum").ref, Rate(s, variable), gradient.values,
                               gradient.indices, Momentum(s, variable), Attrs());
  }

  Output Rate(const Scope& s, const Var& v) const {
    return options_.learning_rate.AsTensor(s, "learning_rate", v.dtype());
  }
  Output Momentum(const Scope& s, const Var& v) const { return options_.momentum.AsTensor(s, "momentum", v.dtype()); }
  ApplyMomentumOptions Attrs() const {
    return {.use_locking = options_.use_locking, .use_nesterov = options_.use_nesterov};
  }

  const MomentumOptions options_;
};

// The powers of the betas are variables, as in TensorFlow, multiplied after
// every update.
class AdamOptimizer final : public Optimizer {
 public:
  explicit AdamOptimizer(const AdamOptions& options) : Optimizer("Adam"), options_(options) {}

 private:
  void CreateSlots(const Scope& s, const std::vector<Var>& variables) override {
    const Var& first = *std::min_element(variables.begin(), variables.end(),
                                         [](const Var& a, const Var& b) { return a.name() < b.name(); });
    MakeScalar(s, "beta1_power", options_.beta1, first);
    MakeScalar(s, "beta2_power", options_.beta2, first);
    for (const Var& v : variables) {
      MakeSlot(s, v, "m", initializers::Zeros());
      MakeSlot(s, v, "v", initializers::Zeros());
    }
  }

  Output ApplyDense(const Scope& s, Output gradient, const Var& variable) override {
    const Numbers n = NumbersFor(s, variable.dtype());
    return ApplyAdam(s, variable.ref, GetSlot(variable, "m").ref, GetSlot(variable, "v").ref, n.beta1_power,
                     n.beta2_power, n.rate, n.beta1, n.beta2, n.epsilon, gradient,
                     {.use_locking = options_.use_locking});
  }

  // All rows of m and v decay, and all of the variable move: the same as with
  // the gradient made dense.
  Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& variable) override {
    const Numbers n = NumbersFor(s, variable.dtype());
    const Output one = Hyperparameter(1.0).AsTensor(s, "one", variable.dtype());
    const Output rate = RealDiv(s, Mul(s, n.rate, Sqrt(s, Sub(s, one, n.beta2_power))), Sub(s, one, n.beta1_power));
    const Output g = gradient.values;
    const Output m = Decay(s, GetSlot(variable, "m"), n.beta1, gradient.indices, Mul(s, g, Sub(s, one, n.beta1)));
    const Output v =
        Decay(s, GetSlot(variable, "v"), n.beta2, gradient.indices, Mul(s, Mul(s, g, g), Sub(s, one, n.beta2)));
    const Output step = RealDiv(s, Mul(s, rate, m), Add(s, Sqrt(s, v), n.epsilon));
    return AssignSub(s, variable.ref, step, {.use_locking = options_.use_locking});
  }

  // slot = slot * beta, then the rows are added.
  Output Decay(const Scope& s, const Var& slot, Output beta, Output rows, Output values) const {
    const Output decayed = Assign(s, slot.ref, Mul(s, slot, beta), {.use_locking = options_.use_locking});
    return ScatterAdd(s, decayed, rows, values, {.use_locking = options_.use_locking});
  }

  std::vector<Output> Finish(const Scope& s, const std::vector<Output>& updates) override {
    std::vector<Output> assigned;
    for (const auto& [name, beta] :
         {std::pair("beta1_power", options_.beta1), std::pair("beta2_power", options_.beta2)}) {
      const Var power = GetScalar(name);
      if (!power) continue;
      const Scope after = s.ColocateWith(power.ref).WithControlDependencies(updates);
      const Output factor =
          Hyperparameter(beta).AsTensor(s.ColocateWith(power.ref), name[4] == '1' ? "beta1" : "beta2", power.dtype());
      assigned.push_back(
          Assign(after, power.ref, Mul(after.WithOpName("mul"), power, factor), {.use_locking = options_.use_locking}));
    }
    return assigned;
  }

  struct Numbers {
    Output rate, beta1, beta2, epsilon, beta1_power, beta2_power;
  };
  Numbers NumbersFor(const Scope& s, DType dtype) const {
    // The betas of a double training are floats, too: others would not go with
    // their powers.
    return {.rate = options_.learning_rate.AsTensor(s, "learning_rate", dtype),
            .beta1 = Hyperparameter(static_cast<float>(options_.beta1)).AsTensor(s, "beta1", dtype),
            .beta2 = Hyperparameter(static_cast<float>(options_.beta2)).AsTensor(s, "beta2", dtype),
            .epsilon = Hyperparameter(options_.epsilon).AsTensor(s, "epsilon", dtype),
            .beta1_power = Hyperparameter(GetScalar("beta1_power")).AsTensor(s, "beta1_power", dtype),
            .beta2_power = Hyperparameter(GetScalar("beta2_power")).AsTensor(s, "beta2_power", dtype)};
  }

  const AdamOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> GradientDescent(const GradientDescentOptions& options) {
  return std::make_unique<GradientDescentOptimizer>(options);
}

std::unique_ptr<Optimizer> Momentum(const MomentumOptions& options) {
  return std::make_unique<MomentumOptimizer>(options);
}

std::unique_ptr<Optimizer> Adam(const AdamOptions& options) { return std::make_unique<AdamOptimizer>(options); }

}  // namespace thalweg
