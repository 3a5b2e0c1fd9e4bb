// Symbolic gradients: adds to a graph the operations that compute the
// derivatives of some outputs with respect to others.
#pragma once

#include <vector>

#include "thalweg/graph/scope.h"

namespace thalweg {

// The derivative with respect to one tensor: dense, or, for a table of which a
// few rows were used, the rows and where they belong (rows may repeat).
struct Gradient {
  Output values;
  Output indices;      // sparse only: row numbers
  Output dense_shape;  // sparse only: shape of the whole

  Gradient() = default;
  Gradient(Output dense) : values(dense) {}  // NOLINT: implicit by design
  Gradient(Output values, Output indices, Output dense_shape)
      : values(values), indices(indices), dense_shape(dense_shape) {}
  bool sparse() const { return indices.node != nullptr; }
  explicit operator bool() const { return values.node != nullptr; }
};

// As one dense tensor.
Output ToDense(const Scope& s, const Gradient& gradient);

// What the gradient function of an op works with: the operation, the
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

// d(sum of all elements of all ys) / dx for each x; `grad_ys`, if given, weighs
// the elements of the ys. An x on which no y depends gets an empty Gradient.
// Loops on the way (while.h) get more values that go round. Errors (an op without
// gradient) go to the scope.
std::vector<Gradient> Gradients(const Scope& s, const std::vector<Output>& ys, const std::vector<Output>& xs,
                                const std::vector<Output>& grad_ys = {});

}  // namespace thalweg
