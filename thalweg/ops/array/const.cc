// SPDX-License-Identifier: Apache-2.0
// Const: a value that is part of the graph. Parsed once, when the kernel is
// made; a step only takes another reference.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

absl::Status ConstShape(ShapeContext& c) {
  const auto it = c.node().def().attr().find("value");
  if (it == c.node().def().attr().end()) return InvalidArgument("attr 'value' is missing");
  // Readers of the value, such as shape functions of other nodes, rely on this check.
  const DType type = RemoveRef(static_cast<DType>(it->second.tensor().dtype()));
  ASSIGN_OR_RETURN(const DType dtype, c.Attr<DType>("dtype"));
  if (type != dtype) return InvalidArgument("Type mismatch between value (", type, ") and dtype (", dtype, ")");
  ASSIGN_OR_RETURN(const Shape shape, Shape::FromProto(it->second.tensor().tensor_shape()));
  c.set_output(0, shape);
  return absl::OkStatus();
}

class ConstKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(value_, init.Attr<Tensor>("value"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    c.set_output(0, value_);
    return absl::OkStatus();
  }

 private:
  Tensor value_;
};

Op Constant(absl::string_view name) {
  return Op(name)
      .Output("output: dtype")
      .Attr("value: tensor")
      .Attr("dtype: type")
      .Shape(ConstShape)
      .Kernel<ConstKernel>()
      .NotDifferentiable();
}

// HostConst stays in the host's memory on devices that have another.
const OpRegistration kConstOps[] = {Constant("Const"), Constant("HostConst")};

}  // namespace

Output Const(const Scope& s, const Tensor& value) {
  if (!value.has_value()) {
    s.Fail(InvalidArgument("Const of a tensor without value"));
    return {};
  }
  return s.Add("Const", {}, {{"dtype", value.dtype()}, {"value", value}});
}

Output Const(const Scope& s, const std::string& value) { return Const(s, Tensor::Scalar<std::string>(value)); }

}  // namespace thalweg
