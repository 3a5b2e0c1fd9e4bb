// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/variable.h"

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

// `own` is the variable's scope, `s` that of the model: expressions of the value go there.
Var AddOperations(const Scope& s, const Scope& own, Output ref, Output initial_value, const VarOptions& options) {
  Var v;
  v.ref = ref;
  v.initializer = Assign(own.WithOpName("Assign"), ref, initial_value);
  v.read = Identity(own.WithOpName("read"), ref);
  if (!own.ok()) return {};
  s.Adopt(v.read);
  own.graph().AddToCollection(options.local ? kLocalVariables : kGlobalVariables, v.name());
  if (options.trainable && !options.local) own.graph().AddToCollection(kTrainableVariables, v.name());
  return v;
}

std::vector<Var> Collected(const Graph& graph, absl::string_view collection) {
  std::vector<Var> vars;
  for (const std::string& name : graph.Collection(collection)) {
    if (const Var v = GetVariable(graph, name)) vars.push_back(v);
  }
  return vars;
}

}  // namespace

const std::string& Var::name() const {
  static const std::string* const kNone = new std::string;
  return ref ? ref.node->name() : *kNone;
}

Var MakeVariable(const Scope& s, absl::string_view name, const Shape& shape, const VarOptions& options) {
  const Scope outside = s.WithoutControlDependencies();
  const Output ref = RefVariable(outside.WithOpName(name), options.dtype, shape);
  if (!s.ok()) return {};
  const Scope own = outside.InScope(ref.node->name()).ColocateWith(ref);
  return AddOperations(s, own, ref, options.initializer(own.SubScope("Initializer"), shape, options.dtype), options);
}

Var MakeVariable(const Scope& s, absl::string_view name, std::initializer_list<int64_t> dims,
                 const VarOptions& options) {
  return MakeVariable(s, name, Shape(dims), options);
}

Var MakeVariable(const Scope& s, absl::string_view name, Output initial_value, bool trainable) {
  if (!s.ok()) return {};
  if (!initial_value) {
    s.Fail(InvalidArgument("variable '", name, "': the initial value is missing"));
    return {};
  }
  const Scope outside = s.WithoutControlDependencies();
  const Output ref = RefVariable(outside.WithOpName(name), RemoveRef(initial_value.dtype()), initial_value.shape());
  if (!s.ok()) return {};
  return AddOperations(s, outside.InScope(ref.node->name()).ColocateWith(ref), ref, initial_value,
                       {.trainable = trainable});
}

Output Assign(const Scope& s, const Var& var, Output value, const AssignOptions& options) {
  return Assign(s, var.ref, value, options);
}
Output AssignAdd(const Scope& s, const Var& var, Output value, const UpdateOptions& options) {
  return AssignAdd(s, var.ref, value, options);
}
Output AssignSub(const Scope& s, const Var& var, Output value, const UpdateOptions& options) {
  return AssignSub(s, var.ref, value, options);
}
Output ScatterUpdate(const Scope& s, const Var& var, Output indices, Output updates, const AssignOptions& options) {
  return ScatterUpdate(s, var.ref, indices, updates, options);
}
Output ScatterAdd(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options) {
  return ScatterAdd(s, var.ref, indices, updates, options);
}
Output ScatterSub(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options) {
  return ScatterSub(s, var.ref, indices, updates, options);
}
Output ScatterMul(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options) {
  return ScatterMul(s, var.ref, indices, updates, options);
}
Output ScatterDiv(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options) {
  return ScatterDiv(s, var.ref, indices, updates, options);
}
Output ScatterMin(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options) {
  return ScatterMin(s, var.ref, indices, updates, options);
}
Output ScatterMax(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options) {
  return ScatterMax(s, var.ref, indices, updates, options);
}
Output CountUpTo(const Scope& s, const Var& var, int64_t limit) { return CountUpTo(s, var.ref, limit); }
Output IsVariableInitialized(const Scope& s, const Var& var) { return IsVariableInitialized(s, var.ref); }

Var GetVariable(const Graph& graph, absl::string_view name) {
  Node* const ref = graph.FindNode(name);
  Node* const read = graph.FindNode(absl::StrCat(name, "/read"));
  Node* const assign = graph.FindNode(absl::StrCat(name, "/Assign"));
  if (ref == nullptr || read == nullptr || assign == nullptr) return {};
  return {Output(ref), Output(read), Output(assign)};
}

std::vector<Var> GlobalVariables(const Graph& graph) { return Collected(graph, kGlobalVariables); }
std::vector<Var> TrainableVariables(const Graph& graph) { return Collected(graph, kTrainableVariables); }
std::vector<Var> LocalVariables(const Graph& graph) { return Collected(graph, kLocalVariables); }

Output InitializeVariables(const Scope& s) {
  std::vector<Output> initializers;
  for (const Var& v : GlobalVariables(s.graph())) initializers.push_back(v.initializer);
  return Group(s.WithOpName("init"), initializers);
}

Var GetGlobalStep(const Graph& graph) {
  const std::vector<Var> steps = Collected(graph, kGlobalStep);
  return steps.empty() ? Var() : steps[0];
}

Var GetOrCreateGlobalStep(const Scope& s) {
  if (const Var step = GetGlobalStep(s.graph())) return step;
  const Var step = MakeVariable(s.InScope(""), "global_step", Shape(),
                                {.initializer = initializers::Zeros(), .dtype = kInt64, .trainable = false});
  if (step) s.graph().AddToCollection(kGlobalStep, step.name());
  return step;
}

}  // namespace thalweg
