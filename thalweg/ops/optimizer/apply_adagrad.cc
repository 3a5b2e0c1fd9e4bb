// SPDX-License-Identifier: Apache-2.0
// Adagrad (Duchi et al. 2011):
//
//   accum += grad^2 (if update_slots)
//   var -= lr * grad / sqrt(accum)               Adagrad
//   var -= lr * grad / (sqrt(accum) + epsilon)   AdagradV2
#include <cmath>

#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

struct AdagradRule {
  static constexpr int kSlots = 2;
  using Types = ::thalweg::Types<float, double, Half, BFloat16, std::complex<float>, std::complex<double>>;
  bool update_slots = true;
  absl::Status Init(const KernelInit& init) {
    ASSIGN_OR_RETURN(update_slots, init.Attr<bool>("update_slots"));
    return absl::OkStatus();
  }
};

// The flag is a factor, so that one loop does both.
struct Adagrad : AdagradRule {
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    using std::sqrt;
    const C lr = h[0], keep = update_slots ? C(1) : C(0);
    run([=](C g, C& var, C& accum) {
      accum += g * g * keep;
      var -= g * lr / sqrt(accum);
    });
  }
};

struct AdagradV2 : AdagradRule {
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    using std::sqrt;
    const C lr = h[0], epsilon = h[1], keep = update_slots ? C(1) : C(0);
    run([=](C g, C& var, C& accum) {
      accum += g * g * keep;
      var -= g * lr / (sqrt(accum) + epsilon);
    });
  }
};

constexpr char kUpdateSlots[] = "update_slots: bool = true";

const OpRegistration kApplyAdagradOps[] = {
    DenseApply<Adagrad>("ApplyAdagrad", "var accum", "lr grad", {kUpdateSlots}),
    DenseApply<Adagrad>("ResourceApplyAdagrad", "var accum", "lr grad", {kUpdateSlots}),
    SparseApply<Adagrad>("SparseApplyAdagrad", "var accum", "lr grad indices", {kUpdateSlots}),
    SparseApply<Adagrad>("ResourceSparseApplyAdagrad", "var accum", "lr grad indices", {kUpdateSlots}),
    DenseApply<AdagradV2>("ApplyAdagradV2", "var accum", "lr epsilon grad", {kUpdateSlots}),
    DenseApply<AdagradV2>("ResourceApplyAdagradV2", "var accum", "lr epsilon grad", {kUpdateSlots}),
    SparseApply<AdagradV2>("SparseApplyAdagradV2", "var accum", "lr epsilon grad indices", {kUpdateSlots}),
    SparseApply<AdagradV2>("ResourceSparseApplyAdagradV2", "var accum", "lr epsilon grad indices", {kUpdateSlots}),
};

std::vector<AttrArg> Attrs(const ApplyAdagradOptions& options) {
  return {{"use_locking", options.use_locking}, {"update_slots", options.update_slots}};
}

}  // namespace

Output ApplyAdagrad(const Scope& s, Output var, Output accum, Output lr, Output grad,
                    const ApplyAdagradOptions& options) {
  return AddApply(s, "ApplyAdagrad", {var, accum, lr, grad}, Attrs(options));
}

Output SparseApplyAdagrad(const Scope& s, Output var, Output accum, Output lr, Output grad, Output indices,
                          const ApplyAdagradOptions& options) {
  return AddApply(s, "SparseApplyAdagrad", {var, accum, lr, grad, indices}, Attrs(options));
}

Output ApplyAdagradV2(const Scope& s, Output var, Output accum, Output lr, Output epsilon, Output grad,
                      const ApplyAdagradOptions& options) {
  return AddApply(s, "ApplyAdagradV2", {var, accum, lr, epsilon, grad}, Attrs(options));
}

Output SparseApplyAdagradV2(const Scope& s, Output var, Output accum, Output lr, Output epsilon, Output grad,
                            Output indices, const ApplyAdagradOptions& options) {
  return AddApply(s, "SparseApplyAdagradV2", {var, accum, lr, epsilon, grad, indices}, Attrs(options));
}

}  // namespace thalweg
