// SPDX-License-Identifier: Apache-2.0
// Branches of which only one runs, chosen by a tensor when the graph runs:
//
//   const auto r = Cond(
//       s, x > 0, [&](const Scope& s) { return std::vector{Sqrt(s, x)}; },
//       [&](const Scope& s) { return std::vector{ZerosLike(s, x)}; });
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Adds the operations of a branch by the scope that it is given, and returns its results.
// It is called once, while the graph is built. It may use every tensor of the graph.
// Variables that it makes are made outside of the branch.
using Branch = std::function<std::vector<Output>(const Scope&)>;

// The name of a conditional.
struct CondOptions {
  std::string name = "cond";  // the name scope of the operations
};

// The results of `then_branch` if the bool scalar `predicate` is true, else those of
// `else_branch`. Both give the same number of results, at least one, with the same types.
// Only the operations of one branch run; operations that do not depend on the branch's scope or
// its results, such as an expression of outside tensors, run in either case. Gradients go
// through it.
std::vector<Output> Cond(const Scope& s, Output predicate, const Branch& then_branch, const Branch& else_branch,
                         const CondOptions& options = {});

// The results of branches[index], for an int32 scalar `index`; those of the last branch if
// there is no such one. Branches are as for Cond.
std::vector<Output> Case(const Scope& s, Output index, const std::vector<Branch>& branches,
                         const CondOptions& options = {.name = "case"});

}  // namespace thalweg
