// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/strip.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"

namespace thalweg {
namespace {

void SetShapes(Node* node, const PartialShape& shape, int outputs) {
  for (int i = 0; i < outputs; ++i) node->set_output_shape(i, shape);
}

bool AnyInput(const Node& node, const absl::flat_hash_set<const Node*>& from) {
  return std::any_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Output& in) { return from.contains(in.node); }) ||
         std::any_of(node.control_inputs().begin(), node.control_inputs().end(),
                     [&](const Node* n) { return from.contains(n); });
}

}  // namespace

Loop::Loop(const Scope& s)
    : outside_(s), scope_(s.WithoutControlDependencies()), frame_(absl::StripSuffix(s.FullName(""), "/")) {}

absl::StatusOr<Loop> Loop::Find(const Scope& s, const Frames& frames, int frame, Loop* parent) {
  Loop loop(s.WithoutControlDependencies());
  loop.frame_ = frames.frames[frame].name;
  loop.parent_ = parent;
  const auto unlike = [&](const auto&... what) { return Unimplemented("loop '", loop.frame_, "': ", what...); };
  absl::flat_hash_map<const Node*, Node*> merges, branches, exits;  // by what they take
  for (int id = 0; id < static_cast<int>(frames.of_node.size()); ++id) {
    Node* const node = s.graph().node(id);
    if (frames.of_outputs[id] == frame) loop.inside_.insert(node);
    if (frames.of_node[id] != frame) continue;
    if (IsExit(*node)) exits[node->input(0).node] = node;
    if (node->op() == "LoopCond") loop.condition_ = Output(node);
    if (IsMerge(*node) && IsEnter(*node->input(0).node)) merges[node->input(0).node] = node;
    if (!IsSwitch(*node)) continue;
    // The values of a branch that was not taken cannot be saved for the gradient.
    if (node->input(1).node->op() != "LoopCond") return unlike("a conditional ('", node->name(), "') in a loop");
    branches[node->input(0).node] = node;
  }
  for (Node* const enter : frames.frames[frame].enters) {
    if (GetAttr<bool>(enter->def(), "is_constant").value_or(false)) {
      loop.constants_.push_back(enter);
      continue;
    }
    Variable v{.start = enter->input(0), .merge = merges[enter]};
    if (v.merge != nullptr) v.branch = branches[v.merge];
    if (v.branch == nullptr || !IsNextIteration(*v.merge->input(1).node)) {
      return unlike("the value that enters at '", enter->name(), "' does not reach a NextIteration");
    }
    v.next = v.merge->input(1).node->input(0);
    v.end = exits.contains(v.branch) ? exits[v.branch] : loop.Add("Exit", {Output(v.branch, 0)});
    loop.variables_.push_back(v);
  }
  if (!loop.condition_) return unlike("there is no LoopCond");
  return loop;
}

bool Loop::IsConstant(const Node* node) const {
  return std::find(constants_.begin(), constants_.end(), node) != constants_.end();
}

Scope Loop::condition_scope() const {
  return variables_.empty() ? scope_ : scope_.WithControlDependencies({Output(variables_[0].merge)});
}
Scope Loop::body_scope() const { return scope_.WithControlDependencies({Output(pivot_)}); }

void Loop::NoteAdded(const Node* node) {
  for (Loop* loop = this; loop != nullptr; loop = loop->parent_) loop->added_.insert(node);
}

void Loop::Note(const Node* node) {
  if (node == nullptr) return;
  NoteAdded(node);
  inside_.insert(node);
}

Node* Loop::Add(absl::string_view op, std::vector<OpInput> inputs, std::vector<AttrArg> attrs, Output near) {
  Node* const node = scope_.ColocateWith(near).Add(op, std::move(inputs), std::move(attrs));
  if (node == nullptr) return nullptr;
  if (!IsExit(*node)) {
    Note(node);
    if (AnyInput(*node, in_body_)) in_body_.insert(node);
  } else {
    NoteAdded(node);
    if (parent_ != nullptr) parent_->inside_.insert(node);
  }
  return node;
}

Output Loop::Constant(Output outside, bool as_ref) {
  if (!outside || Contains(outside.node)) return outside;
  Output& inside = constant_of_[{outside, as_ref}];
  if (inside) return inside;
  Node* const enter =
      outside_.Add(as_ref ? "RefEnter" : "Enter", {outside}, {{"frame_name", frame_}, {"is_constant", true}});
  if (enter == nullptr) return {};
  Note(enter);
  constants_.push_back(enter);
  return inside = Output(enter);
}

Output Loop::FromTopLevel(Output value) {
  return parent_ == nullptr ? value : parent_->Constant(parent_->FromTopLevel(value));
}

int Loop::AddVariable(Output start, const PartialShape& shape, Output near) {
  Variable v{.start = start, .near = near};
  Node* const enter = outside_.ColocateWith(near).Add("Enter", {start}, {{"frame_name", frame_}});
  if (enter != nullptr) {
    Note(enter);
    enter->set_output_shape(0, shape);
    // The second input is the next iteration's, once there is one.
    v.merge = Add("Merge", {std::vector<Output>{enter, enter}}, {}, near);
  }
  if (v.merge != nullptr) SetShapes(v.merge, shape, 1);
  if (condition_) Branch(v);
  variables_.push_back(v);
  return static_cast<int>(variables_.size()) - 1;
}

void Loop::Branch(Variable& v) {
  if (v.merge == nullptr) return;
  v.branch = Add("Switch", {Output(v.merge), condition_}, {}, v.near);
  if (v.branch == nullptr) return;
  SetShapes(v.branch, v.merge->output_shape(0), 2);
  in_body_.insert(v.branch);
}

void Loop::SetCondition(Output go_on) {
  condition_ = Add("LoopCond", {Constant(go_on)});
  for (Variable& v : variables_) Branch(v);
  if (scope_.ok()) pivot_ = Add("Identity", {variables_[0].value()});
}

Output Loop::SetNext(int variable, Output next) {
  Variable& v = variables_[variable];
  if (!scope_.ok()) return {};
  // A value that is not dead after the last iteration would start iterations forever.
  if (pivot_ != nullptr && !in_body_.contains(next.node)) {
    Node* const guarded = body_scope().Add("Identity", {Constant(next)});
    Note(guarded);
    next = guarded;
  }
  v.next = next;
  Node* const back = Add("NextIteration", {next}, {}, v.near);
  if (back != nullptr) v.merge->set_input(1, back);
  v.end = Add("Exit", {Output(v.branch, 0)}, {}, v.near);
  return v.end;
}

void Loop::Adopt(int first) {
  const Node* const pivot = condition_ ? pivot_ : variables_[0].merge;
  std::vector<Node*> left, taken;
  for (int id = first; id < scope_.graph().num_nodes(); ++id) {
    Node* const node = scope_.graph().node(id);
    if (node->op() == "Const" && std::all_of(node->control_inputs().begin(), node->control_inputs().end(),
                                             [&](const Node* n) { return n == pivot; })) {
      node->set_control_inputs({});
    } else {
      left.push_back(node);
    }
  }
  // Repeats until nothing changes: what leads into a loop in this one is younger
  // than its users.
  for (size_t before = 0; before != left.size();) {
    before = left.size();
    std::erase_if(left, [&](Node* node) {
      if (!AnyInput(*node, inside_)) return false;
      inside_.insert(node);
      if (condition_) in_body_.insert(node);
      taken.push_back(node);
      return true;
    });
  }
  for (Node* const node : taken) Capture(node, pivot);
}

void Loop::Capture(Node* node, const Node* pivot) {
  std::vector<Node*> controls = node->control_inputs();
  std::erase(controls, pivot);
  const std::vector<Node*> all = node->control_inputs();
  // If an input is dead after the last iteration, the node needs no other control input.
  node->set_control_inputs(std::move(controls));
  if (!condition_ || !AnyInput(*node, in_body_)) node->set_control_inputs(all);
  for (int i = 0; i < node->num_inputs(); ++i) {
    node->set_input(i, Constant(node->input(i), IsRef(node->input_type(i))));
  }
  for (const Node* control : node->control_inputs()) {
    if (Contains(control)) continue;
    scope_.Fail(InvalidArgument("loop '", frame_, "': '", node->name(), "' in it waits for '", control->name(),
                                "' outside; add that control dependency to the initial values of the loop instead"));
  }
}

Output Int32Const(const Scope& s, int32_t value) {
  return s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(value)}});
}

}  // namespace thalweg
