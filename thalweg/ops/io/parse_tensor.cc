// SPDX-License-Identifier: Apache-2.0
// SerializeTensor makes a TensorProto of a tensor, as a string; ParseTensor does
// the opposite.
#include "absl/strings/escaping.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

absl::Status ComputeParse(KernelContext& c) {
  const Tensor& serialized = c.input(0);
  if (serialized.rank() != 0) {
    return InvalidArgument("Expected `serialized` to be a scalar, got shape: ", serialized.shape());
  }
  const std::string& bytes = serialized.scalar<std::string>();
  tensorflow::TensorProto proto;
  if (!proto.ParseFromString(bytes)) {
    return InvalidArgument("Could not parse `serialized` as TensorProto, base64: ", absl::Base64Escape(bytes));
  }
  ASSIGN_OR_RETURN(Tensor value, TensorFromProto(proto));
  if (value.dtype() != c.output_type(0)) {
    return InvalidArgument("Type mismatch between parsed tensor (", value.dtype(), ") and dtype (", c.output_type(0),
                           ")");
  }
  c.set_output(0, std::move(value));
  return absl::OkStatus();
}

absl::Status ComputeSerialize(KernelContext& c) {
  RETURN_IF_ERROR(CheckEncodable(c.input(0)));
  tensorflow::TensorProto proto;
  TensorToProto(c.input(0), &proto);
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  if (!proto.SerializeToString(out->mutable_data<std::string>())) {
    return InvalidArgument("the tensor is too large for a message: ", proto.ByteSizeLong(), " bytes");
  }
  return absl::OkStatus();
}

absl::Status ParseTensorShape(ShapeContext& c) { return c.RequireScalar(0); }

const OpRegistration kParseTensorOps[] = {
    Op("ParseTensor")
        .Input("serialized: string")
        .Output("output: out_type")
        .Attr("out_type: type")
        .Shape(ParseTensorShape)
        .Compute(ComputeParse)
        .NotDifferentiable(),
    Op("SerializeTensor")
        .Input("tensor: T")
        .Output("serialized: string")
        .Attr("T: type")
        .Shape(shapes::Scalar)
        .Compute(ComputeSerialize)
        .NotDifferentiable(),
};

}  // namespace

Output ParseTensor(const Scope& s, Output serialized, DType out_type) {
  return s.Add("ParseTensor", {serialized}, {{"out_type", out_type}});
}
Output SerializeTensor(const Scope& s, Output tensor) { return s.Add("SerializeTensor", {tensor}); }

}  // namespace thalweg
