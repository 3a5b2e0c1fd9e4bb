// SPDX-License-Identifier: Apache-2.0
// Ops that pass their input on unchanged and share its memory: Identity, and ops that differ from
// it only in their meaning for the graph.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

// The runtime may hand on a variable as such, for readers that come later
// (runtime/deferred_reads.h).
absl::Status Pass(KernelContext& c) {
  if (c.is_variable(0)) {
    c.set_variable(0, &c.variable(0));
    return absl::OkStatus();
  }
  c.set_variable(0, nullptr);  // may be set from an earlier iteration of a loop
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.TakeInput(i));
  return absl::OkStatus();
}

absl::Status PassShapes(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(i));
  return absl::OkStatus();
}

absl::Status PassGradients(GradientContext& c) {
  for (int i = 0; i < c.node()->num_inputs(); ++i) c.set_dx(i, c.raw_dy(i));
  return absl::OkStatus();
}

absl::Status PreventedGradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const std::string message, c.Attr<std::string>("message"));
  return FailedPrecondition("Gradient explicitly disabled. Reason: ", message);
}

absl::Status DeepCopy(KernelContext& c) {
  ASSIGN_OR_RETURN(Tensor copy, c.input(0).TryClone(c.device().allocator()));
  c.set_output(0, std::move(copy));
  return absl::OkStatus();
}

absl::Status EnsuredShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.Attr<PartialShape>("shape"));
  ASSIGN_OR_RETURN(shape, PartialShape::Merge(shape, c.input(0)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// Fails unless the input has the shape that the graph was promised.
class EnsureShapeKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(shape_, init.Attr<PartialShape>("shape"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (!shape_.Accepts(c.input(0).shape())) {
      return InvalidArgument("Shape of tensor ", c.node().input(0).node->name(), " ", c.input(0).shape(),
                             " is not compatible with expected shape ", shape_, ".");
    }
    return Pass(c);
  }

 private:
  PartialShape shape_;
};

const OpRegistration kIdentityOps[] = {
    Op("Identity")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: type")
        .Shape(PassShapes)
        .Compute(Pass)
        .Gradient(PassGradients),
    Op("IdentityN")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: list(type) >= 1")
        .Shape(PassShapes)
        .Compute(Pass)
        .Gradient(PassGradients),
    Op("Snapshot")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: type")
        .Shape(PassShapes)
        .Compute(Pass)
        .Gradient(PassGradients),
    Op("StopGradient")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: type")
        .Shape(PassShapes)
        .Compute(Pass)
        .NotDifferentiable(),
    Op("PreventGradient")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("message: string = ''")
        .Shape(PassShapes)
        .Compute(Pass)
        .Gradient(PreventedGradient),
    Op("GuaranteeConst")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: type")
        .Stateful()
        .Shape(PassShapes)
        .Compute(Pass)
        .NotDifferentiable(),
    Op("DeepCopy").Input("x: T").Output("y: T").Attr("T: type").Stateful().Shape(PassShapes).Compute(DeepCopy),
    Op("EnsureShape")
        .Input("input: T")
        .Output("output: T")
        .Attr("shape: shape")
        .Attr("T: type")
        .Shape(EnsuredShape)
        .Kernel<EnsureShapeKernel>()
        .Gradient(PassGradients),
};

}  // namespace

Output Identity(const Scope& s, Output input) { return s.Add("Identity", {input}); }

std::vector<Output> IdentityN(const Scope& s, const std::vector<Output>& inputs) {
  Node* const node = s.Add("IdentityN", {inputs});
  std::vector<Output> outputs;
  for (size_t i = 0; i < inputs.size(); ++i) outputs.emplace_back(node, static_cast<int>(i));
  return outputs;
}

Output StopGradient(const Scope& s, Output input) { return s.Add("StopGradient", {input}); }
Output PreventGradient(const Scope& s, Output input, absl::string_view message) {
  return s.Add("PreventGradient", {input}, {{"message", message}});
}
Output Snapshot(const Scope& s, Output input) { return s.Add("Snapshot", {input}); }
Output EnsureShape(const Scope& s, Output input, const PartialShape& shape) {
  return s.Add("EnsureShape", {input}, {{"shape", shape}});
}

}  // namespace thalweg
