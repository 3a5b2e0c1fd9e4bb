// Functions that the runtime writes itself, for calls that are more than a call:
// the gradient of a function, and a counting loop as a While.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/graph/graph.h"
#include "thalweg/runtime/function_inliner.h"

namespace thalweg {

// g(x..., dy...) = d(sum of f(x) * dy) / dx: what SymbolicGradient(f) calls.
// `library` has f, and what f calls. An x on which no result depends gets
// zeros. UNIMPLEMENTED or the like if an op of f has no gradient. `callers` are
// those of the body of f.
absl::StatusOr<tensorflow::FunctionDef> GradientFunction(const Graph& library, const tensorflow::NameAttrList& f,
                                                         const std::string& name,
                                                         std::shared_ptr<const Callers> callers);

// For(start, limit, delta, x) as a loop over (k, n, start, delta, x...): while
// k < n, x = f(start + k * delta, x).
absl::StatusOr<tensorflow::FunctionDef> ForCondition(const std::vector<DType>& types, const std::string& name);
absl::StatusOr<tensorflow::FunctionDef> ForBody(const Graph& library, const tensorflow::NameAttrList& f,
                                                const std::vector<DType>& types, const std::string& name);

}  // namespace thalweg
