// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/function_compiler.h"

#include <utility>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

FunctionCompiler& Registered() {
  static FunctionCompiler compiler = nullptr;
  return compiler;
}

}  // namespace

void SetFunctionCompiler(FunctionCompiler compiler) { Registered() = compiler; }

absl::StatusOr<std::unique_ptr<CompiledFunction>> CompileFunction(Graph body, Device& device) {
  if (Registered() == nullptr) return Unimplemented("this program has no runtime that could call functions");
  return Registered()(std::move(body), device);
}

}  // namespace thalweg
