// SPDX-License-Identifier: Apache-2.0
// Base class of optimizers that wrap another optimizer.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

// Forwards everything to the inner optimizer. Derived classes override ApplyGradients().
class WrappedOptimizer : public Optimizer {
 public:
  std::vector<GradientAndVar> ComputeGradients(const Scope& s, Output loss, std::vector<Var> var_list) override {
    return inner_->ComputeGradients(s, loss, std::move(var_list));
  }
  Var GetSlot(const Var& variable, absl::string_view slot) const override { return inner_->GetSlot(variable, slot); }
  HookList Hooks(bool is_chief) override { return inner_->Hooks(is_chief); }

 protected:
  WrappedOptimizer(std::string name, std::unique_ptr<Optimizer> inner)
      : Optimizer(std::move(name)), inner_(std::move(inner)) {}

  Optimizer& inner() const { return *inner_; }

 private:
  // The inner optimizer has the update rule.
  Output ApplyDense(const Scope& s, Output, const Var&) override { return NoRule(s); }
  Output ApplySparse(const Scope& s, const Gradient&, const Var&) override { return NoRule(s); }
  Output NoRule(const Scope& s) {
    s.Fail(Internal("optimizer ", name(), " has no rule of its own"));
    return {};
  }

  const std::unique_ptr<Optimizer> inner_;
};

}  // namespace thalweg
