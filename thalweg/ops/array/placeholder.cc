// SPDX-License-Identifier: Apache-2.0
// Placeholders: values that a step is fed with. One that is not fed is an
// error, unless it has a default.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

class PlaceholderKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(shape_, init.Attr<PartialShape>("shape"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    // Omit the shape of a scalar: in old graphs it means "unknown".
    return InvalidArgument("You must feed a value for placeholder tensor '", c.node().name(), "' with dtype ",
                           c.output_type(0), shape_.rank() > 0 ? absl::StrCat(" and shape ", shape_.ToString()) : "");
  }

 private:
  PartialShape shape_;
};

absl::Status WithDefaultShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.Attr<PartialShape>("shape"));
  RETURN_IF_ERROR(PartialShape::Merge(shape, c.input(0)).status());
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status WithDefaultCompute(KernelContext& c) {
  c.set_output(0, c.TakeInput(0));
  return absl::OkStatus();
}

absl::Status WithDefaultGradient(GradientContext& c) {
  c.set_dx(0, c.raw_dy(0));
  return absl::OkStatus();
}

const OpRegistration kPlaceholderOps[] = {
    Op("Placeholder")
        .Output("output: dtype")
        .Attr("dtype: type")
        .Attr("shape: shape = { unknown_rank: true }")
        .Shape(shapes::FromShapeAttr)
        .Kernel<PlaceholderKernel>()
        .NotDifferentiable(),
    Op("PlaceholderV2")
        .Output("output: dtype")
        .Attr("dtype: type")
        .Attr("shape: shape")
        .Shape(shapes::FromShapeAttr)
        .Kernel<PlaceholderKernel>()
        .NotDifferentiable(),
    Op("PlaceholderWithDefault")
        .Input("input: dtype")
        .Output("output: dtype")
        .Attr("dtype: type")
        .Attr("shape: shape")
        .Shape(WithDefaultShape)
        .Compute(WithDefaultCompute)
        .Gradient(WithDefaultGradient),
};

}  // namespace

Output Placeholder(const Scope& s, DType dtype, const PartialShape& shape) {
  return s.Add("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
}
Output Placeholder(const Scope& s, DType dtype, std::initializer_list<int64_t> dims) {
  return Placeholder(s, dtype, PartialShape(Dims(dims)));
}

Output PlaceholderWithDefault(const Scope& s, Output input, const PartialShape& shape) {
  return s.Add("PlaceholderWithDefault", {input}, {{"shape", shape}});
}

}  // namespace thalweg
