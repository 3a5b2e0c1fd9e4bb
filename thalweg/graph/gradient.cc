// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/gradient.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/frames.h"
#include "thalweg/graph/gradient_context.h"
#include "thalweg/graph/loop.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/graph/saved_values.h"

namespace thalweg {
namespace {

bool CarriesGradient(DType t) {
  t = RemoveRef(t);
  // The output of an unknown op (kInvalid) may be differentiable.
  return IsFloating(t) || IsComplex(t) || t == kResource || t == kVariant || t == kInvalid;
}

// If several time steps share weights, the gradient from each time step is a product A_i' * B_i
// of few rows. The sum of these is one product over all rows, which is faster than the
// separate products and their addition.
bool IsProductOfRows(const Gradient& g) {
  if (!g || g.sparse() || g.values.node->op() != "MatMul") return false;
  const auto& def = g.values.node->def();
  return GetAttr<bool>(def, "transpose_a").value_or(false) && !GetAttr<bool>(def, "transpose_b").value_or(true);
}

// Returns null if `parts` are not such products, or are not on one device: the factors, which
// are larger than the products, would have to be transferred.
Output SumOfProducts(const Scope& s, const std::vector<Gradient>& parts) {
  std::vector<Output> a, b;
  for (const Gradient& g : parts) {
    if (!IsProductOfRows(g) || g.values.node->device() != parts[0].values.node->device()) return {};
    a.push_back(g.values.node->input(0));
    b.push_back(g.values.node->input(1));
  }
  const Output axis = Int32Const(s, 0);
  return s.Add("MatMul", {Output(s.Add("ConcatV2", {a, axis})), Output(s.Add("ConcatV2", {b, axis}))},
               {{"transpose_a", true}});
}

// The sum of what `term` is in each iteration; it has the shape of `like`.
Output SumOfIterations(const Scope& s, Loop& loop, Output term, Output like) {
  if (!IsProductOfRows(term) || !term.shape().fully_known()) {
    const int sum = loop.AddVariable(s.Add("ZerosLike", {like}), like.shape(), term);
    if (!s.ok()) return {};
    const std::vector<Output> both = {loop.variables()[sum].value(), loop.Constant(term)};
    return loop.SetNext(sum, loop.Add("AddN", {both}, {}, term));
  }
  Output rows[2];
  for (int i = 0; i < 2 && s.ok(); ++i) {
    const Output part = term.node->input(i);
    const Tensor shape = Tensor::Vector<int32_t>({-1, static_cast<int32_t>(term.shape().dim(i))});
    const Output element_shape = s.Add("Const", {}, {{"dtype", kInt32}, {"value", shape}});
    const Output no_sizes = s.Add("Const", {}, {{"dtype", kInt64}, {"value", Tensor(kInt64, Shape({0}))}});
    rows[i] = s.ColocateWith(part).Add("TensorListConcatV2", {CollectValues(s, loop, part), element_shape, no_sizes},
                                       {{"element_dtype", part.dtype()}});
  }
  return s.ColocateWith(term).Add("MatMul", {rows[0], rows[1]}, {{"transpose_a", true}});
}

// Sums what several consumers contributed to one tensor.
Gradient Sum(const Scope& s, const std::vector<Gradient>& parts) {
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts[0];
  if (std::all_of(parts.begin(), parts.end(), [](const Gradient& g) { return g.sparse(); })) {
    std::vector<Output> values, indices;
    const DType type = parts[0].indices.dtype();
    const bool alike =
        std::all_of(parts.begin(), parts.end(), [&](const Gradient& g) { return g.indices.dtype() == type; });
    for (const Gradient& g : parts) {
      values.push_back(g.values);
      // A table may be read by int32 here and by int64 there.
      const bool narrow = !alike && g.indices.dtype() != kInt64;
      indices.push_back(narrow ? Output(s.Add("Cast", {g.indices}, {{"DstT", kInt64}})) : g.indices);
    }
    const Output axis = Int32Const(s, 0);
    return Gradient(s.Add("ConcatV2", {values, axis}), s.Add("ConcatV2", {indices, axis}), parts[0].dense_shape);
  }
  if (const Output product = SumOfProducts(s, parts)) return product;
  std::vector<Output> dense;
  for (const Gradient& g : parts) dense.push_back(ToDense(s, g));
  return Output(s.Add("AddN", {dense}));
}

// The last part of a name.
absl::string_view Leaf(absl::string_view name) { return name.substr(name.rfind('/') + 1); }

// Walks the graph backwards from the ys, over the nodes that lie between them
// and the xs. A node is done when every consumer between has been: then its
// outputs' derivatives are summed and its gradient function is called.
//
// A loop is one *unit* in this, as every other node is. Its gradient is a loop
// that makes as many iterations, each of which walks over the body.
class Backward {
 public:
  // Over the nodes of one frame: the top level, or the body of `loop`, in which
  // xs are what it begins with. All is borrowed.
  Backward(const Scope& s, const std::vector<Output>& ys, const std::vector<Output>& xs, const Frames& frames,
           int frame = 0, Loop* loop = nullptr)
      : scope_(s), ys_(ys), xs_(xs), frames_(frames), frame_(frame), loop_(loop) {}

  std::vector<Gradient> Run(const std::vector<Output>& grad_ys) {
    FindUnits();
    FindBetween();
    for (size_t i = 0; i < ys_.size(); ++i) {
      const Output y = ys_[i];
      Output seed = i < grad_ys.size() ? grad_ys[i] : Output();
      if (!seed) seed = scope_.Add("OnesLike", {y});
      if (!scope_.ok()) return std::vector<Gradient>(xs_.size());
      contributions_[y].push_back(seed);
    }
    std::vector<int> ready;
    for (int id = static_cast<int>(unit_.size()) - 1; id >= 0; --id) {
      if (between_[id] && pending_[unit_[id]] == 0) {
        pending_[unit_[id]] = -1;  // once, for all nodes of a loop
        ready.push_back(unit_[id]);
      }
    }
    while (!ready.empty() && scope_.ok()) {
      const int unit = ready.back();
      ready.pop_back();
      if (const auto loop = loops_.find(unit); loop != loops_.end()) {
        VisitLoop(loop->second.frame);
        for (const Node* node : loop->second.nodes) Leave(node, &ready);
      } else {
        Node* const node = scope_.graph().node(unit);
        Visit(node);
        Leave(node, &ready);
      }
    }
    std::vector<Gradient> result;
    for (const Output& x : xs_) result.push_back(Total(x));
    if (!scope_.ok()) result.assign(xs_.size(), Gradient());
    return result;
  }

 private:
  struct LoopUnit {
    int frame = 0;
    std::vector<Node*> nodes;
  };

  // Considers the original nodes only; operations added by the gradient have later ids.
  void FindUnits() {
    const int count = static_cast<int>(frames_.of_node.size());
    unit_.assign(count, -1);
    std::vector<int> unit_of_loop(frames_.frames.size(), -1);
    for (int id = 0; id < count; ++id) {
      Node* const node = scope_.graph().node(id);
      int inner = IsEnter(*node) ? frames_.of_outputs[id] : frames_.of_node[id];
      if (inner == frame_) {
        // The control flow nodes of the loop are not part of its body.
        if (frame_ == 0 || !IsControlFlow(*node)) unit_[id] = id;
        continue;
      }
      while (inner != 0 && frames_.frames[inner].parent != frame_) inner = frames_.frames[inner].parent;
      if (inner == 0) continue;  // not in this frame
      int& unit = unit_of_loop[inner];
      if (unit == -1) {
        unit = id;
        loops_[unit].frame = inner;
      }
      unit_[id] = unit;
      loops_[unit].nodes.push_back(node);
    }
  }

  void FindBetween() {
    const int count = static_cast<int>(unit_.size());
    is_source_.assign(count, false);
    for (const Output& x : xs_) is_source_[x.node->id()] = true;
    std::vector<bool> forward = is_source_;  // depends on an x
    std::vector<Node*> stack;
    for (const Output& x : xs_) stack.push_back(x.node);
    const std::vector<std::vector<Node*>> consumers = Consumers(scope_.graph());
    while (!stack.empty()) {
      const Node* const node = stack.back();
      stack.pop_back();
      for (Node* const consumer : consumers[node->id()]) {
        const int id = consumer->id();
        if (id >= count || forward[id] || unit_[id] < 0) continue;
        forward[id] = std::any_of(consumer->inputs().begin(), consumer->inputs().end(), [&](const Output& input) {
          return input.node == node && CarriesGradient(input.dtype());
        });
        if (forward[id]) stack.push_back(consumer);
      }
    }
    between_.assign(count, false);
    pending_.assign(count, 0);
    const auto enter = [&](Node* node) {
      const int id = node->id();
      if (forward[id] && unit_[id] >= 0 && !between_[id]) {
        between_[id] = true;
        stack.push_back(node);
      }
    };
    for (const Output& y : ys_) enter(y.node);
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      for (const Output& input : node->inputs()) {
        enter(input.node);
        if (Waits(input.node, node)) ++pending_[unit_[input.node->id()]];
      }
    }
  }

  // True if the unit of `input` is done after that of its consumer `node`.
  bool Waits(const Node* input, const Node* node) const {
    return between_[input->id()] && unit_[input->id()] != unit_[node->id()];
  }

  // A node that is done, or between nothing, needs no more of its inputs.
  void Leave(const Node* node, std::vector<int>* ready) {
    if (!between_[node->id()]) return;
    for (const Output& input : node->inputs()) {
      if (!Waits(input.node, node)) continue;
      const int unit = unit_[input.node->id()];
      if (--pending_[unit] == 0) ready->push_back(unit);
    }
  }

  void Visit(Node* node) {
    std::vector<Gradient> dy;
    bool any = false;
    for (int i = 0; i < node->num_outputs(); ++i) {
      dy.push_back(Total(node->out(i)));
      any = any || dy.back();
    }
    const bool inputs_matter = std::any_of(node->inputs().begin(), node->inputs().end(), [&](const Output& in) {
      return between_[in.node->id()] || is_source_[in.node->id()];
    });
    if (!any || !inputs_matter) return;
    if (node->schema() == nullptr || node->schema()->differentiability == Differentiability::kUnknown) {
      scope_.Fail(Unimplemented("No gradient defined for operation '", node->name(), "' (op type: ", node->op(), ")"));
      return;
    }
    if (node->schema()->differentiability == Differentiability::kNo) return;
    GradientContext context(scope_.SubScope(absl::StrCat(node->name(), "_grad")).ColocateWith(Output(node)), node,
                            std::move(dy));
    scope_.Fail(Prepend(node->schema()->gradient(context), absl::StrCat("gradient of '", node->name(), "': ")));
    if (!scope_.ok()) return;
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (context.dx()[i]) contributions_[node->input(i)].push_back(context.dx()[i]);
    }
  }

  // Propagates the derivatives with respect to the final values of the loop variables back
  // through the body, once per iteration, to the derivatives with respect to the start values.
  // The derivatives with respect to loop invariants are summed over the iterations.
  void VisitLoop(int frame) {
    const Scope s = scope_.SubScope(absl::StrCat(Leaf(frames_.frames[frame].name), "_grad"));
    absl::StatusOr<Loop> forward = Loop::Find(s, frames_, frame, loop_);
    if (!forward.ok()) return scope_.Fail(Prepend(forward.status(), "gradient of "));
    for (const Node* enter : frames_.frames[frame].enters) {
      if (!between_[enter->id()] || enter->output_type(0) != kResource) continue;
      return scope_.Fail(Unimplemented("gradient of the variable '", enter->input(0).node->name(),
                                       "', which is read in a loop: read it before"));
    }
    std::vector<Output> ys, xs, sources, dys;
    bool any = false;
    for (const Loop::Variable& v : forward->variables()) {
      if (!between_[v.merge->id()]) continue;
      const Gradient dy = Total(v.end);
      any = any || dy;
      ys.push_back(v.next);
      xs.push_back(v.value());
      sources.push_back(v.start);
      dys.push_back(dy ? ToDense(s, dy) : s.Add("ZerosLike", {v.end}));
    }
    if (!any) return;
    for (Node* const constant : forward->constants()) {
      if (!between_[constant->id()]) continue;
      xs.emplace_back(constant);
      sources.push_back(constant->input(0));
    }
    const std::vector<Output> dx = RunBack(s, frame, *forward, ys, xs, dys);
    for (size_t i = 0; i < dx.size() && scope_.ok(); ++i) {
      if (dx[i]) contributions_[sources[i]].push_back(dx[i]);
    }
  }

  // Builds the backward loop. It transforms dys, the derivatives with respect to the final
  // values ys, to the derivatives with respect to xs: the start values of the same variables,
  // followed by the loop invariants.
  std::vector<Output> RunBack(const Scope& s, int frame, Loop& forward, const std::vector<Output>& ys,
                              const std::vector<Output>& xs, const std::vector<Output>& dys) {
    const Output count = CountIterations(s, forward);
    Loop back(s);
    back.AddVariable(count, Shape());
    for (size_t i = 0; i < dys.size() && s.ok(); ++i) back.AddVariable(dys[i], xs[i].shape(), xs[i]);
    const Output zero = back.Constant(Int32Const(s, 0)), one = back.Constant(Int32Const(s, 1));
    if (!s.ok()) return {};
    back.SetCondition(back.Add("Greater", {Output(back.variables()[0].merge), zero}));
    if (!s.ok()) return {};
    back.SetNext(0, back.Add("Sub", {back.variables()[0].value(), one}));
    std::vector<Output> values;
    for (size_t i = 0; i < dys.size(); ++i) values.push_back(back.variables()[i + 1].value());

    const int first = s.graph().num_nodes();
    const Scope body = back.body_scope();
    const std::vector<Gradient> dx = Backward(body, ys, xs, frames_, frame, &forward).Run(values);
    std::vector<Output> terms;
    for (size_t i = 0; i < xs.size() && s.ok(); ++i) {
      terms.push_back(dx[i] ? ToDense(body, dx[i]) : Output());
      if (!dx[i] && i < ys.size()) terms[i] = body.Add("ZerosLike", {xs[i]});
    }
    UseSavedValues(s, forward, back, first);
    back.Adopt(first);
    for (size_t i = 0; i < terms.size() && s.ok(); ++i) {
      if (i < ys.size()) {
        terms[i] = back.SetNext(static_cast<int>(i) + 1, terms[i]);
      } else if (terms[i]) {
        terms[i] = SumOfIterations(s, back, terms[i], xs[i].node->input(0));
      }
    }
    return terms;
  }

  // Sums the contributions to a tensor, once.
  Gradient Total(const Output& output) {
    const auto it = contributions_.find(output);
    if (it == contributions_.end()) return {};
    if (it->second.size() > 1) it->second = {Sum(scope_, it->second)};
    return it->second[0];
  }

  const Scope scope_;
  const std::vector<Output>& ys_;
  const std::vector<Output>& xs_;
  const Frames& frames_;
  const int frame_;
  Loop* const loop_;
  std::vector<int> unit_;                     // by node id: that of a node itself, or one for a loop; -1: not ours
  absl::flat_hash_map<int, LoopUnit> loops_;  // by unit
  std::vector<bool> is_source_;               // has an x
  std::vector<bool> between_;
  std::vector<int> pending_;  // by unit
  absl::flat_hash_map<Output, std::vector<Gradient>> contributions_;
};

absl::StatusOr<Frames> FramesOf(const Graph& graph) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& n) { return IsEnter(*n); })) {
    const std::vector<int> top(graph.num_nodes(), 0);
    return Frames{{Frame()}, top, top};
  }
  ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph));
  return FindFrames(graph, order);
}

absl::StatusOr<Frames> CheckTensors(const Graph& graph, const std::vector<Output>& ys, const std::vector<Output>& xs) {
  absl::StatusOr<Frames> frames = FramesOf(graph);
  if (!frames.ok()) return Prepend(frames.status(), "Gradients: ");
  for (const auto* list : {&ys, &xs}) {
    for (const Output& o : *list) {
      const int frame = frames->of_outputs[o.node->id()];
      if (frame == 0) continue;
      return Unimplemented("Gradients: '", o.name(), "' is a value of each iteration of the loop '",
                           frames->frames[frame].name, "', not of the whole");
    }
  }
  return frames;
}

}  // namespace

Output ToDense(const Scope& s, const Gradient& gradient) {
  if (!gradient.sparse()) return gradient.values;
  // UnsortedSegmentSum adds repeated rows up.
  const auto int32 = [&](std::vector<int32_t> v) {
    return Output(s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Vector<int32_t>(absl::MakeConstSpan(v))}}));
  };
  const Output rows =
      s.Add("StridedSlice", {gradient.dense_shape, int32({0}), int32({1}), int32({1})}, {{"shrink_axis_mask", 1}});
  return s.Add("UnsortedSegmentSum", {gradient.values, gradient.indices, rows});
}

Output GradientContext::dy(int i) const {
  if (!dy_[i]) return scope_.Add("ZerosLike", {node_->out(i)});
  return ToDense(scope_, dy_[i]);
}

std::vector<Gradient> Gradients(const Scope& s, const std::vector<Output>& ys, const std::vector<Output>& xs,
                                const std::vector<Output>& grad_ys) {
  const auto invalid = [&](const std::vector<Output>& list) {
    return std::any_of(list.begin(), list.end(), [](const Output& o) { return o.node == nullptr; });
  };
  if (!s.ok() || invalid(ys) || invalid(xs)) {
    s.Fail(InvalidArgument("Gradients: a tensor is missing"));
    return std::vector<Gradient>(xs.size());
  }
  for (const auto* list : {&ys, &xs, &grad_ys}) {
    for (const Output& o : *list) {
      if (!o || s.graph().Owns(*o.node)) continue;
      s.Fail(InvalidArgument("Gradients: tensor '", o.name(), "' belongs to another graph"));
      return std::vector<Gradient>(xs.size());
    }
  }
  const absl::StatusOr<Frames> frames = CheckTensors(s.graph(), ys, xs);
  s.Fail(frames.status());
  if (!s.ok()) return std::vector<Gradient>(xs.size());
  return Backward(s.SubScope("gradients"), ys, xs, *frames).Run(grad_ys);
}

}  // namespace thalweg
