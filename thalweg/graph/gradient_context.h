// SPDX-License-Identifier: Apache-2.0
// GradientContext: what the gradient function of an op works with.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/graph/scope.h"

namespace thalweg {

// The argument of an op's gradient function: the operation, the
// derivatives with respect to its outputs, and a place for those with respect
// to its inputs. Inputs that are not set get none.
class GradientContext {
 public:
  GradientContext(const Scope& scope, Node* node, std::vector<Gradient> dy)
      : scope_(scope), node_(node), dy_(std::move(dy)), dx_(node->num_inputs()) {}

  const Scope& scope() const { return scope_; }
  Node* node() const { return node_; }
  Output input(int i) const { return node_->input(i); }
  Output output(int i) const { return node_->out(i); }
  bool has_dy(int i) const { return static_cast<bool>(dy_[i]); }
  // Dense; zeros if nothing was asked of that output.
  Output dy(int i = 0) const;
  const Gradient& raw_dy(int i) const { return dy_[i]; }
  void set_dx(int i, Gradient gradient) { dx_[i] = gradient; }
  const std::vector<Gradient>& dx() const { return dx_; }
  template <typename T>
  absl::StatusOr<T> Attr(absl::string_view name) const {
    return GetAttr<T>(node_->def(), name);
  }

 private:
  Scope scope_;
  Node* node_;
  std::vector<Gradient> dy_;
  std::vector<Gradient> dx_;
};

}  // namespace thalweg
