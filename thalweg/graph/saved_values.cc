// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/saved_values.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "thalweg/graph/attr.h"

namespace thalweg {
namespace {

class SavedValues {
 public:
  SavedValues(const Scope& s, Loop& forward, Loop& back)
      : scope_(s.WithoutControlDependencies()), forward_(forward), back_(back) {}

  // A value of an iteration of `forward`, as the same iteration of `back` finds it.
  Output Get(const Output& value) {
    Output& saved = saved_[value];
    if (!saved) saved = Save(value);
    return saved;
  }

 private:
  Output Save(const Output& value) {
    Node* const node = value.node;
    if (forward_.IsConstant(node)) return node->input(0);
    if (node->op() == "Const") {
      return scope_.Add(
          "Const", {}, {{"dtype", value.dtype()}, {"value", GetAttr<Tensor>(node->def(), "value").value_or(Tensor())}});
    }
    const Output full = CollectValues(scope_, forward_, value);
    if (!scope_.ok()) return {};
    const int rest = back_.AddVariable(full, Shape(), value);
    if (!scope_.ok()) return {};
    if (!any_) any_ = back_.Constant(Int32Const(scope_, -1));
    Node* const pop = back_.Add("TensorListPopBack", {back_.variables()[rest].value(), any_},
                                {{"element_dtype", value.dtype()}}, value);
    if (pop == nullptr) return {};
    pop->set_output_shape(1, value.shape());
    back_.SetNext(rest, pop->out(0));
    return pop->out(1);
  }

  const Scope scope_;
  Loop& forward_;
  Loop& back_;
  Output any_;  // -1: of any shape
  absl::flat_hash_map<Output, Output> saved_;
};

// Better computed where the value is: it need not live as long.
bool IsOfShapes(const Node& node) {
  return node.op() == "Shape" || node.op() == "ShapeN" || node.op() == "Size" || node.op() == "Rank";
}

}  // namespace

Output CountIterations(const Scope& scope, Loop& loop) {
  const Scope s = scope.WithoutControlDependencies();
  const int count = loop.AddVariable(loop.FromTopLevel(Int32Const(s, 0)), Shape());
  const Output one = loop.Constant(loop.FromTopLevel(Int32Const(s, 1)));
  if (!s.ok()) return {};
  return loop.SetNext(count, loop.Add("AddV2", {loop.variables()[count].value(), one}));
}

Output CollectValues(const Scope& scope, Loop& loop, Output value) {
  const Scope s = scope.WithoutControlDependencies();
  const Output any = Int32Const(s, -1);  // shape, and number
  const Output empty = s.ColocateWith(value).Add("EmptyTensorList", {any, any}, {{"element_dtype", value.dtype()}});
  const int list = loop.AddVariable(loop.FromTopLevel(empty), Shape(), value);
  if (!s.ok()) return {};
  return loop.SetNext(list, loop.Add("TensorListPushBack", {loop.variables()[list].value(), value}, {}, value));
}

void UseSavedValues(const Scope& s, Loop& forward, Loop& back, int first) {
  SavedValues saved(s, forward, back);
  const int end = s.graph().num_nodes();
  for (int id = first; id < end && s.ok(); ++id) {
    Node* const node = s.graph().node(id);
    if (forward.HasAdded(node)) continue;
    const auto varies = [&](const Output& in) { return forward.Contains(in.node) && !forward.IsConstant(in.node); };
    if (IsOfShapes(*node) && std::all_of(node->inputs().begin(), node->inputs().end(), varies)) {
      node->set_control_inputs({});
      forward.Note(node);
      continue;
    }
    for (int i = 0; i < node->num_inputs() && s.ok(); ++i) {
      if (forward.Contains(node->input(i).node)) node->set_input(i, saved.Get(node->input(i)));
    }
  }
}

}  // namespace thalweg
