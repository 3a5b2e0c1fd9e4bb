// SPDX-License-Identifier: Apache-2.0
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

// d(sum of all elements of all ys) / dx for each x; `grad_ys`, if given, weighs
// the elements of the ys. An x on which no y depends gets an empty Gradient.
// Loops on the way (while.h) get more values that go round. Errors (an op without
// gradient) go to the scope.
std::vector<Gradient> Gradients(const Scope& s, const std::vector<Output>& ys, const std::vector<Output>& xs,
                                const std::vector<Output>& grad_ys = {});

}  // namespace thalweg
