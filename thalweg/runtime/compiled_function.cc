// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/compiled_function.h"

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/runtime/executor.h"
#include "thalweg/runtime/graph_optimizer.h"
#include "thalweg/runtime/planner.h"

namespace thalweg {
namespace {

class PlannedFunction final : public CompiledFunction {
 public:
  explicit PlannedFunction(std::unique_ptr<Executable> executable) : executable_(std::move(executable)) {}

  absl::StatusOr<std::vector<Tensor>> Call(Step& step, absl::Span<const Tensor> args) override {
    RETURN_IF_ERROR(Check(args));
    Execution execution(*executable_, step);
    RETURN_IF_ERROR(execution.Run(args));
    std::vector<Tensor> results;
    results.reserve(executable_->plan.results.size());
    RETURN_IF_ERROR(execution.TakeResults(&results));
    return results;
  }

  bool has_waits() const override { return executable_->plan.has_waits; }

 private:
  absl::Status Check(absl::Span<const Tensor> args) const {
    const auto& nodes = executable_->plan.arg_nodes;
    if (args.size() < nodes.size()) {
      return InvalidArgument("a function of ", nodes.size(), " arguments was given ", args.size());
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i] != nullptr && args[i].dtype() != nodes[i]->output_type(0)) {
        return InvalidArgument("argument ", i, " is of type ", args[i].dtype(), ", expected ",
                               nodes[i]->output_type(0));
      }
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<Executable> executable_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CompiledFunction>> CompileBody(Graph body, Device& device) {
  for (const auto& node : body.nodes()) node->set_device(device.name());
  RETURN_IF_ERROR(Optimize(body, {"_effects"}, device));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Executable> executable,
      Compile(
          std::move(body), [&device](const std::string& name) { return name == device.name() ? &device : nullptr; },
          [](const Node& node, Device& on) -> absl::StatusOr<std::shared_ptr<Kernel>> {
            ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, KernelRegistry::Global().Make(node, on));
            return std::shared_ptr<Kernel>(std::move(kernel));
          }));
  return std::make_unique<PlannedFunction>(std::move(executable));
}

}  // namespace thalweg
