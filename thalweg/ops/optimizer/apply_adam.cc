// SPDX-License-Identifier: Apache-2.0
// Adam (Kingma and Ba 2014), with TensorFlow's epsilon ("epsilon hat"):
//
//   alpha = lr * sqrt(1 - beta2_power) / (1 - beta1_power)
//   m += (grad - m) * (1 - beta1)
//   v += (grad^2 - v) * (1 - beta2)
//   var -= alpha * m / (sqrt(v) + epsilon)
//
// after Nesterov with grad * (1 - beta1) + beta1 * m in place of m.
#include <cmath>

#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

struct Adam {
  static constexpr int kSlots = 3;
  using Types = ::thalweg::Types<float, double, Half, BFloat16, std::complex<float>, std::complex<double>>;
  bool nesterov = false;
  absl::Status Init(const KernelInit& init) {
    ASSIGN_OR_RETURN(nesterov, init.Attr<bool>("use_nesterov"));
    return absl::OkStatus();
  }
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    using std::sqrt;
    const C beta1_power = h[0], beta2_power = h[1], lr = h[2], beta1 = h[3], epsilon = h[5];
    const C rest1 = C(1) - beta1, rest2 = C(1) - h[4];
    const C alpha = lr * sqrt(C(1) - beta2_power) / (C(1) - beta1_power);
    if (nesterov) {
      run([=](C g, C& var, C& m, C& v) {
        m += (g - m) * rest1;
        v += (g * g - v) * rest2;
        var -= (g * rest1 + beta1 * m) * alpha / (sqrt(v) + epsilon);
      });
    } else {
      run([=](C g, C& var, C& m, C& v) {
        m += (g - m) * rest1;
        v += (g * g - v) * rest2;
        var -= m * alpha / (sqrt(v) + epsilon);
      });
    }
  }
};

const OpRegistration kApplyAdamOps[] = {
    DenseApply<Adam>("ApplyAdam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad",
                     {"use_nesterov: bool = false"}),
    DenseApply<Adam>("ResourceApplyAdam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad",
                     {"use_nesterov: bool = false"}),
};

}  // namespace

Output ApplyAdam(const Scope& s, Output var, Output m, Output v, Output beta1_power, Output beta2_power, Output lr,
                 Output beta1, Output beta2, Output epsilon, Output grad, const ApplyAdamOptions& options) {
  return AddApply(s, "ApplyAdam", {var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad},
                  {{"use_locking", options.use_locking}, {"use_nesterov", options.use_nesterov}});
}

}  // namespace thalweg
