// SPDX-License-Identifier: Apache-2.0
// Gradient descent: var -= alpha * delta.
#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

struct GradientDescent {
  static constexpr int kSlots = 1;
  using Types = ::thalweg::Types<float, double, Half, BFloat16, std::complex<float>, std::complex<double>>;
  absl::Status Init(const KernelInit&) { return absl::OkStatus(); }
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    run([alpha = h[0]](C delta, C& var) { var -= delta * alpha; });
  }
};

const OpRegistration kApplyGradientDescentOps[] = {
    DenseApply<GradientDescent>("ApplyGradientDescent", "var", "alpha delta"),
    DenseApply<GradientDescent>("ResourceApplyGradientDescent", "var", "alpha delta"),
};

}  // namespace

Output ApplyGradientDescent(const Scope& s, Output var, Output alpha, Output delta, const ApplyOptions& options) {
  return AddApply(s, "ApplyGradientDescent", {var, alpha, delta}, {{"use_locking", options.use_locking}});
}

}  // namespace thalweg
