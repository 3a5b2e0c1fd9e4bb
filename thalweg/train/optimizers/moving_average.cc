// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/optimizers/moving_average.h"

#include <set>

#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/checkpoints/variable_slice.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {
namespace {

std::string KeyOf(const Output& o) { return o.index == 0 ? o.node->name() : o.name(); }

}  // namespace

Output ExponentialMovingAverage::Apply(const Scope& s, std::vector<Var> variables) {
  if (variables.empty()) variables = TrainableVariables(s.graph());
  std::vector<Averaged> all;
  for (const Var& v : variables) {
    if (!s.ok()) return {};
    Var& average = averages_[v.name()];
    if (!average) {
      // The second input of the operation that initializes the variable. The
      // average may be initialized before the variable is.
      average =
          MakeVariable(s.InScope(v.name()).ColocateWith(v.ref), options_.name, v.initializer.node->input(1), false);
      CopyVariableSlice(v, average);
    }
    // Reads the variable again, to see the updates of this step.
    all.push_back({average, Identity(s.ColocateWith(v.ref), v.ref)});
  }
  return Updates(s, all);
}

Output ExponentialMovingAverage::ApplyToTensors(const Scope& s, const std::vector<Output>& tensors) {
  std::vector<Averaged> all;
  for (const Output& t : tensors) {
    if (!s.ok()) return {};
    const std::optional<Shape> shape = t.shape().AsShape();
    if (!shape.has_value()) {
      s.Fail(InvalidArgument("ExponentialMovingAverage: the shape of '", t.name(), "' is not known: ", t.shape()));
      return {};
    }
    Var& average = averages_[KeyOf(t)];
    if (!average) {
      average = MakeVariable(s.InScope(t.node->name()), options_.name, *shape,
                             {.initializer = initializers::Zeros(), .dtype = RemoveRef(t.dtype()), .trainable = false});
    }
    all.push_back({average, t, options_.zero_debias});
  }
  return Updates(s, all);
}

Output ExponentialMovingAverage::Updates(const Scope& s, const std::vector<Averaged>& all) {
  if (!s.ok()) return {};
  const Scope own = s.InScope(s.FullName(options_.name));
  const Output decay = Const(own.WithOpName("decay"), static_cast<float>(decay_));
  Output used = decay;
  if (options_.num_updates) {
    const Output n = Cast(own, options_.num_updates, kFloat);
    used = Minimum(own, decay, RealDiv(own, Add(own, Const(own, 1.0f), n), Add(own, Const(own, 10.0f), n)));
  }
  const Output rate = Sub(own, Const(own, 1.0f), used);
  std::vector<Output> updates;
  for (const Averaged& one : all) updates.push_back(Update(own.SubScope("AssignMovingAvg"), one, rate));
  return Group(s.WithOpName(options_.name), updates);
}

Output ExponentialMovingAverage::Update(const Scope& scope, const Averaged& one, Output rate) {
  if (!scope.ok()) return {};
  const Scope s = scope.ColocateWith(one.average.ref);
  const DType dtype = one.average.dtype();
  rate = dtype == kFloat ? rate : Cast(s, rate, dtype);
  if (!one.zero_debias) {
    return AssignSub(s, one.average.ref, Mul(s, Sub(s, one.average, one.value), rate));
  }
  // The plain average, and how many values it has seen, beside what it stands for.
  const Scope beside = s.InScope(one.average.name());
  const VarOptions zeros{.initializer = initializers::Zeros(), .dtype = dtype, .trainable = false};
  const Var biased = MakeVariable(beside, "biased", *one.average.shape().AsShape(), zeros);
  const Var count = MakeVariable(beside, "local_step", Shape(), zeros);
  const Output one_more = Hyperparameter(1.0).AsTensor(s, "one", dtype);
  const Output new_biased = AssignSub(s, biased.ref, Mul(s, Sub(s, biased, one.value), rate));
  const Output new_count = AssignAdd(s, count.ref, one_more);
  const Output factor = Sub(s, one_more, Pow(s, Sub(s, one_more, rate), new_count));
  return Assign(s, one.average.ref, RealDiv(s, new_biased, factor));
}

Var ExponentialMovingAverage::Average(Output of) const {
  if (!of) return {};
  const auto it = averages_.find(KeyOf(of));
  if (it != averages_.end()) return it->second;
  // A reading of a variable.
  return of.node->op() == "Identity" ? Average(of.node->input(0)) : Var();
}

std::multimap<std::string, Var> ExponentialMovingAverage::VariablesToRestore(const Graph& graph) const {
  std::multimap<std::string, Var> result;
  std::set<std::string> trained;
  for (const Var& v : TrainableVariables(graph)) {
    trained.insert(v.name());
    result.emplace(SavedName(v) + "/" + options_.name, v);
  }
  for (const Var& v : GlobalVariables(graph)) {
    const std::string name = SavedName(v);
    const auto average = result.find(name);
    const bool is_average = average != result.end() && trained.count(average->second.name()) != 0;
    if (trained.count(v.name()) == 0 && !is_average) result.emplace(name, v);
  }
  return result;
}

}  // namespace thalweg
