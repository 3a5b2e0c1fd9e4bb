// Functions that kernels call while they run, such as that of MapDataset: how a
// kernel has a body compiled. The runtime does it (runtime/compiled_function.cc);
// kernels know it only through this interface.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// A body with kernels of its own: the state of random ops and the like goes on
// from call to call. Thread-safe: calls may overlap.
class CompiledFunction {
 public:
  virtual ~CompiledFunction() = default;
  // The values of the _Retval nodes, by index. Waits where a node does, until
  // `step` is cancelled.
  virtual absl::StatusOr<std::vector<Tensor>> Call(Step& step, absl::Span<const Tensor> args) = 0;
  // Whether a call may wait.
  virtual bool has_waits() const = 0;
};

// `body` has an _Arg for every argument, a _Retval for every result, no calls of
// functions, and a NoOp "_effects" that waits for the nodes with effects. All of
// it runs on `device`, which must outlive the result.
using FunctionCompiler = absl::StatusOr<std::unique_ptr<CompiledFunction>> (*)(Graph body, Device& device);

// Part of the registries that are complete before main().
void SetFunctionCompiler(FunctionCompiler compiler);
// UNIMPLEMENTED in a program without the runtime.
absl::StatusOr<std::unique_ptr<CompiledFunction>> CompileFunction(Graph body, Device& device);

}  // namespace thalweg
