// SPDX-License-Identifier: Apache-2.0
// Stacks of tensors, which live as long as the step: what the gradient of a loop
// needs from its iterations is pushed on the way forward and popped on the way
// back.
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

// Thread-safe.
class Stack final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow5StackE";

  Stack(std::string name, DType dtype, int64_t max_size)
      : strings(name, kString, PartialShape({2})), name_(std::move(name)), dtype_(dtype), max_size_(max_size) {}

  absl::Status Push(Tensor value) {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckOpen());
    if (value.dtype() != dtype_) return InvalidArgument("Must have type ", dtype_, " but got ", value.dtype());
    if (static_cast<int64_t>(values_.size()) >= max_size_) {
      return InvalidArgument("Stack[", name_, "] overflowed its max_size (", max_size_, ")");
    }
    values_.push_back(std::move(value));
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> Pop() {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckOpen());
    if (values_.empty()) return InvalidArgument("Stack[", name_, "] is empty when calling Pop().");
    Tensor value = std::move(values_.back());
    values_.pop_back();
    return value;
  }

  void Close() {
    std::vector<Tensor> values;  // die after the lock
    MutexLock lock(&mutex_);
    closed_ = true;
    values_.swap(values);
  }

  std::string Describe() const override { return absl::StrCat("a stack of ", ToString(dtype_)); }

  Variable strings;  // its handle, for ref edges

 private:
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ ? InvalidArgument("Stack[", name_, "] has already been closed.") : absl::OkStatus();
  }

  const std::string name_;
  const DType dtype_;
  const int64_t max_size_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Tensor> values_ ABSL_GUARDED_BY(mutex_);
};

class StackKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(dtype_, init.Attr<DType>("elem_type"));
    ASSIGN_OR_RETURN(name_, init.Attr<std::string>("stack_name"));
    if (name_.empty()) name_ = init.node().name();
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    int64_t max_size = std::numeric_limits<int32_t>::max();
    if (c.num_inputs() > 0) {
      const Tensor& size = c.input(0);
      if (!size.shape().is_scalar()) {
        return InvalidArgument("Stack size must be a scalar, but had shape: ", size.shape());
      }
      if (size.scalar<int32_t>() >= 0) max_size = size.scalar<int32_t>();
    }
    if (c.step().resources == nullptr) return Internal("No step container.");
    const ResourceName name{"_stacks", absl::StrCat(name_, "_", NextResourceNumber())};
    const auto stack = std::make_shared<Stack>(name.name, dtype_, max_size);
    RETURN_IF_ERROR(c.step().resources->Create<Stack>(name.container, name.name, stack));
    SetStepHandle(c, name, Stack::kTypeName, &stack->strings);
    return absl::OkStatus();
  }

 private:
  DType dtype_ = kInvalid;
  std::string name_;
};

absl::Status Push(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Stack> stack, FindStepResource<Stack>(c, 0));
  RETURN_IF_ERROR(stack->Push(c.input(1)));
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

absl::Status Pop(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Stack> stack, FindStepResource<Stack>(c, 0));
  ASSIGN_OR_RETURN(Tensor value, stack->Pop());
  if (value.dtype() != c.output_type(0)) {
    return InvalidArgument("Must have type ", c.output_type(0), " but got ", value.dtype());
  }
  c.set_output(0, std::move(value));
  return absl::OkStatus();
}

absl::Status CloseStack(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Stack> stack, FindStepResource<Stack>(c, 0));
  stack->Close();
  return absl::OkStatus();
}

absl::Status PushShape(ShapeContext& c) {
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

Op Form(absl::string_view name) { return HandleUser(name, "handle", absl::EndsWith(name, "V2")); }

Op PushOp(absl::string_view name) {
  return Form(name)
      .Input("elem: T")
      .Output("output: T")
      .Attr("T: type")
      .Attr("swap_memory: bool = false")
      .Shape(PushShape)
      .Compute(Push);
}
Op PopOp(absl::string_view name) {
  return Form(name).Output("elem: elem_type").Attr("elem_type: type").Shape(shapes::Unknown).Compute(Pop);
}
Op CloseOp(absl::string_view name) { return Form(name).Shape(shapes::NoOutputs).Compute(CloseStack); }

const OpRegistration kStackOps[] = {
    Op("Stack")
        .Output("handle: Ref(string)")
        .Attr("elem_type: type")
        .Attr("stack_name: string = ''")
        .Stateful()
        .Shape(HandleShape)
        .Kernel<StackKernel>()
        .NotDifferentiable(),
    Op("StackV2")
        .Input("max_size: int32")
        .Output("handle: resource")
        .Attr("elem_type: type")
        .Attr("stack_name: string = ''")
        .Stateful()
        .Shape(HandleShape)
        .Kernel<StackKernel>()
        .NotDifferentiable(),
    PushOp("StackPush"),
    PushOp("StackPushV2"),
    PopOp("StackPop"),
    PopOp("StackPopV2"),
    CloseOp("StackClose"),
    CloseOp("StackCloseV2"),
};

}  // namespace

Output StackOf(const Scope& s, const IntArg& max_size, DType dtype) {
  return s.Add("StackV2", {max_size.AsTensor(s, "max_size")}, {{"elem_type", dtype}});
}
Output StackPush(const Scope& s, Output stack, Output value) { return s.Add("StackPushV2", {stack, value}); }
Output StackPop(const Scope& s, Output stack, DType dtype) {
  return s.Add("StackPopV2", {stack}, {{"elem_type", dtype}});
}
Output StackClose(const Scope& s, Output stack) { return s.Add("StackCloseV2", {stack}); }

}  // namespace thalweg
