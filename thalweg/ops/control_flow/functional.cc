// SPDX-License-Identifier: Apache-2.0
// Ops that call functions of the graph's library: plain calls, conditionals
// and loops.
//
//   PartitionedCall(args) = f(args)
//   If(cond, input) = cond ? then_branch(input) : else_branch(input)
//   Case(i, input) = branches[i](input), the last branch for every other i
//   While(x): while (cond(x)) x = body(x)
//   For(start, limit, delta, x): for each i of Range(...), x = body(i, x)
//   RemoteCall(target, args) = f(args), on the device `target`
//   SymbolicGradient(x, dy) = d(sum of f(x) * dy) / dx
//
// They have no kernels: the runtime puts the bodies in their place before a
// step is compiled (runtime/functions.h). The forms called Stateless say that
// the functions have no effects; StatefulPartitionedCall is the other way
// round.
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

// The output shapes that the client has declared, if any.
absl::Status ShapesFromAttr(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes, c.Attr<std::vector<PartialShape>>("output_shapes"));
  if (static_cast<int>(shapes.size()) != c.num_outputs()) return absl::OkStatus();
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, shapes[i]);
  return absl::OkStatus();
}

Op Call(absl::string_view name) {
  return Op(name)
      .Input("args: Tin")
      .Output("output: Tout")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("f: func")
      .Attr("config: string = ''")
      .Attr("config_proto: string = ''")
      .Attr("executor_type: string = ''")
      .Shape(shapes::Unknown);
}

Op If(absl::string_view name) {
  return Op(name)
      .Input("cond: Tcond")
      .Input("input: Tin")
      .Output("output: Tout")
      .Attr("Tcond: type")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("then_branch: func")
      .Attr("else_branch: func")
      .Attr("output_shapes: list(shape) = []")
      .Shape(ShapesFromAttr);
}

Op Case(absl::string_view name) {
  return Op(name)
      .Input("branch_index: int32")
      .Input("input: Tin")
      .Output("output: Tout")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("branches: list(func) >= 1")
      .Attr("output_shapes: list(shape) = []")
      .Shape(ShapesFromAttr);
}

Op While(absl::string_view name) {
  return Op(name)
      .Input("input: T")
      .Output("output: T")
      .Attr("T: list(type) >= 0")
      .Attr("cond: func")
      .Attr("body: func")
      .Attr("output_shapes: list(shape) = []")
      .Attr("parallel_iterations: int = 10")
      .Shape(ShapesFromAttr);
}

// A scalar is true if it is not zero or empty; anything else, if it has
// elements.
absl::Status ComputeToBool(KernelContext& c) {
  const Tensor& x = c.input(0);
  bool value = x.num_elements() > 0;
  if (x.rank() == 0) {
    if (x.dtype() == kString) {
      value = !x.scalar<std::string>().empty();
    } else {
      RETURN_IF_ERROR(Dispatch(PodTypes(), x.dtype(), [&]<typename T>() {
        value = x.scalar<T>() != T(0);
        return absl::OkStatus();
      }));
    }
  }
  ASSIGN_OR_RETURN(Tensor * y, c.Allocate(0, Shape()));
  *y->mutable_data<bool>() = value;
  return absl::OkStatus();
}

// The result of a branch for a value that only the other branch has. It is never read.
absl::Status ComputeFakeParam(KernelContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, GetAttr<PartialShape>(c.node().def(), "shape"));
  c.set_output(0, Tensor::Zeros(c.output_type(0), shape.AsShape().value_or(Shape({0}))));
  return absl::OkStatus();
}

// The index of the device type on which this runs; the number of types if it is none of them.
absl::Status ComputeDeviceIndex(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::vector<std::string> types,
                   GetAttr<std::vector<std::string>>(c.node().def(), "device_names"));
  int32_t index = 0;
  while (index < static_cast<int32_t>(types.size()) && types[index] != c.device().type()) ++index;
  ASSIGN_OR_RETURN(Tensor * y, c.Allocate(0, Shape()));
  *y->mutable_data<int32_t>() = index;
  return absl::OkStatus();
}

const OpRegistration kFunctionalOps[] = {
    Call("PartitionedCall"),
    Call("StatefulPartitionedCall").Stateful().DistributedCommunication(),
    If("If").Stateful(),
    If("StatelessIf"),
    Case("Case").Stateful(),
    Case("StatelessCase"),
    While("While").Stateful(),
    While("StatelessWhile"),
    Op("For")
        .Input("start: int32")
        .Input("limit: int32")
        .Input("delta: int32")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: list(type) >= 0")
        .Attr("body: func")
        .Shape(shapes::Unknown),
    Op("RemoteCall")
        .Input("target: string")
        .Input("args: Tin")
        .Output("output: Tout")
        .Attr("Tin: list(type) >= 1")
        .Attr("Tout: list(type) >= 1")
        .Attr("f: func")
        .Stateful()
        .Shape(shapes::Unknown),
    Op("SymbolicGradient")
        .Input("input: Tin")
        .Output("output: Tout")
        .Attr("Tin: list(type) >= 1")
        .Attr("Tout: list(type) >= 1")
        .Attr("f: func")
        .Shape([](ShapeContext& c) {
          for (int i = 0; i < c.num_outputs() && i < c.num_inputs(); ++i) c.set_output(i, c.input(i));
          return absl::OkStatus();
        }),
    Op("ToBool")
        .Input("input: T")
        .Output("output: bool")
        .Attr("T: type")
        .Shape(shapes::Scalar)
        .Compute(ComputeToBool)
        .NotDifferentiable(),
    Op("FakeParam")
        .Output("output: dtype")
        .Attr("dtype: type")
        .Attr("shape: shape")
        .Shape(shapes::FromShapeAttr)
        .Compute(ComputeFakeParam)
        .NotDifferentiable(),
    Op("DeviceIndex")
        .Output("index: int32")
        .Attr("device_names: list(string)")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeDeviceIndex)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
