// SPDX-License-Identifier: Apache-2.0
// Variables that ref edges carry, as TensorFlow 1 has them: Variable(V2), and
// TemporaryVariable, which lives as long as a step; what is known of one
// (IsVariableInitialized); and CountUpTo, which counts in one.
#include <algorithm>
#include <limits>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

// The variable is found once, when the kernel is made, under the container and
// the shared name or, without one, the name of the node.
class VariableKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const DType dtype, init.Attr<DType>("dtype"));
    ASSIGN_OR_RETURN(const PartialShape shape, init.Attr<PartialShape>("shape"));
    ASSIGN_OR_RETURN(const std::string container, init.Attr<std::string>("container"));
    ASSIGN_OR_RETURN(std::string name, init.Attr<std::string>("shared_name"));
    if (name.empty()) name = init.node().name();
    ASSIGN_OR_RETURN(variable_, init.device().resources().FindOrCreate<Variable>(
                                    container, name, [&]() -> absl::StatusOr<std::shared_ptr<Variable>> {
                                      return std::make_shared<Variable>(init.node().name(), dtype, shape);
                                    }));
    if (variable_->dtype() != dtype) {
      return InvalidArgument("variable '", name, "' is of type ", variable_->dtype(), ", but the node says ", dtype);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    context.set_variable(0, variable_.get());
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<Variable> variable_;
};

// Where a step keeps its temporary variables.
constexpr char kTemporaries[] = "temporary_variables";

// One fresh variable per call, kept by the step until it is destroyed.
class TemporaryVariableKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(dtype_, init.Attr<DType>("dtype"));
    ASSIGN_OR_RETURN(shape_, init.Attr<PartialShape>("shape"));
    ASSIGN_OR_RETURN(name_, init.Attr<std::string>("var_name"));
    if (name_.empty()) name_ = init.node().name();
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    auto variable = std::make_shared<Variable>(name_, dtype_, shape_);
    if (const std::optional<Shape> shape = shape_.AsShape()) {
      // TensorFlow gives memory at once, with any contents: reading is not an error.
      ASSIGN_OR_RETURN(Tensor value, context.AllocateTemporary(dtype_, *shape));
      variable->Assign(std::move(value));
    }
    RETURN_IF_ERROR(context.step().resources->Create<Variable>(kTemporaries, name_, variable));
    context.set_variable(0, variable.get());
    return absl::OkStatus();
  }

 private:
  DType dtype_ = kInvalid;
  PartialShape shape_;
  std::string name_;
};

class DestroyTemporaryVariableKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(name_, init.Attr<std::string>("var_name"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    RETURN_IF_ERROR(CheckInitialized(context.variable(0), context.variable(0).Read()));
    Tensor value = context.variable(0).Read();
    RETURN_IF_ERROR(context.step().resources->Delete<Variable>(kTemporaries, name_));
    context.set_output(0, std::move(value));
    return absl::OkStatus();
  }

 private:
  std::string name_;
};

absl::Status IsInitialized(KernelContext& context) {
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape()));
  *out->mutable_data<bool>() = context.variable(0).initialized();
  return absl::OkStatus();
}

// The value before, and one more is stored; OUT_OF_RANGE at the limit.
class CountUpToKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(limit_, init.Attr<int64_t>("limit"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const HeldVariable variable, FindVariable(context, 0));
    return variable->Update([&](Tensor& value) -> absl::Status {
      RETURN_IF_ERROR(CheckInitialized(*variable, value));
      if (!value.shape().is_scalar()) return InvalidArgument("input is not a scalar: ", value.shape());
      if (value.dtype() != context.output_type(0)) {
        return InvalidArgument("variable is of type ", value.dtype(), ", expected ", context.output_type(0));
      }
      return Dispatch(IndexTypes(), value.dtype(), [&]<typename T>() -> absl::Status {
        const T before = value.scalar<T>();
        const int64_t limit = std::min<int64_t>(limit_, std::numeric_limits<T>::max());
        if (before >= limit) return OutOfRange("Reached limit of ", limit);
        ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape()));
        *out->mutable_data<T>() = before;
        RETURN_IF_ERROR(MakeWritable(value));
        *value.mutable_data<T>() = before + 1;
        return absl::OkStatus();
      });
    });
  }

 private:
  int64_t limit_ = 0;
};

// A shape attr of unknown rank says nothing of the variable. The old Variable
// op has no way to say so, and its scalars are unknown shapes.
absl::Status VariableShapeFn(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.Attr<PartialShape>("shape"));
  if (c.node().op() == "Variable" && shape.rank() == 0) shape = PartialShape();
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status CountUpToShape(ShapeContext& c) {
  const PartialShape shape = VariableShapeOf(c, 0);
  if (shape.has_rank() && shape.rank() != 0) return InvalidArgument("Shape must be rank 0 but is rank ", shape.rank());
  c.set_output(0, PartialShape(Shape()));
  return absl::OkStatus();
}

Op VariableOp(absl::string_view name) {
  return Op(name)
      .Output("ref: Ref(dtype)")
      .Attr("shape: shape")
      .Attr("dtype: type")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Stateful()
      .Shape(VariableShapeFn)
      .Kernel<VariableKernel>()
      .NotDifferentiable();
}

const OpRegistration kRefVariableOps[] = {
    VariableOp("Variable"),
    VariableOp("VariableV2"),
    Op("TemporaryVariable")
        .Output("ref: Ref(dtype)")
        .Attr("shape: shape")
        .Attr("dtype: type")
        .Attr("var_name: string = ''")
        .Stateful()
        .Shape(shapes::FromShapeAttr)
        .Kernel<TemporaryVariableKernel>()
        .NotDifferentiable(),
    Op("DestroyTemporaryVariable")
        .Input("ref: Ref(T)")
        .Output("value: T")
        .Attr("T: type")
        .Attr("var_name: string")
        .Shape(shapes::LikeInput0)
        .Kernel<DestroyTemporaryVariableKernel>()
        .NotDifferentiable(),
    Op("IsVariableInitialized")
        .Input("ref: Ref(dtype)")
        .Output("is_initialized: bool")
        .Attr("dtype: type")
        .AllowsUninitializedInput()
        .Shape(shapes::Scalar)
        .Compute(IsInitialized)
        .NotDifferentiable(),
    Op("CountUpTo")
        .Input("ref: Ref(T)")
        .Output("output: T")
        .Attr("limit: int")
        .Attr("T: {int32, int64}")
        .Shape(CountUpToShape)
        .Kernel<CountUpToKernel>()
        .NotDifferentiable(),
    Op("ResourceCountUpTo")
        .Input("resource: resource")
        .Output("output: T")
        .Attr("limit: int")
        .Attr("T: {int32, int64}")
        .Stateful()
        .Shape(CountUpToShape)
        .Kernel<CountUpToKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output RefVariable(const Scope& s, DType dtype, const PartialShape& shape, const VariableOptions& options) {
  return s.Add(
      "VariableV2", {},
      {{"shape", shape}, {"dtype", dtype}, {"container", options.container}, {"shared_name", options.shared_name}});
}

Output IsVariableInitialized(const Scope& s, Output ref) {
  return s.Add(ref.node != nullptr && ref.dtype() == kResource ? "VarIsInitializedOp" : "IsVariableInitialized", {ref});
}

Output TemporaryVariable(const Scope& s, DType dtype, const PartialShape& shape, absl::string_view var_name) {
  return s.Add("TemporaryVariable", {}, {{"shape", shape}, {"dtype", dtype}, {"var_name", var_name}});
}

Output DestroyTemporaryVariable(const Scope& s, Output ref, absl::string_view var_name) {
  return s.Add("DestroyTemporaryVariable", {ref}, {{"var_name", var_name}});
}

Output CountUpTo(const Scope& s, Output ref, int64_t limit) {
  if (ref.node != nullptr && ref.dtype() == kResource) {
    DType dtype = kInt32;
    if (absl::StatusOr<DType> declared = GetAttr<DType>(ref.node->def(), "dtype"); declared.ok()) dtype = *declared;
    return s.Add("ResourceCountUpTo", {ref}, {{"limit", limit}, {"T", dtype}});
  }
  return s.Add("CountUpTo", {ref}, {{"limit", limit}});
}

}  // namespace thalweg
