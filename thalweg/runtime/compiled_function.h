// SPDX-License-Identifier: Apache-2.0
// Compiles the bodies of functions that kernels call.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/function_compiler.h"

namespace thalweg {

// Registered as the FunctionCompiler (kernel/function_compiler.h).
absl::StatusOr<std::unique_ptr<CompiledFunction>> CompileBody(Graph body, Device& device);

}  // namespace thalweg
