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

using LoopCondition = std::function<Output(const Scope&, const std::vector<Output>&)>;
using LoopBody = std::function<std::vector<Output>(const Scope&, const std::vector<Output>&)>;

struct WhileOptions {
  std::vector<PartialShape> shapes;  // what the values have in common in all iterations; those of `start`, if empty
  std::string name = "while";
};

// As long as `condition` is true of the values, which begin as `start`, `body`
// gives the next ones; what they are in the end. Both are called once, to add
// their operations by the scope that they are given; they may use every tensor
// of the graph, and have loops of their own. Variables that they make are made
// once, outside.
//
// Gradients go through: what they need of each iteration is kept until then.
// The body may not ask for gradients itself.
std::vector<Output> While(const Scope& s, const std::vector<Output>& start, const LoopCondition& condition,
                          const LoopBody& body, const WhileOptions& options = {});

}  // namespace thalweg
