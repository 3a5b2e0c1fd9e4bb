// SPDX-License-Identifier: Apache-2.0
// Loops whose number of iterations is known only when they run:
//
//   const auto r = While(
//       s, {Const(s, 0), x},
//       [&](const Scope& s, const std::vector<Output>& v) { return Less(s, v[0], n); },
//       [&](const Scope& s, const std::vector<Output>& v) {
//         return std::vector{Add(s, v[0], Const(s, 1)), Tanh(s, MatMul(s, v[1], w))};
//       });
//   Gradients(s, {r[1]}, {x, w})
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Adds the condition of a loop, given the values of an iteration: a bool scalar, true to go on.
using LoopCondition = std::function<Output(const Scope&, const std::vector<Output>&)>;
// Adds one iteration, given its values, and returns those of the next.
using LoopBody = std::function<std::vector<Output>(const Scope&, const std::vector<Output>&)>;

// The shapes of the loop variables, and the name of a loop.
struct WhileOptions {
  std::vector<PartialShape> shapes;  // shapes that hold in all iterations; empty: those of `start`
  std::string name = "while";        // name scope of the loop
};

// Starts with the values `start` and replaces them by those of `body` while
// `condition` is true. Returns the final values.
//
// Both functions are called once, to add operations to the scope that they are
// given. They may use every tensor of the graph and contain loops. Variables that
// they create are created once, outside the loop.
//
// Gradients flow through a loop: it keeps the intermediate values that they need.
// The body itself may not call Gradients().
std::vector<Output> While(const Scope& s, const std::vector<Output>& start, const LoopCondition& condition,
                          const LoopBody& body, const WhileOptions& options = {});

}  // namespace thalweg
