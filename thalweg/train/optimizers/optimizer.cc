// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/checkpoints/variable_slice.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

Output Hyperparameter::AsTensor(const Scope& s, absl::string_view name, DType dtype) const {
  if (tensor_) return RemoveRef(tensor_.dtype()) == dtype ? tensor_ : Cast(s.WithOpName(name), tensor_, dtype);
  if (dtype == kInvalid) s.Fail(InvalidArgument("'", name, "': the tensor that it is for is missing"));
  if (!s.ok()) return {};
  Tensor tensor;
  s.Fail(Dispatch(FloatTypes(), dtype, [&]<typename T>() {
    tensor = Tensor::Scalar<T>(static_cast<T>(value_));
    return absl::OkStatus();
  }));
  return s.ok() ? Const(s.WithOpName(name), tensor) : Output();
}

Gradient SumRepeatedRows(const Scope& s, const Gradient& gradient) {
  if (!gradient.sparse() || !s.ok()) return gradient;
  Node* const unique = s.Add("Unique", {gradient.indices});
  if (unique == nullptr) return {};
  // The number of different rows.
  const Output count = Size(s, unique->out(0));
  return Gradient(UnsortedSegmentSum(s, gradient.values, unique->out(1), count), unique->out(0), gradient.dense_shape);
}

Output Optimizer::Minimize(const Scope& s, Output loss, const MinimizeOptions& options) {
  const std::vector<GradientAndVar> gradients = ComputeGradients(s, loss, options.var_list);
  return ApplyGradients(s, gradients, {.global_step = options.global_step, .name = options.name});
}

std::vector<GradientAndVar> Optimizer::ComputeGradients(const Scope& s, Output loss, std::vector<Var> var_list) {
  if (!s.ok()) return {};
  if (var_list.empty()) var_list = TrainableVariables(s.graph());
  if (var_list.empty()) {
    s.Fail(InvalidArgument("No variables to optimize."));
    return {};
  }
  // By the variable itself rather than one reading of it: all uses count.
  std::vector<Output> refs;
  for (const Var& v : var_list) refs.push_back(v.ref);
  const std::vector<Gradient> gradients = Gradients(s, {loss}, refs);
  std::vector<GradientAndVar> result;
  for (size_t i = 0; i < var_list.size(); ++i) result.push_back({gradients[i], var_list[i]});
  return result;
}

Output Optimizer::ApplyGradients(const Scope& s, const std::vector<GradientAndVar>& gradients,
                                 const ApplyGradientsOptions& options) {
  if (!s.ok()) return {};
  std::vector<Var> variables;
  for (const GradientAndVar& g : gradients) {
    if (g.gradient) variables.push_back(g.variable);
  }
  if (variables.empty()) {
    s.Fail(
        InvalidArgument("No gradients provided for any variable: the loss depends on none of the ", gradients.size()));
    return {};
  }
  CreateSlots(s.InScope("").WithoutControlDependencies(), variables);
  const std::string name = options.name.empty() ? name_ : options.name;
  // Not reserved: the operation at the end gets the name of the scope.
  const Scope own = s.InScope(s.FullName(name));
  std::vector<Output> updates;
  for (const GradientAndVar& g : gradients) {
    if (!g.gradient || !s.ok()) continue;
    const Scope update = own.SubScope(absl::StrCat("update_", g.variable.name())).ColocateWith(g.variable.ref);
    if (!g.gradient.sparse()) {
      updates.push_back(ApplyDense(update, g.gradient.values, g.variable));
    } else {
      const bool sum = !AllowsRepeatedRows();
      updates.push_back(ApplySparse(update, sum ? SumRepeatedRows(update, g.gradient) : g.gradient, g.variable));
    }
  }
  for (const Output& o : Finish(own, updates)) updates.push_back(o);
  if (!options.global_step) return Group(s.WithOpName(name), updates);
  const Output done = Group(own.WithOpName("update"), updates);
  const Scope last = s.WithOpName(name).ColocateWith(options.global_step.ref).WithControlDependencies({done});
  const Output one = Const(own.WithOpName("value").ColocateWith(options.global_step.ref), int64_t{1});
  return AssignAdd(last, options.global_step.ref, one);
}

Var Optimizer::GetSlot(const Var& variable, absl::string_view slot) const {
  if (!variable) return {};
  const auto it = slots_.find({variable.name(), std::string(slot)});
  return it == slots_.end() ? Var() : it->second;
}

Var Optimizer::MakeSlot(const Scope& s, const Var& variable, absl::string_view slot, const Initializer& initializer) {
  if (!s.ok()) return {};
  Var& made = slots_[{variable.name(), std::string(slot)}];
  if (made) return made;
  const std::optional<Shape> shape = variable.shape().AsShape();
  if (!shape.has_value()) {
    s.Fail(InvalidArgument("optimizer ", name_, ": the shape of variable '", variable.name(),
                           "' is not known: ", variable.shape()));
    return {};
  }
  made = MakeVariable(s.InScope(variable.name()).ColocateWith(variable.ref), name_, *shape,
                      {.initializer = initializer, .dtype = variable.dtype(), .trainable = false});
  CopyVariableSlice(variable, made);
  return made;
}

Var Optimizer::MakeScalar(const Scope& s, absl::string_view name, double initial_value, const Var& beside) {
  if (!s.ok()) return {};
  Var& made = scalars_[std::string(name)];
  if (made) return made;
  made = MakeVariable(s.InScope("").ColocateWith(beside.ref), name, Shape(),
                      {.initializer = initializers::Constant(initial_value), .dtype = kFloat, .trainable = false});
  return made;
}

Var Optimizer::GetScalar(absl::string_view name) const {
  const auto it = scalars_.find(name);
  return it == scalars_.end() ? Var() : it->second;
}

}  // namespace thalweg
