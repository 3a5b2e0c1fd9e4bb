// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/tensor_array_kernel.h"

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {

std::string ArrayOpName(absl::string_view what, ArrayVersion v) {
  return absl::StrCat("TensorArray", what, v == ArrayVersion::kRef ? "" : absl::StrCat("V", static_cast<int>(v)));
}
std::string ArrayHandle(absl::string_view name, ArrayVersion v) {
  return absl::StrCat(name, v == ArrayVersion::kRef      ? ": Ref(string)"
                            : v == ArrayVersion::kString ? ": string"
                                                         : ": resource");
}

Op ArrayUser(absl::string_view what, ArrayVersion v) {
  Op op(ArrayOpName(what, v));
  op.Input(ArrayHandle("handle", v));
  if (v == ArrayVersion::kResource) op.Stateful();
  return op;
}

Op WithGradient(Op op, ArrayVersion v, GradientFn gradient) {
  if (v == ArrayVersion::kResource) op.Gradient(gradient);
  return op;
}

absl::Status CheckArrayWrite(const TensorArray& array, const Tensor& value) {
  if (value.dtype() == array.dtype()) return absl::OkStatus();
  return InvalidArgument("TensorArray dtype is ", array.dtype(), " but Op is trying to write dtype ", value.dtype(),
                         ".");
}
absl::Status CheckArrayRead(const TensorArray& array, DType dtype) {
  if (dtype == array.dtype()) return absl::OkStatus();
  return InvalidArgument("TensorArray dtype is ", array.dtype(), " but Op requested dtype ", dtype, ".");
}

PartialShape ArrayElementShape(const ShapeContext& c) {
  const Node* const source = HandleSource(c, 0);
  if (source->op() != "TensorArrayV3") return PartialShape();
  absl::StatusOr<PartialShape> shape = GetAttr<PartialShape>(source->def(), "element_shape");
  return shape.ok() ? *std::move(shape) : PartialShape();
}

GradientArray ArrayOfGradients(GradientContext& c, Output flow) {
  // One gradient array per call of Gradients(), identified by its name scope.
  const std::string scope = c.scope().FullName("");
  const std::string source = scope.substr(0, scope.find('/', scope.find("gradients")));
  Node* const node = c.scope().Add("TensorArrayGradV3", {c.input(0), flow}, {{"source", source}});
  if (node == nullptr) return {};
  // Later reads wait for this one.
  const Output ordered = c.scope().WithControlDependencies({node->out(0)}).Add("Identity", {flow});
  return {node->out(0), ordered};
}

}  // namespace thalweg
