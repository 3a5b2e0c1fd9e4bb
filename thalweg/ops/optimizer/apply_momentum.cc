// SPDX-License-Identifier: Apache-2.0
// Momentum, in two forms, each also after Nesterov:
//
//   Momentum:      accum = accum * momentum + grad;      var -= lr * accum
//        Nesterov:                                       var -= lr * grad + lr * momentum * accum
//   KerasMomentum: accum = accum * momentum - lr * grad; var += accum
//        Nesterov:                                       var += accum * momentum - lr * grad
#include "thalweg/ops/optimizer/apply.h"
#include "thalweg/ops/optimizer/apply_form.h"
#include "thalweg/ops/training_ops.h"

namespace thalweg {
namespace {

struct MomentumRule {
  static constexpr int kSlots = 2;
  using Types = ::thalweg::Types<float, double, Half, BFloat16, std::complex<float>, std::complex<double>>;
  bool nesterov = false;
  absl::Status Init(const KernelInit& init) {
    ASSIGN_OR_RETURN(nesterov, init.Attr<bool>("use_nesterov"));
    return absl::OkStatus();
  }
};

struct Momentum : MomentumRule {
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C lr = h[0], momentum = h[1];
    if (nesterov) {
      run([=](C g, C& var, C& accum) {
        accum = accum * momentum + g;
        var -= g * lr + accum * momentum * lr;
      });
    } else {
      run([=](C g, C& var, C& accum) {
        accum = accum * momentum + g;
        var -= accum * lr;
      });
    }
  }
};

struct KerasMomentum : MomentumRule {
  template <typename C, typename Run>
  void With(const C* h, Run run) const {
    const C lr = h[0], momentum = h[1];
    if (nesterov) {
      run([=](C g, C& var, C& accum) {
        accum = accum * momentum - g * lr;
        var += accum * momentum - g * lr;
      });
    } else {
      run([=](C g, C& var, C& accum) {
        accum = accum * momentum - g * lr;
        var += accum;
      });
    }
  }
};

const OpRegistration kApplyMomentumOps[] = {
    DenseApply<Momentum>("ApplyMomentum", "var accum", "lr grad momentum", {"use_nesterov: bool = false"}),
    DenseApply<Momentum>("ResourceApplyMomentum", "var accum", "lr grad momentum", {"use_nesterov: bool = false"}),
    SparseApply<Momentum>("SparseApplyMomentum", "var accum", "lr grad indices momentum",
                          {"use_nesterov: bool = false"}),
    SparseApply<Momentum>("ResourceSparseApplyMomentum", "var accum", "lr grad indices momentum",
                          {"use_nesterov: bool = false"}),
    DenseApply<KerasMomentum>("ResourceApplyKerasMomentum", "var accum", "lr grad momentum",
                              {"use_nesterov: bool = false"}),
    SparseApply<KerasMomentum>("ResourceSparseApplyKerasMomentum", "var accum", "lr grad indices momentum",
                               {"use_nesterov: bool = false"}),
};

std::vector<AttrArg> Attrs(const ApplyMomentumOptions& options) {
  return {{"use_locking", options.use_locking}, {"use_nesterov", options.use_nesterov}};
}

}  // namespace

Output ApplyMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output momentum,
                     const ApplyMomentumOptions& options) {
  return AddApply(s, "ApplyMomentum", {var, accum, lr, grad, momentum}, Attrs(options));
}

Output SparseApplyMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output indices,
                           Output momentum, const ApplyMomentumOptions& options) {
  return AddApply(s, "SparseApplyMomentum", {var, accum, lr, grad, indices, momentum}, Attrs(options));
}

Output ApplyKerasMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output momentum,
                          const ApplyMomentumOptions& options) {
  return s.Add("ResourceApplyKerasMomentum", {var, accum, lr, grad, momentum}, Attrs(options));
}

Output SparseApplyKerasMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output indices,
                                Output momentum, const ApplyMomentumOptions& options) {
  return s.Add("ResourceSparseApplyKerasMomentum", {var, accum, lr, grad, indices, momentum}, Attrs(options));
}

}  // namespace thalweg
