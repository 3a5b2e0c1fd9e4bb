// SPDX-License-Identifier: Apache-2.0
// Relatives of Adam.
//
//   AdaMax (Kingma and Ba 2014, section 7.1):
//     m += (grad - m) * (1 - beta1)
//     v = max(beta2 * v, |grad|)
//     var -= lr / (1 - beta1_power) * m / (v + epsilon)
//
//   AdamWithAmsgrad (Reddi et al. 2018): Adam, with the largest v so far
//     vhat = max(vhat, v)
//     var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(vhat) + epsilon)
#include <algorithm>
#include <cmath>

#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

struct AdaMax {
  static constexpr int kSlots = 3;
  using Types = ::thalweg::Types<float, double, Half, BFloat16>;
  absl::Status Init(const KernelInit&) { return absl::OkStatus(); }
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C rate = h[1] / (C(1) - h[0]), rest1 = C(1) - h[2], beta2 = h[3], epsilon = h[4];
    run([=](C g, C& var, C& m, C& v) {
      m += (g - m) * rest1;
      v = std::max(beta2 * v, std::abs(g));
      var -= rate * (m / (v + epsilon));
    });
  }
};

struct AdamWithAmsgrad {
  static constexpr int kSlots = 4;
  using Types = ::thalweg::Types<float, double, Half, BFloat16>;
  absl::Status Init(const KernelInit&) { return absl::OkStatus(); }
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C rest1 = C(1) - h[3], rest2 = C(1) - h[4], epsilon = h[5];
    const C alpha = h[2] * std::sqrt(C(1) - h[1]) / (C(1) - h[0]);
    run([=](C g, C& var, C& m, C& v, C& vhat) {
      m += (g - m) * rest1;
      v += (g * g - v) * rest2;
      vhat = std::max(vhat, v);
      var -= m * alpha / (std::sqrt(vhat) + epsilon);
    });
  }
};

const OpRegistration kApplyAdamaxOps[] = {
    DenseApply<AdaMax>("ApplyAdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad"),
    DenseApply<AdaMax>("ResourceApplyAdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad"),
    DenseApply<AdamWithAmsgrad>("ResourceApplyAdamWithAmsgrad", "var m v vhat",
                                "beta1_power beta2_power lr beta1 beta2 epsilon grad"),
};

}  // namespace

Output ApplyAdaMax(const Scope& s, Output var, Output m, Output v, Output beta1_power, Output lr, Output beta1,
                   Output beta2, Output epsilon, Output grad, const ApplyOptions& options) {
  return AddApply(s, "ApplyAdaMax", {var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad},
                  {{"use_locking", options.use_locking}});
}

Output ApplyAdamWithAmsgrad(const Scope& s, Output var, Output m, Output v, Output vhat, Output beta1_power,
                            Output beta2_power, Output lr, Output beta1, Output beta2, Output epsilon, Output grad,
                            const ApplyOptions& options) {
  return s.Add("ResourceApplyAdamWithAmsgrad",
               {var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad},
               {{"use_locking", options.use_locking}});
}

}  // namespace thalweg
