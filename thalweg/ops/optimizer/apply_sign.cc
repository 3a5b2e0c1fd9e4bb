// SPDX-License-Identifier: Apache-2.0
// AddSign and PowerSign (Bello et al. 2017): steps are larger where the sign of
// the gradient and of its moving average agree.
//
//   m = beta * m + (1 - beta) * grad
//   AddSign:   var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad
//   PowerSign: var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad
#include <cmath>

#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

template <typename C>
inline C Sign(C x) {
  return static_cast<C>(C(0) < x) - static_cast<C>(x < C(0));
}

struct SignRule {
  static constexpr int kSlots = 2;
  using Types = ::thalweg::Types<float, double, Half, BFloat16>;
  absl::Status Init(const KernelInit&) { return absl::OkStatus(); }
};

struct AddSign : SignRule {
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C lr = h[0], alpha = h[1], decay = h[2], beta = h[3];
    run([=](C g, C& var, C& m) {
      m = m * beta + g * (C(1) - beta);
      var -= lr * (alpha + decay * Sign(g) * Sign(m)) * g;
    });
  }
};

struct PowerSign : SignRule {
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C lr = h[0], beta = h[3];
    // The product of the signs has only three values.
    const C agree = std::exp(h[1] * h[2]), differ = std::exp(-h[1] * h[2]);
    run([=](C g, C& var, C& m) {
      m = m * beta + g * (C(1) - beta);
      const C signs = Sign(g) * Sign(m);
      var -= lr * (signs > C(0) ? agree : signs < C(0) ? differ : C(1)) * g;
    });
  }
};

const OpRegistration kApplySignOps[] = {
    DenseApply<AddSign>("ApplyAddSign", "var m", "lr alpha sign_decay beta grad"),
    DenseApply<AddSign>("ResourceApplyAddSign", "var m", "lr alpha sign_decay beta grad"),
    DenseApply<PowerSign>("ApplyPowerSign", "var m", "lr logbase sign_decay beta grad"),
    DenseApply<PowerSign>("ResourceApplyPowerSign", "var m", "lr logbase sign_decay beta grad"),
};

}  // namespace

Output ApplyAddSign(const Scope& s, Output var, Output m, Output lr, Output alpha, Output sign_decay, Output beta,
                    Output grad, const ApplyOptions& options) {
  return AddApply(s, "ApplyAddSign", {var, m, lr, alpha, sign_decay, beta, grad},
                  {{"use_locking", options.use_locking}});
}

Output ApplyPowerSign(const Scope& s, Output var, Output m, Output lr, Output logbase, Output sign_decay, Output beta,
                      Output grad, const ApplyOptions& options) {
  return AddApply(s, "ApplyPowerSign", {var, m, lr, logbase, sign_decay, beta, grad},
                  {{"use_locking", options.use_locking}});
}

}  // namespace thalweg
