// SPDX-License-Identifier: Apache-2.0
// Symbolic gradients: adds to a graph the operations that compute the
// derivatives of some outputs with respect to others.
#pragma once

#include <vector>

#include "thalweg/graph/scope.h"

namespace thalweg {

// The derivative with respect to one tensor. It is dense, or sparse if only a few
// rows of a table were used: then it has these rows and their numbers. Row numbers
// may repeat; repeated rows add up.
struct Gradient {
  Output values;       // the dense gradient, or the rows of a sparse one
  Output indices;      // sparse only: the row numbers
  Output dense_shape;  // sparse only: the shape of the dense gradient

  // No gradient.
  Gradient() = default;
  // A dense gradient.
  Gradient(Output dense) : values(dense) {}  // NOLINT: implicit by design
  // A sparse gradient.
  Gradient(Output values, Output indices, Output dense_shape)
      : values(values), indices(indices), dense_shape(dense_shape) {}
  bool sparse() const { return indices.node != nullptr; }            // true if it is sparse
  explicit operator bool() const { return values.node != nullptr; }  // true if it is a gradient
};

// The gradient as one dense tensor.
Output ToDense(const Scope& s, const Gradient& gradient);

// Adds the operations that compute d(sum of all elements of all ys) / dx for each x.
// `grad_ys`, if given, has a weight for each element of the ys. An x on which no y
// depends gets an empty Gradient. Errors, such as an op without a gradient, go to the
// scope.
//
//   const auto gradients = Gradients(s, {loss}, {w, b});
std::vector<Gradient> Gradients(const Scope& s, const std::vector<Output>& ys, const std::vector<Output>& xs,
                                const std::vector<Output>& grad_ys = {});

}  // namespace thalweg
