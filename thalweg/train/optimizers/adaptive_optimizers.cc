// SPDX-License-Identifier: Apache-2.0
// Optimizers whose step for each element depends on the gradients before, and
// the proximal ones.
#include "thalweg/ops/training_ops.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {
namespace {

class AdagradOptimizer final : public Optimizer {
 public:
  explicit AdagradOptimizer(const AdagradOptions& options) : Optimizer("Adagrad"), options_(options) {}

 private:
  void CreateSlots(const Scope& s, const std::vector<Var>& variables) override {
    for (const Var& v : variables)
      MakeSlot(s, v, "accumulator", initializers::Constant(options_.initial_accumulator_value));
  }
  Output ApplyDense(const Scope& s, Output gradient, const Var& v) override {
    return ApplyAdagrad(s, v.ref, GetSlot(v, "accumulator").ref,
                        options_.learning_rate.AsTensor(s, "learning_rate", v.dtype()), gradient,
                        {.use_locking = options_.use_locking});
  }
  Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& v) override {
    return SparseApplyAdagrad(s, v.ref, GetSlot(v, "accumulator").ref,
                              options_.learning_rate.AsTensor(s, "learning_rate", v.dtype()), gradient.values,
                              gradient.indices, {.use_locking = options_.use_locking});
  }

  const AdagradOptions options_;
};

class AdadeltaOptimizer final : public Optimizer {
 public:
  explicit AdadeltaOptimizer(const AdadeltaOptions& options) : Optimizer("Adadelta"), options_(options) {}

 private:
  void CreateSlots(const Scope& s, const std::vector<Var>& variables) override {
    for (const Var& v : variables) {
      MakeSlot(s, v, "accum", initializers::Zeros());
      MakeSlot(s, v, "accum_update", initializers::Zeros());
    }
  }
  Output ApplyDense(const Scope& s, Output gradient, const Var& v) override {
    return ApplyAdadelta(s, v.ref, GetSlot(v, "accum").ref, GetSlot(v, "accum_update").ref,
                         options_.learning_rate.AsTensor(s, "lr", v.dtype()),
                         options_.rho.AsTensor(s, "rho", v.dtype()), options_.epsilon.AsTensor(s, "epsilon", v.dtype()),
                         gradient, {.use_locking = options_.use_locking});
  }
  Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& v) override {
    return SparseApplyAdadelta(s, v.ref, GetSlot(v, "accum").ref, GetSlot(v, "accum_update").ref,
                               options_.learning_rate.AsTensor(s, "lr", v.dtype()),
                               options_.rho.AsTensor(s, "rho", v.dtype()),
                               options_.epsilon.AsTensor(s, "epsilon", v.dtype()), gradient.values, gradient.indices,
                               {.use_locking = options_.use_locking});
  }

  const AdadeltaOptions options_;
};

class RMSPropOptimizer final : public Optimizer {
 public:
  explicit RMSPropOptimizer(const RMSPropOptions& options) : Optimizer("RMSProp"), options_(options) {}

 private:
  void CreateSlots(const Scope& s, const std::vector<Var>& variables) override {
    for (const Var& v : variables) {
      MakeSlot(s, v, "rms", initializers::Ones());
      if (options_.centered) MakeSlot(s, v, "mg", initializers::Zeros());
      MakeSlot(s, v, "momentum", initializers::Zeros());
    }
  }
  Output ApplyDense(const Scope& s, Output gradient, const Var& v) override {
    const Numbers n = NumbersFor(s, v.dtype());
    const Output rms = GetSlot(v, "rms").ref, momentum = GetSlot(v, "momentum").ref;
    if (options_.centered) {
      return ApplyCenteredRMSProp(s, v.ref, GetSlot(v, "mg").ref, rms, momentum, n.rate, n.decay, n.momentum, n.epsilon,
                                  gradient, {.use_locking = options_.use_locking});
    }
    return ApplyRMSProp(s, v.ref, rms, momentum, n.rate, n.decay, n.momentum, n.epsilon, gradient,
                        {.use_locking = options_.use_locking});
  }
  Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& v) override {
    const Numbers n = NumbersFor(s, v.dtype());
    const Output rms = GetSlot(v, "rms").ref, momentum = GetSlot(v, "momentum").ref;
    if (options_.centered) {
      return SparseApplyCenteredRMSProp(s, v.ref, GetSlot(v, "mg").ref, rms, momentum, n.rate, n.decay, n.momentum,
                                        n.epsilon, gradient.values, gradient.indices,
                                        {.use_locking = options_.use_locking});
    }
    return SparseApplyRMSProp(s, v.ref, rms, momentum, n.rate, n.decay, n.momentum, n.epsilon, gradient.values,
                              gradient.indices, {.use_locking = options_.use_locking});
  }

  struct Numbers {
    Output rate, decay, momentum, epsilon;
  };
  Numbers NumbersFor(const Scope& s, DType dtype) const {
    return {.rate = options_.learning_rate.AsTensor(s, "learning_rate", dtype),
            .decay = options_.decay.AsTensor(s, "decay", dtype),
            .momentum = options_.momentum.AsTensor(s, "momentum", dtype),
            .epsilon = options_.epsilon.AsTensor(s, "epsilon", dtype)};
  }

  const RMSPropOptions options_;
};

class FtrlOptimizer final : public Optimizer {
 public:
  explicit FtrlOptimizer(const FtrlOptions& options) : Optimizer("Ftrl"), options_(options) {}

 private:
  void CreateSlots(const Scope& s, const std::vector<Var>& variables) override {
    for (const Var& v : variables) {
      MakeSlot(s, v, "accum", initializers::Constant(options_.initial_accumulator_value));
      MakeSlot(s, v, "linear", initializers::Zeros());
    }
  }
  Output ApplyDense(const Scope& s, Output gradient, const Var& v) override {
    const Numbers n = NumbersFor(s, v.dtype());
    const Output accum = GetSlot(v, "accum").ref, linear = GetSlot(v, "linear").ref;
    const ApplyFtrlOptions attrs = {.use_locking = options_.use_locking};
    if (!n.shrinkage) return ApplyFtrl(s, v.ref, accum, linear, gradient, n.rate, n.l1, n.l2, n.power, attrs);
    return ApplyFtrlV2(s, v.ref, accum, linear, gradient, n.rate, n.l1, n.l2, n.shrinkage, n.power, attrs);
  }
  Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& v) override {
    const Numbers n = NumbersFor(s, v.dtype());
    const Output accum = GetSlot(v, "accum").ref, linear = GetSlot(v, "linear").ref;
    const ApplyFtrlOptions attrs = {.use_locking = options_.use_locking};
    if (!n.shrinkage) {
      return SparseApplyFtrl(s, v.ref, accum, linear, gradient.values, gradient.indices, n.rate, n.l1, n.l2, n.power,
                             attrs);
    }
    return SparseApplyFtrlV2(s, v.ref, accum, linear, gradient.values, gradient.indices, n.rate, n.l1, n.l2,
                             n.shrinkage, n.power, attrs);
  }

  struct Numbers {
    Output rate, power, l1, l2, shrinkage;  // no shrinkage: none
  };
  Numbers NumbersFor(const Scope& s, DType dtype) const {
    Numbers n = {.rate = options_.learning_rate.AsTensor(s, "learning_rate", dtype),
                 .power = options_.learning_rate_power.AsTensor(s, "learning_rate_power", dtype),
                 .l1 = options_.l1_regularization_strength.AsTensor(s, "l1_regularization_strength", dtype),
                 .l2 = options_.l2_regularization_strength.AsTensor(s, "l2_regularization_strength", dtype)};
    if (options_.l2_shrinkage_regularization_strength > 0) {
      n.shrinkage = Hyperparameter(options_.l2_shrinkage_regularization_strength)
                        .AsTensor(s, "l2_shrinkage_regularization_strength", dtype);
    }
    return n;
  }

  const FtrlOptions options_;
};

class ProximalGradientDescentOptimizer final : public Optimizer {
 public:
  explicit ProximalGradientDescentOptimizer(const ProximalGradientDescentOptions& options)
      : Optimizer("ProximalGradientDescent"), options_(options) {}

 private:
  Output ApplyDense(const Scope& s, Output gradient, const Var& v) override {
    return ApplyProximalGradientDescent(s, v.ref, Rate(s, v), L1(s, v), L2(s, v), gradient,
                                        {.use_locking = options_.use_locking});
  }
  Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& v) override {
    return SparseApplyProximalGradientDescent(s, v.ref, Rate(s, v), L1(s, v), L2(s, v), gradient.values,
                                              gradient.indices, {.use_locking = options_.use_locking});
  }

  Output Rate(const Scope& s, const Var& v) const {
    return options_.learning_rate.AsTensor(s, "learning_rate", v.dtype());
  }
  Output L1(const Scope& s, const Var& v) const {
    return options_.l1_regularization_strength.AsTensor(s, "l1_regularization_strength", v.dtype());
  }
  Output L2(const Scope& s, const Var& v) const {
    return options_.l2_regularization_strength.AsTensor(s, "l2_regularization_strength", v.dtype());
  }

  const ProximalGradientDescentOptions options_;
};

class ProximalAdagradOptimizer final : public Optimizer {
 public:
  explicit ProximalAdagradOptimizer(const ProximalAdagradOptions& options)
      : Optimizer("ProximalAdagrad"), options_(options) {}

 private:
  void CreateSlots(const Scope& s, const std::vector<Var>& variables) override {
    for (const Var& v : variables)
      MakeSlot(s, v, "accumulator", initializers::Constant(options_.initial_accumulator_value));
  }
  Output ApplyDense(const Scope& s, Output gradient, const Var& v) override {
    return ApplyProximalAdagrad(s, v.ref, GetSlot(v, "accumulator").ref, Rate(s, v), L1(s, v), L2(s, v), gradient,
                                {.use_locking = options_.use_locking});
  }
  Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& v) override {
    return SparseApplyProximalAdagrad(s, v.ref, GetSlot(v, "accumulator").ref, Rate(s, v), L1(s, v), L2(s, v),
                                      gradient.values, gradient.indices, {.use_locking = options_.use_locking});
  }

  Output Rate(const Scope& s, const Var& v) const {
    return options_.learning_rate.AsTensor(s, "learning_rate", v.dtype());
  }
  Output L1(const Scope& s, const Var& v) const {
    return options_.l1_regularization_strength.AsTensor(s, "l1_regularization_strength", v.dtype());
  }
  Output L2(const Scope& s, const Var& v) const {
    return options_.l2_regularization_strength.AsTensor(s, "l2_regularization_strength", v.dtype());
  }

  const ProximalAdagradOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> Adagrad(const AdagradOptions& options) {
  return std::make_unique<AdagradOptimizer>(options);
}
std::unique_ptr<Optimizer> Adadelta(const AdadeltaOptions& options) {
  return std::make_unique<AdadeltaOptimizer>(options);
}
std::unique_ptr<Optimizer> RMSProp(const RMSPropOptions& options) {
  return std::make_unique<RMSPropOptimizer>(options);
}
std::unique_ptr<Optimizer> Ftrl(const FtrlOptions& options) { return std::make_unique<FtrlOptimizer>(options); }
std::unique_ptr<Optimizer> ProximalGradientDescent(const ProximalGradientDescentOptions& options) {
  return std::make_unique<ProximalGradientDescentOptimizer>(options);
}
std::unique_ptr<Optimizer> ProximalAdagrad(const ProximalAdagradOptions& options) {
  return std::make_unique<ProximalAdagradOptimizer>(options);
}

}  // namespace thalweg
