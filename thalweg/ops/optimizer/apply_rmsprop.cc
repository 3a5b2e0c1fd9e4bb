// SPDX-License-Identifier: Apache-2.0
// RMSProp (Hinton, Coursera lecture 6), plain or with the variance in place of
// the mean square (centered; Graves 2013):
//
//   ms += (grad^2 - ms) * (1 - rho)
//   mg += (grad - mg) * (1 - rho)                               centered only
//   mom = momentum * mom + lr * grad / sqrt(ms [- mg^2] + epsilon)
//   var -= mom
#include <cmath>

#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

struct RmsRule {
  using Types = ::thalweg::Types<float, double, Half, BFloat16, std::complex<float>, std::complex<double>>;
  absl::Status Init(const KernelInit&) { return absl::OkStatus(); }
};

struct RmsProp : RmsRule {
  static constexpr int kSlots = 3;
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    using std::sqrt;
    const C lr = h[0], rest = C(1) - h[1], momentum = h[2], epsilon = h[3];
    run([=](C g, C& var, C& ms, C& mom) {
      ms += (g * g - ms) * rest;
      mom = mom * momentum + g * lr / sqrt(ms + epsilon);
      var -= mom;
    });
  }
};

struct CenteredRmsProp : RmsRule {
  static constexpr int kSlots = 4;
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    using std::sqrt;
    const C lr = h[0], rest = C(1) - h[1], momentum = h[2], epsilon = h[3];
    run([=](C g, C& var, C& mg, C& ms, C& mom) {
      ms += (g * g - ms) * rest;
      mg += (g - mg) * rest;
      mom = mom * momentum + g * lr / sqrt(ms - mg * mg + epsilon);
      var -= mom;
    });
  }
};

const OpRegistration kApplyRmspropOps[] = {
    DenseApply<RmsProp>("ApplyRMSProp", "var ms mom", "lr rho momentum epsilon grad"),
    DenseApply<RmsProp>("ResourceApplyRMSProp", "var ms mom", "lr rho momentum epsilon grad"),
    SparseApply<RmsProp>("SparseApplyRMSProp", "var ms mom", "lr rho momentum epsilon grad indices"),
    SparseApply<RmsProp>("ResourceSparseApplyRMSProp", "var ms mom", "lr rho momentum epsilon grad indices"),
    DenseApply<CenteredRmsProp>("ApplyCenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad"),
    DenseApply<CenteredRmsProp>("ResourceApplyCenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad"),
    SparseApply<CenteredRmsProp>("SparseApplyCenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad indices"),
    SparseApply<CenteredRmsProp>("ResourceSparseApplyCenteredRMSProp", "var mg ms mom",
                                 "lr rho momentum epsilon grad indices"),
};

}  // namespace

Output ApplyRMSProp(const Scope& s, Output var, Output ms, Output mom, Output lr, Output rho, Output momentum,
                    Output epsilon, Output grad, const ApplyOptions& options) {
  return AddApply(s, "ApplyRMSProp", {var, ms, mom, lr, rho, momentum, epsilon, grad},
                  {{"use_locking", options.use_locking}});
}

Output SparseApplyRMSProp(const Scope& s, Output var, Output ms, Output mom, Output lr, Output rho, Output momentum,
                          Output epsilon, Output grad, Output indices, const ApplyOptions& options) {
  return AddApply(s, "SparseApplyRMSProp", {var, ms, mom, lr, rho, momentum, epsilon, grad, indices},
                  {{"use_locking", options.use_locking}});
}

Output ApplyCenteredRMSProp(const Scope& s, Output var, Output mg, Output ms, Output mom, Output lr, Output rho,
                            Output momentum, Output epsilon, Output grad, const ApplyOptions& options) {
  return AddApply(s, "ApplyCenteredRMSProp", {var, mg, ms, mom, lr, rho, momentum, epsilon, grad},
                  {{"use_locking", options.use_locking}});
}

Output SparseApplyCenteredRMSProp(const Scope& s, Output var, Output mg, Output ms, Output mom, Output lr, Output rho,
                                  Output momentum, Output epsilon, Output grad, Output indices,
                                  const ApplyOptions& options) {
  return AddApply(s, "SparseApplyCenteredRMSProp", {var, mg, ms, mom, lr, rho, momentum, epsilon, grad, indices},
                  {{"use_locking", options.use_locking}});
}

}  // namespace thalweg
