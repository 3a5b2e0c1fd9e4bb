// SPDX-License-Identifier: Apache-2.0
// TensorArrays: loops write their results to one, iteration by iteration, and
// read their inputs from one. `flow`, a float that means nothing, makes the
// order of reads and writes an order of edges, and leads gradients along it.
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/tensor_array.h"
#include "thalweg/ops/data_flow/tensor_array_kernel.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

constexpr char kArrayContainer[] = "_tensor_arrays";
constexpr char kGradientContainer[] = "_tensor_array_grads";

absl::Status SetFlow(KernelContext& c, int i) {
  if (i >= c.num_outputs()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Tensor * flow, c.Allocate(i, Shape()));
  *flow->mutable_data<float>() = 0;
  return absl::OkStatus();
}

class TensorArrayKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(options_.dtype, init.Attr<DType>("dtype"));
    ASSIGN_OR_RETURN(options_.element_shape, init.Attr<PartialShape>("element_shape"));
    ASSIGN_OR_RETURN(options_.dynamic_size, init.Attr<bool>("dynamic_size"));
    ASSIGN_OR_RETURN(options_.clear_after_read, init.Attr<bool>("clear_after_read"));
    if (HasAttr(init.node().def(), "identical_element_shapes")) {
      ASSIGN_OR_RETURN(options_.identical_shapes, init.Attr<bool>("identical_element_shapes"));
    }
    ASSIGN_OR_RETURN(options_.name, init.Attr<std::string>("tensor_array_name"));
    if (options_.name.empty()) options_.name = init.node().name();
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& size = c.input(0);
    if (!size.shape().is_scalar()) {
      return InvalidArgument("TensorArray size must be scalar, but had shape: ", size.shape());
    }
    if (size.scalar<int32_t>() < 0) return InvalidArgument("Size should be >= 0.");
    if (c.step().resources == nullptr) return Internal("No step container.");
    TensorArrayConfig options = options_;
    options.name = absl::StrCat(options_.name, "_", NextResourceNumber());
    const ResourceName name{kArrayContainer, options.name};
    ASSIGN_OR_RETURN(const ArrayPtr array, TensorArray::Make(std::move(options), size.scalar<int32_t>()));
    RETURN_IF_ERROR(c.step().resources->Create<TensorArray>(name.container, name.name, array));
    SetStepHandle(c, name, TensorArray::kTypeName, &array->strings);
    return SetFlow(c, 1);
  }

 private:
  TensorArrayConfig options_;
};

// The array for the gradients of another one: one per `source`, a name for a
// computation of gradients.
class GradientKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(source_, init.Attr<std::string>("source"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
    Shape prefix;
    if (c.num_inputs() > 2) {
      ASSIGN_OR_RETURN(prefix, ReadShape(c.input(2), "shape_to_prepend"));
    }
    const ResourceName name{kGradientContainer, absl::StrCat(array->name(), "@", source_)};
    ASSIGN_OR_RETURN(const ArrayPtr gradient,
                     c.step().resources->FindOrCreate<TensorArray>(
                         name.container, name.name, [&] { return array->MakeGradient(name.name, prefix); }));
    SetStepHandle(c, name, TensorArray::kTypeName, &gradient->strings);
    return SetFlow(c, 1);
  }

 private:
  std::string source_;
};

absl::StatusOr<int32_t> IndexOf(KernelContext& c) {
  if (!c.input(1).shape().is_scalar()) {
    return InvalidArgument("TensorArray index must be scalar, but had shape: ", c.input(1).shape());
  }
  return c.input(1).scalar<int32_t>();
}

absl::Status Write(KernelContext& c) {
  ASSIGN_OR_RETURN(const int32_t index, IndexOf(c));
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  RETURN_IF_ERROR(CheckArrayWrite(*array, c.input(2)));
  RETURN_IF_ERROR(array->Write({index}, {c.input(2)}));
  c.set_output(0, c.input(3));
  return absl::OkStatus();
}

absl::Status ReadElement(KernelContext& c) {
  ASSIGN_OR_RETURN(const int32_t index, IndexOf(c));
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  RETURN_IF_ERROR(CheckArrayRead(*array, c.output_type(0)));
  ASSIGN_OR_RETURN(std::vector<Tensor> values, array->Read({index}));
  c.set_output(0, std::move(values[0]));
  return absl::OkStatus();
}

absl::Status ArraySize(KernelContext& c) {
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  ASSIGN_OR_RETURN(const int64_t size, array->Size());
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int32_t>() = static_cast<int32_t>(size);
  return absl::OkStatus();
}

absl::Status CloseArray(KernelContext& c) {
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  array->Close();
  return absl::OkStatus();
}

absl::Status ArrayShape(ShapeContext& c) {
  RETURN_IF_ERROR(HandleShape(c));
  if (c.num_outputs() > 1) c.set_output(1, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status ReadShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0, ArrayElementShape(c));
  return absl::OkStatus();
}

absl::Status ReadGradient(GradientContext& c) {
  const GradientArray g = ArrayOfGradients(c, c.input(2));
  c.set_dx(2, Output(c.scope().Add("TensorArrayWriteV3", {g.handle, c.input(1), c.dy(), g.flow})));
  return absl::OkStatus();
}

absl::Status WriteGradient(GradientContext& c) {
  const Output flow = c.dy();
  const GradientArray g = ArrayOfGradients(c, flow);
  c.set_dx(2,
           Output(c.scope().Add("TensorArrayReadV3", {g.handle, c.input(1), g.flow}, {{"dtype", c.input(2).dtype()}})));
  c.set_dx(3, flow);
  return absl::OkStatus();
}

Op MakeOp(ArrayVersion v) {
  Op op(ArrayOpName("", v));
  op.Input("size: int32").Output(ArrayHandle("handle", v));
  if (v == ArrayVersion::kResource) op.Output("flow: float");
  op.Attr("dtype: type");
  if (v == ArrayVersion::kRef) {
    op.Attr("dynamic_size: bool = false").Attr("clear_after_read: bool = true").Attr("tensor_array_name: string = ''");
    op.Attr("element_shape: shape = { unknown_rank: true }");
  } else {
    op.Attr("element_shape: shape = { unknown_rank: true }");
    op.Attr("dynamic_size: bool = false").Attr("clear_after_read: bool = true");
    if (v == ArrayVersion::kResource) op.Attr("identical_element_shapes: bool = false");
    op.Attr("tensor_array_name: string = ''");
  }
  op.Stateful().Shape(ArrayShape).Kernel<TensorArrayKernel>().NotDifferentiable();
  return op;
}

Op GradientOp(const std::string& name, ArrayVersion v) {
  Op op(name);
  op.Input(v == ArrayVersion::kResource ? "handle: resource" : "handle: string").Input("flow_in: float");
  if (name == "TensorArrayGradWithShape") op.Input("shape_to_prepend: int32");
  op.Output(ArrayHandle("grad_handle", v));
  if (v == ArrayVersion::kResource) op.Output("flow_out: float");
  op.Attr("source: string").Stateful().Shape(ArrayShape).Kernel<GradientKernel>().NotDifferentiable();
  return op;
}

Op WriteOp(ArrayVersion v) {
  return WithGradient(ArrayUser("Write", v)
                          .Input("index: int32")
                          .Input("value: T")
                          .Input("flow_in: float")
                          .Output("flow_out: float")
                          .Attr("T: type")
                          .Shape(shapes::Scalar)
                          .Compute(Write),
                      v, WriteGradient);
}
Op ReadOp(ArrayVersion v) {
  return WithGradient(ArrayUser("Read", v)
                          .Input("index: int32")
                          .Input("flow_in: float")
                          .Output("value: dtype")
                          .Attr("dtype: type")
                          .Shape(ReadShape)
                          .Compute(ReadElement),
                      v, ReadGradient);
}
Op SizeOp(ArrayVersion v) {
  return ArrayUser("Size", v)
      .Input("flow_in: float")
      .Output("size: int32")
      .Shape(shapes::Scalar)
      .Compute(ArraySize)
      .NotDifferentiable();
}
Op CloseOp(ArrayVersion v) {
  return ArrayUser("Close", v).Shape(shapes::NoOutputs).Compute(CloseArray).NotDifferentiable();
}

const OpRegistration kTensorArrayOps[] = {
    MakeOp(ArrayVersion::kRef),
    MakeOp(ArrayVersion::kString),
    MakeOp(ArrayVersion::kResource),
    GradientOp("TensorArrayGrad", ArrayVersion::kRef),
    GradientOp("TensorArrayGradV2", ArrayVersion::kString),
    GradientOp("TensorArrayGradV3", ArrayVersion::kResource),
    GradientOp("TensorArrayGradWithShape", ArrayVersion::kResource),
    WriteOp(ArrayVersion::kRef),
    WriteOp(ArrayVersion::kString),
    WriteOp(ArrayVersion::kResource),
    ReadOp(ArrayVersion::kRef),
    ReadOp(ArrayVersion::kString),
    ReadOp(ArrayVersion::kResource),
    SizeOp(ArrayVersion::kRef),
    SizeOp(ArrayVersion::kString),
    SizeOp(ArrayVersion::kResource),
    CloseOp(ArrayVersion::kRef),
    CloseOp(ArrayVersion::kString),
    CloseOp(ArrayVersion::kResource),
};

}  // namespace

TensorArrayResult TensorArrayOf(const Scope& s, const IntArg& size, DType dtype, const TensorArrayOptions& a) {
  Node* const node = s.Add("TensorArrayV3", {size.AsTensor(s, "size")},
                           {{"dtype", dtype},
                            {"element_shape", a.element_shape},
                            {"dynamic_size", a.dynamic_size},
                            {"clear_after_read", a.clear_after_read},
                            {"identical_element_shapes", a.identical_element_shapes}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1)};
}
Output TensorArrayWrite(const Scope& s, Output handle, const IntArg& index, Output value, Output flow) {
  return s.Add("TensorArrayWriteV3", {handle, index.AsTensor(s, "index"), value, flow});
}
Output TensorArrayRead(const Scope& s, Output handle, const IntArg& index, Output flow, DType dtype) {
  return s.Add("TensorArrayReadV3", {handle, index.AsTensor(s, "index"), flow}, {{"dtype", dtype}});
}
Output TensorArraySize(const Scope& s, Output handle, Output flow) {
  return s.Add("TensorArraySizeV3", {handle, flow});
}
Output TensorArrayClose(const Scope& s, Output handle) { return s.Add("TensorArrayCloseV3", {handle}); }

}  // namespace thalweg
