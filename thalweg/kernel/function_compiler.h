// SPDX-License-Identifier: Apache-2.0
// Compiles functions that kernels call at run time, such as the function of a
// MapDataset. The runtime implements it (runtime/compiled_function.cc); kernels know it
// only through this interface.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// A compiled function with its own kernels, so that random ops and the like keep their
// state from call to call. Thread-safe: calls may overlap.
class CompiledFunction {
 public:
  virtual ~CompiledFunction() = default;
  // Returns the values of the _Retval nodes, by index. Blocks while a node waits;
  // cancelling `step` ends the wait.
  virtual absl::StatusOr<std::vector<Tensor>> Call(Step& step, absl::Span<const Tensor> args) = 0;
  // Whether a call may block.
  virtual bool has_waits() const = 0;
};

// `body` has an _Arg per argument, a _Retval per result, no function calls, and a NoOp
// "_effects" with control inputs from the nodes with side effects. It runs on `device`,
// which must outlive the result.
using FunctionCompiler = absl::StatusOr<std::unique_ptr<CompiledFunction>> (*)(Graph body, Device& device);

// Called during static initialization, like the registration of ops.
void SetFunctionCompiler(FunctionCompiler compiler);
// UNIMPLEMENTED in a program that does not link the runtime.
absl::StatusOr<std::unique_ptr<CompiledFunction>> CompileFunction(Graph body, Device& device);

}  // namespace thalweg
