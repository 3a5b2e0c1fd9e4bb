// SPDX-License-Identifier: Apache-2.0
// Updates that end in a shrinkage towards zero, for L1 and L2 regularization
// (Duchi and Singer 2009): with a step size `rate`,
//
//   p = var - rate * grad
//   var = sign(p) * max(|p| - rate * l1, 0) / (1 + rate * l2)
//
// ProximalGradientDescent: rate = alpha. ProximalAdagrad: accum += grad^2, and
// rate = lr / sqrt(accum). AdagradDA, dual averaging, has the sums of gradients
// in place of p:
//
//   sum += grad; squares += grad^2
//   var = -lr * sign(sum) * max(|sum| - l1 * step, 0) / (l2 * step * lr + sqrt(squares))
#include <algorithm>
#include <cmath>

#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

// sign(p) * max(|p| - threshold, 0); p itself for a threshold of 0.
template <typename C>
inline C Shrink(C p, C threshold) {
  return std::copysign(std::max(std::abs(p) - threshold, C(0)), p);
}

struct ProximalRule {
  using Types = ::thalweg::Types<float, double>;
  absl::Status Init(const KernelInit&) { return absl::OkStatus(); }
};

struct ProximalGradientDescent : ProximalRule {
  static constexpr int kSlots = 1;
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C alpha = h[0], l1 = std::max(h[1], C(0)), l2 = h[2];
    run([=](C g, C& var) { var = Shrink(var - alpha * g, alpha * l1) / (C(1) + l2 * alpha); });
  }
};

struct ProximalAdagrad : ProximalRule {
  static constexpr int kSlots = 2;
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C lr = h[0], l1 = std::max(h[1], C(0)), l2 = h[2];
    run([=](C g, C& var, C& accum) {
      accum += g * g;
      const C rate = lr / std::sqrt(accum);
      var = Shrink(var - g * rate, rate * l1) / (C(1) + l2 * rate);
    });
  }
};

struct AdagradDA : ProximalRule {
  static constexpr int kSlots = 3;
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C lr = h[0], l1 = std::max(h[1], C(0)), l2 = h[2], step = h[3];
    run([=](C g, C& var, C& sum, C& squares) {
      sum += g;
      squares += g * g;
      var = -lr * Shrink(sum, l1 * step) / (l2 * step * lr + std::sqrt(squares));
    });
  }
};

constexpr char kDASlots[] = "var gradient_accumulator gradient_squared_accumulator";

const OpRegistration kApplyProximalOps[] = {
    DenseApply<ProximalGradientDescent>("ApplyProximalGradientDescent", "var", "alpha l1 l2 delta"),
    DenseApply<ProximalGradientDescent>("ResourceApplyProximalGradientDescent", "var", "alpha l1 l2 delta"),
    SparseApply<ProximalGradientDescent>("SparseApplyProximalGradientDescent", "var", "alpha l1 l2 grad indices"),
    SparseApply<ProximalGradientDescent>("ResourceSparseApplyProximalGradientDescent", "var",
                                         "alpha l1 l2 grad indices"),
    DenseApply<ProximalAdagrad>("ApplyProximalAdagrad", "var accum", "lr l1 l2 grad"),
    DenseApply<ProximalAdagrad>("ResourceApplyProximalAdagrad", "var accum", "lr l1 l2 grad"),
    SparseApply<ProximalAdagrad>("SparseApplyProximalAdagrad", "var accum", "lr l1 l2 grad indices"),
    SparseApply<ProximalAdagrad>("ResourceSparseApplyProximalAdagrad", "var accum", "lr l1 l2 grad indices"),
    DenseApply<AdagradDA>("ApplyAdagradDA", kDASlots, "grad lr l1 l2 global_step"),
    DenseApply<AdagradDA>("ResourceApplyAdagradDA", kDASlots, "grad lr l1 l2 global_step"),
    SparseApply<AdagradDA>("SparseApplyAdagradDA", kDASlots, "grad indices lr l1 l2 global_step"),
    SparseApply<AdagradDA>("ResourceSparseApplyAdagradDA", kDASlots, "grad indices lr l1 l2 global_step"),
};

}  // namespace

Output ApplyProximalGradientDescent(const Scope& s, Output var, Output alpha, Output l1, Output l2, Output delta,
                                    const ApplyOptions& options) {
  return AddApply(s, "ApplyProximalGradientDescent", {var, alpha, l1, l2, delta},
                  {{"use_locking", options.use_locking}});
}

Output SparseApplyProximalGradientDescent(const Scope& s, Output var, Output alpha, Output l1, Output l2, Output grad,
                                          Output indices, const ApplyOptions& options) {
  return AddApply(s, "SparseApplyProximalGradientDescent", {var, alpha, l1, l2, grad, indices},
                  {{"use_locking", options.use_locking}});
}

Output ApplyProximalAdagrad(const Scope& s, Output var, Output accum, Output lr, Output l1, Output l2, Output grad,
                            const ApplyOptions& options) {
  return AddApply(s, "ApplyProximalAdagrad", {var, accum, lr, l1, l2, grad}, {{"use_locking", options.use_locking}});
}

Output SparseApplyProximalAdagrad(const Scope& s, Output var, Output accum, Output lr, Output l1, Output l2,
                                  Output grad, Output indices, const ApplyOptions& options) {
  return AddApply(s, "SparseApplyProximalAdagrad", {var, accum, lr, l1, l2, grad, indices},
                  {{"use_locking", options.use_locking}});
}

Output ApplyAdagradDA(const Scope& s, Output var, Output gradient_accumulator, Output gradient_squared_accumulator,
                      Output grad, Output lr, Output l1, Output l2, Output global_step, const ApplyOptions& options) {
  return AddApply(s, "ApplyAdagradDA",
                  {var, gradient_accumulator, gradient_squared_accumulator, grad, lr, l1, l2, global_step},
                  {{"use_locking", options.use_locking}});
}

Output SparseApplyAdagradDA(const Scope& s, Output var, Output gradient_accumulator,
                            Output gradient_squared_accumulator, Output grad, Output indices, Output lr, Output l1,
                            Output l2, Output global_step, const ApplyOptions& options) {
  return AddApply(s, "SparseApplyAdagradDA",
                  {var, gradient_accumulator, gradient_squared_accumulator, grad, indices, lr, l1, l2, global_step},
                  {{"use_locking", options.use_locking}});
}

}  // namespace thalweg
