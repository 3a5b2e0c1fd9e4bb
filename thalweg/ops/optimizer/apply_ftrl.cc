// SPDX-License-Identifier: Apache-2.0
// FTRL-Proximal (McMahan et al. 2013):
//
//   grad' = grad + 2 * l2_shrinkage * var                    V2; else grad
//   new_accum = accum + grad^2
//   linear += grad' - (new_accum^-p - accum^-p) / lr * var
//   quadratic = new_accum^-p / lr + 2 * l2
//   var = |linear| > l1 ? (sign(linear) * l1 - linear) / quadratic : 0
//   accum = new_accum
//
// with p = lr_power. multiply_linear_by_lr keeps lr * linear in `linear`.
#include <cmath>

#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

// The formulas' factors, in the scale that `linear` has.
template <typename C>
struct FtrlNumbers {
  C gradient;  // 1, or lr
  C root;      // 1 / lr, or 1
  C l1;
  C twice_l2;
  C l2_shrinkage;
};

// `root` is x -> x^-p; the usual p of -0.5 is a square root.
template <typename C, typename Root, typename Run>
void RunFtrl(const FtrlNumbers<C>& n, Root root, Run run) {
  run([n, root](C g, C& var, C& accum, C& linear) {
    const C shrunk = g + C(2) * n.l2_shrinkage * var;
    const C new_accum = accum + g * g;
    const C new_root = root(new_accum);
    linear += shrunk * n.gradient - (new_root - root(accum)) * n.root * var;
    const C quadratic = new_root * n.root + n.twice_l2;
    var = std::abs(linear) > n.l1 ? (std::copysign(n.l1, linear) - linear) / quadratic : C(0);
    accum = new_accum;
  });
}

template <bool kShrinkage>
struct Ftrl {
  static constexpr int kSlots = 3;
  using Types = ::thalweg::Types<float, double, Half, BFloat16>;
  bool multiply_linear_by_lr = false;
  absl::Status Init(const KernelInit& init) {
    ASSIGN_OR_RETURN(multiply_linear_by_lr, init.Attr<bool>("multiply_linear_by_lr"));
    return absl::OkStatus();
  }
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C lr = h[0], scale = multiply_linear_by_lr ? lr : C(1);
    const C power = kShrinkage ? h[4] : h[3];
    const FtrlNumbers<C> n = {.gradient = scale,
                              .root = scale / lr,
                              .l1 = h[1] * scale,
                              .twice_l2 = C(2) * h[2] * scale,
                              .l2_shrinkage = kShrinkage ? h[3] : C(0)};
    if (power == C(-0.5)) {
      RunFtrl<C>(
          n, [](C x) { return std::sqrt(x); }, run);
    } else {
      RunFtrl<C>(
          n, [power](C x) { return std::pow(x, -power); }, run);
    }
  }
};

constexpr char kMultiply[] = "multiply_linear_by_lr: bool = false";

const OpRegistration kApplyFtrlOps[] = {
    DenseApply<Ftrl<false>>("ApplyFtrl", "var accum linear", "grad lr l1 l2 lr_power", {kMultiply}),
    DenseApply<Ftrl<false>>("ResourceApplyFtrl", "var accum linear", "grad lr l1 l2 lr_power", {kMultiply}),
    SparseApply<Ftrl<false>>("SparseApplyFtrl", "var accum linear", "grad indices lr l1 l2 lr_power", {kMultiply}),
    SparseApply<Ftrl<false>>("ResourceSparseApplyFtrl", "var accum linear", "grad indices lr l1 l2 lr_power",
                             {kMultiply}),
    DenseApply<Ftrl<true>>("ApplyFtrlV2", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power", {kMultiply}),
    DenseApply<Ftrl<true>>("ResourceApplyFtrlV2", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power",
                           {kMultiply}),
    SparseApply<Ftrl<true>>("SparseApplyFtrlV2", "var accum linear", "grad indices lr l1 l2 l2_shrinkage lr_power",
                            {kMultiply}),
    SparseApply<Ftrl<true>>("ResourceSparseApplyFtrlV2", "var accum linear",
                            "grad indices lr l1 l2 l2_shrinkage lr_power", {kMultiply}),
};

std::vector<AttrArg> Attrs(const ApplyFtrlOptions& options) {
  return {{"use_locking", options.use_locking}, {"multiply_linear_by_lr", options.multiply_linear_by_lr}};
}

}  // namespace

Output ApplyFtrl(const Scope& s, Output var, Output accum, Output linear, Output grad, Output lr, Output l1, Output l2,
                 Output lr_power, const ApplyFtrlOptions& options) {
  return AddApply(s, "ApplyFtrl", {var, accum, linear, grad, lr, l1, l2, lr_power}, Attrs(options));
}

Output SparseApplyFtrl(const Scope& s, Output var, Output accum, Output linear, Output grad, Output indices, Output lr,
                       Output l1, Output l2, Output lr_power, const ApplyFtrlOptions& options) {
  return AddApply(s, "SparseApplyFtrl", {var, accum, linear, grad, indices, lr, l1, l2, lr_power}, Attrs(options));
}

Output ApplyFtrlV2(const Scope& s, Output var, Output accum, Output linear, Output grad, Output lr, Output l1,
                   Output l2, Output l2_shrinkage, Output lr_power, const ApplyFtrlOptions& options) {
  return AddApply(s, "ApplyFtrlV2", {var, accum, linear, grad, lr, l1, l2, l2_shrinkage, lr_power}, Attrs(options));
}

Output SparseApplyFtrlV2(const Scope& s, Output var, Output accum, Output linear, Output grad, Output indices,
                         Output lr, Output l1, Output l2, Output l2_shrinkage, Output lr_power,
                         const ApplyFtrlOptions& options) {
  return AddApply(s, "SparseApplyFtrlV2", {var, accum, linear, grad, indices, lr, l1, l2, l2_shrinkage, lr_power},
                  Attrs(options));
}

}  // namespace thalweg
