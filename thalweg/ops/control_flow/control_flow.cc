// SPDX-License-Identifier: Apache-2.0
// v1 control flow: conditionals and loops made of single nodes.
//
//   Switch(data, pred) -> data on output 1 if pred, else on output 0; the other
//     is dead, and so is everything that depends on it, up to a
//   Merge(inputs...) -> (the input that is not dead, its number).
//   Enter brings a value into a loop, NextIteration into the next iteration,
//   Exit out of it; LoopCond marks the condition.
//
// The runtime knows frames, iterations and deadness; the kernels only move
// values. Each op has a Ref form that moves a variable instead. The gradient of
// a loop is that of the whole: see graph/gradient.cc.
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

// Passes input `from` on as output `to`: a value or a variable. In a loop, the
// slot may still hold the other of an earlier iteration.
void Pass(KernelContext& c, int from, int to) {
  if (c.is_variable(from)) {
    c.set_variable(to, &c.variable(from));
  } else {
    c.set_variable(to, nullptr);
    c.set_output(to, c.TakeInput(from));
  }
}

absl::Status PassOn(KernelContext& c) {
  Pass(c, 0, 0);
  return absl::OkStatus();
}

absl::Status ComputeSwitch(KernelContext& c) {
  const Tensor& predicate = c.input(1);
  if (predicate.num_elements() != 1 || predicate.rank() != 0) {
    return InvalidArgument("The second input must be a scalar, but it has shape ", predicate.shape());
  }
  const int port = predicate.scalar<bool>() ? 1 : 0;
  Pass(c, 0, port);
  c.set_dead(1 - port);
  return absl::OkStatus();
}

absl::Status ComputeSwitchN(KernelContext& c) {
  const Tensor& index = c.input(1);
  if (index.rank() != 0) return InvalidArgument("The second input must be a scalar, but it has shape ", index.shape());
  int port = index.scalar<int32_t>();
  if (port < 0 || port >= c.num_outputs()) port = c.num_outputs() - 1;
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (i != port) c.set_dead(i);
  }
  Pass(c, 0, port);
  return absl::OkStatus();
}

absl::Status ComputeMerge(KernelContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.is_dead(i)) continue;
    Pass(c, i, 0);
    ASSIGN_OR_RETURN(Tensor * index, c.Allocate(1, Shape()));
    *index->mutable_data<int32_t>() = i;
    return absl::OkStatus();
  }
  return Internal("Merge was run with dead inputs only");
}

absl::Status ComputeRefSelect(KernelContext& c) {
  const Tensor& index = c.input(0);
  if (index.num_elements() != 1) return InvalidArgument("Index must be a scalar, but it has shape ", index.shape());
  const int i = index.scalar<int32_t>();
  if (i < 0 || i >= c.num_inputs() - 1)
    return InvalidArgument("Index must be in the range [0, ", c.num_inputs() - 1, ") but got ", i);
  Pass(c, i + 1, 0);
  return absl::OkStatus();
}

absl::Status SwitchShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(1));
  return shapes::LikeInput0(c);
}

absl::Status MergeShape(ShapeContext& c) {
  // The second input of a loop's Merge is not known yet, and may have another shape.
  bool known = true;
  for (int i = 0; i < c.num_inputs(); ++i) known = known && !IsNextIteration(*c.node().input(i).node);
  if (known) {
    PartialShape common = c.input(0);
    for (int i = 1; i < c.num_inputs() && common.has_rank(); ++i) {
      const PartialShape& other = c.input(i);
      if (!other.has_rank() || other.rank() != common.rank()) {
        common = PartialShape();
        break;
      }
      Dims dims(common.dims().begin(), common.dims().end());
      for (int d = 0; d < common.rank(); ++d) {
        if (dims[d] != other.dim(d)) dims[d] = PartialShape::kUnknown;
      }
      common = PartialShape(std::move(dims));
    }
    c.set_output(0, common);
  }
  c.set_output(1, Shape());
  return absl::OkStatus();
}

// A loop may change the shape of what enters as a variable of the loop.
absl::Status EnterShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const bool is_constant, c.Attr<bool>("is_constant"));
  if (is_constant) return shapes::LikeInput0(c);
  return absl::OkStatus();
}

absl::Status LoopCondShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(0));
  return shapes::Scalar(c);
}

// The derivative flows back through the branch that was taken: the Merge of
// the derivatives of a Switch's outputs.
absl::Status SwitchGradient(GradientContext& c) {
  const Scope& s = c.scope();
  std::vector<Output> branches;
  const Output predicate = c.input(1);
  for (int i = 0; i < 2; ++i) {
    if (c.has_dy(i)) {
      branches.push_back(c.dy(i));
    } else {
      // A branch that does not matter contributes zeros, when it is taken.
      Node* dead_if_not_taken = s.Add("Switch", {c.input(0), predicate});
      if (dead_if_not_taken == nullptr) return absl::OkStatus();
      branches.push_back(s.Add("ZerosLike", {dead_if_not_taken->out(i)}));
    }
  }
  c.set_dx(0, Output(s.Add("Merge", {branches})));
  return absl::OkStatus();
}

// The derivative goes to the input that was taken.
absl::Status MergeGradient(GradientContext& c) {
  if (c.node()->num_inputs() != 2) return Unimplemented("gradient of a Merge of ", c.node()->num_inputs(), " inputs");
  const Scope& s = c.scope();
  const Output zero = s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(0)}});
  const Output took_second = s.Add("NotEqual", {c.output(1), zero});
  Node* split = s.Add("Switch", {c.dy(0), took_second});
  if (split == nullptr) return absl::OkStatus();
  c.set_dx(0, split->out(0));
  c.set_dx(1, split->out(1));
  return absl::OkStatus();
}

const OpRegistration kControlFlowOps[] = {
    Op("Switch")
        .Input("data: T")
        .Input("pred: bool")
        .Output("output_false: T")
        .Output("output_true: T")
        .Attr("T: type")
        .Shape(SwitchShape)
        .Compute(ComputeSwitch)
        .Gradient(SwitchGradient),
    Op("RefSwitch")
        .Input("data: Ref(T)")
        .Input("pred: bool")
        .Output("output_false: Ref(T)")
        .Output("output_true: Ref(T)")
        .Attr("T: type")
        .AllowsUninitializedInput()
        .Shape(SwitchShape)
        .Compute(ComputeSwitch)
        .Gradient(SwitchGradient),
    // A Switch with many outputs, which the runtime uses for Case. An index out of range selects the last
    // output.
    Op("_SwitchN")
        .Input("data: T")
        .Input("output_index: int32")
        .Output("outputs: num_outs * T")
        .Attr("num_outs: int >= 1")
        .Attr("T: type")
        .Shape(SwitchShape)
        .Compute(ComputeSwitchN)
        .NotDifferentiable(),
    Op("RefIdentity")
        .Input("input: Ref(T)")
        .Output("output: Ref(T)")
        .Attr("T: type")
        .AllowsUninitializedInput()
        .Shape(shapes::LikeInput0)
        .Compute(PassOn)
        .Gradient([](GradientContext& c) {
          c.set_dx(0, c.raw_dy(0));
          return absl::OkStatus();
        }),
    Op("RefSelect")
        .Input("index: int32")
        .Input("inputs: Ref(N * T)")
        .Output("output: Ref(T)")
        .Attr("T: type")
        .Attr("N: int >= 1")
        .Shape(shapes::Unknown)
        .Compute(ComputeRefSelect)
        .NotDifferentiable(),
    Op("Merge")
        .Input("inputs: N * T")
        .Output("output: T")
        .Output("value_index: int32")
        .Attr("T: type")
        .Attr("N: int >= 1")
        .Shape(MergeShape)
        .Compute(ComputeMerge)
        .Gradient(MergeGradient),
    Op("RefMerge")
        .Input("inputs: Ref(N * T)")
        .Output("output: Ref(T)")
        .Output("value_index: int32")
        .Attr("T: type")
        .Attr("N: int >= 1")
        .Shape(MergeShape)
        .Compute(ComputeMerge)
        .Gradient(MergeGradient),
    Op("Enter")
        .Input("data: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("frame_name: string")
        .Attr("is_constant: bool = false")
        .Attr("parallel_iterations: int = 10")
        .Shape(EnterShape)
        .Compute(PassOn)
        .NotDifferentiable(),
    Op("RefEnter")
        .Input("data: Ref(T)")
        .Output("output: Ref(T)")
        .Attr("T: type")
        .Attr("frame_name: string")
        .Attr("is_constant: bool = false")
        .Attr("parallel_iterations: int = 10")
        .Shape(shapes::LikeInput0)
        .Compute(PassOn)
        .NotDifferentiable(),
    Op("Exit")
        .Input("data: T")
        .Output("output: T")
        .Attr("T: type")
        .Shape(shapes::LikeInput0)
        .Compute(PassOn)
        .NotDifferentiable(),
    Op("RefExit")
        .Input("data: Ref(T)")
        .Output("output: Ref(T)")
        .Attr("T: type")
        .Shape(shapes::LikeInput0)
        .Compute(PassOn)
        .NotDifferentiable(),
    Op("NextIteration")
        .Input("data: T")
        .Output("output: T")
        .Attr("T: type")
        .Shape(shapes::LikeInput0)
        .Compute(PassOn)
        .NotDifferentiable(),
    Op("RefNextIteration")
        .Input("data: Ref(T)")
        .Output("output: Ref(T)")
        .Attr("T: type")
        .Shape(shapes::LikeInput0)
        .Compute(PassOn)
        .NotDifferentiable(),
    Op("LoopCond").Input("input: bool").Output("output: bool").Shape(LoopCondShape).Compute(PassOn).NotDifferentiable(),
    Op("ControlTrigger")
        .Shape(shapes::NoOutputs)
        .Compute([](KernelContext&) { return absl::OkStatus(); })
        .NotDifferentiable(),
    Op("Abort")
        .Attr("error_msg: string = ''")
        .Attr("exit_without_error: bool = false")
        .Shape(shapes::NoOutputs)
        .Compute([](KernelContext& c) -> absl::Status {
          // TensorFlow ends the process here; nothing a client sends may do that.
          return Aborted("Abort op: ", GetAttr<std::string>(c.node().def(), "error_msg").value_or(""));
        })
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
