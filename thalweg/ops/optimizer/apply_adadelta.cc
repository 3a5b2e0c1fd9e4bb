// SPDX-License-Identifier: Apache-2.0
// Adadelta (Zeiler 2012):
//
//   accum = rho * accum + (1 - rho) * grad^2
//   update = grad * sqrt(accum_update + epsilon) / sqrt(accum + epsilon)
//   accum_update = rho * accum_update + (1 - rho) * update^2
//   var -= lr * update
#include <cmath>

#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

struct Adadelta {
  static constexpr int kSlots = 3;
  using Types = ::thalweg::Types<float, double, Half, BFloat16, std::complex<float>, std::complex<double>>;
  absl::Status Init(const KernelInit&) { return absl::OkStatus(); }
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    using std::sqrt;
    const C lr = h[0], rho = h[1], rest = C(1) - h[1], epsilon = h[2];
    run([=](C g, C& var, C& accum, C& accum_update) {
      accum = accum * rho + g * g * rest;
      const C update = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * g;
      accum_update = accum_update * rho + update * update * rest;
      var -= update * lr;
    });
  }
};

const OpRegistration kApplyAdadeltaOps[] = {
    DenseApply<Adadelta>("ApplyAdadelta", "var accum accum_update", "lr rho epsilon grad"),
    DenseApply<Adadelta>("ResourceApplyAdadelta", "var accum accum_update", "lr rho epsilon grad"),
    SparseApply<Adadelta>("SparseApplyAdadelta", "var accum accum_update", "lr rho epsilon grad indices"),
    SparseApply<Adadelta>("ResourceSparseApplyAdadelta", "var accum accum_update", "lr rho epsilon grad indices"),
};

}  // namespace

Output ApplyAdadelta(const Scope& s, Output var, Output accum, Output accum_update, Output lr, Output rho,
                     Output epsilon, Output grad, const ApplyOptions& options) {
  return AddApply(s, "ApplyAdadelta", {var, accum, accum_update, lr, rho, epsilon, grad},
                  {{"use_locking", options.use_locking}});
}

Output SparseApplyAdadelta(const Scope& s, Output var, Output accum, Output accum_update, Output lr, Output rho,
                           Output epsilon, Output grad, Output indices, const ApplyOptions& options) {
  return AddApply(s, "SparseApplyAdadelta", {var, accum, accum_update, lr, rho, epsilon, grad, indices},
                  {{"use_locking", options.use_locking}});
}

}  // namespace thalweg
