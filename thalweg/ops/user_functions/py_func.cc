// SPDX-License-Identifier: Apache-2.0
// PyFunc, PyFuncStateless, EagerPyFunc: nodes that call a Python function of the
// program that built the graph (tf.py_func, tf.numpy_function, tf.py_function).
// The program keeps the function under the attribute `token`. The server that
// `thalweg python` has started for the program reaches it; other servers do not.
#include <utility>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/script_functions.h"

namespace thalweg {
namespace {

class PyFuncKernel final : public AsyncKernel {
 public:
  explicit PyFuncKernel(bool eager) : eager_(eager) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(token_, init.Attr<std::string>("token"));
    return absl::OkStatus();
  }

  void ComputeAsync(KernelContext& c, Done done) override {
    const absl::StatusOr<std::shared_ptr<ScriptFunctions>> functions = ScriptFunctions::On(c.device());
    if (!functions.ok()) {
      return done(FailedPrecondition(
          "Node '", c.node().name(), "' calls the Python function ", token_,
          " of the program that built the graph, and ", c.device().name(),
          " has no program. Start the program with `thalweg python`, and place the node on the program's own task."));
    }
    const std::shared_ptr<ScriptReadAhead> ahead = ReadAheadOf(c.step());
    if (ahead != nullptr && !ahead->results.empty()) {
      ScriptResult result = std::move(ahead->results.front());
      ahead->results.pop_front();
      return done(Take(c, std::move(result)));
    }
    ScriptCall call{.token = token_, .eager = eager_, .inputs = {}, .repeat = ahead == nullptr ? 1 : ahead->wanted};
    call.inputs.reserve(c.num_inputs());
    for (int i = 0; i < c.num_inputs(); ++i) call.inputs.push_back(c.input(i));
    (*functions)
        ->Call(std::move(call), *c.step().cancellation,
               [this, &c, ahead, done = std::move(done)](ScriptResults results) mutable {
                 for (size_t i = 1; ahead != nullptr && i < results.size(); ++i) {
                   ahead->results.push_back(std::move(results[i]));
                 }
                 done(Take(c, std::move(results.front())));
               });
  }

 private:
  // Nullptr if the step's caller wants one result.
  static std::shared_ptr<ScriptReadAhead> ReadAheadOf(const Step& step) {
    if (step.resources == nullptr) return nullptr;
    return step.resources->Find<ScriptReadAhead>(ScriptFunctions::kContainer, ScriptReadAhead::kName).value_or(nullptr);
  }

  absl::Status Take(KernelContext& c, ScriptResult result) const {
    return result.ok() ? SetOutputs(c, *std::move(result)) : result.status();
  }

  absl::Status SetOutputs(KernelContext& c, std::vector<Tensor> results) const {
    if (static_cast<int>(results.size()) != c.num_outputs()) {
      return InvalidArgument(token_, " returns ", results.size(), " values, but expects to see ", c.num_outputs(),
                             " values.");
    }
    for (int i = 0; i < c.num_outputs(); ++i) {
      if (results[i].dtype() != c.output_type(i)) {
        return InvalidArgument(i, "-th value returned by ", token_, " is ", results[i].dtype(), ", but expects ",
                               c.output_type(i));
      }
      c.set_output(i, std::move(results[i]));
    }
    return absl::OkStatus();
  }

  const bool eager_;
  std::string token_;
};

Op PyFuncOp(const char* name, bool eager) {
  Op op(name);
  op.Input("input: Tin").Output("output: Tout").Attr("token: string");
  if (eager) op.Attr("is_async: bool = false");
  op.Attr("Tin: list(type) >= 0").Attr("Tout: list(type) >= 0");
  return op.Shape(shapes::Unknown).Kernel<PyFuncKernel>(eager).NotDifferentiable();
}

const OpRegistration kPyFuncOps[] = {
    PyFuncOp("PyFunc", /*eager=*/false).Stateful(),
    PyFuncOp("PyFuncStateless", /*eager=*/false),
    PyFuncOp("EagerPyFunc", /*eager=*/true).Stateful(),
};

}  // namespace
}  // namespace thalweg
