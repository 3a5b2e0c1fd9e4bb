// SPDX-License-Identifier: Apache-2.0
// Functions that the runtime generates: the gradient of a function, and the condition and
// body that turn a For into a While.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/graph/graph.h"
#include "thalweg/runtime/function_inliner.h"

namespace thalweg {

// g(x..., dy...) = d(sum of f(x) * dy) / dx, the function that SymbolicGradient(f) calls.
// `library` has f and the functions that f calls. If no result depends on an x, its
// gradient is zero. Fails if an op of f has no gradient. `callers` is the call chain of
// the body of f.
absl::StatusOr<tensorflow::FunctionDef> GradientFunction(const Graph& library, const tensorflow::NameAttrList& f,
                                                         const std::string& name,
                                                         std::shared_ptr<const Callers> callers);

// For(start, limit, delta, x) as a loop over (k, n, start, delta, x...): while
// k < n, x = f(start + k * delta, x).
absl::StatusOr<tensorflow::FunctionDef> ForCondition(const std::vector<DType>& types, const std::string& name);
absl::StatusOr<tensorflow::FunctionDef> ForBody(const Graph& library, const tensorflow::NameAttrList& f,
                                                const std::vector<DType>& types, const std::string& name);

}  // namespace thalweg
