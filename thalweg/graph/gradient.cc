#include "thalweg/graph/gradient.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

bool CarriesGradient(DType t) {
  t = RemoveRef(t);
  // What an unknown op puts out (kInvalid) may.
  return IsFloating(t) || IsComplex(t) || t == kResource || t == kVariant || t == kInvalid;
}

// What weights that several steps of a sequence share get from each of them is a
// product A_i' * B_i of few rows. The sum of these is one product of all rows,
// which is faster than the parts and their addition. Nothing if `parts` are no
// such products.
Output SumOfProducts(const Scope& s, const std::vector<Gradient>& parts) {
  std::vector<Output> a, b;
  for (const Gradient& g : parts) {
    const Node* node = g.values.node;
    if (g.sparse() || node->op() != "MatMul") return {};
    const auto transpose_a = GetAttr<bool>(node->def(), "transpose_a");
    const auto transpose_b = GetAttr<bool>(node->def(), "transpose_b");
    if (!transpose_a.value_or(false) || transpose_b.value_or(true)) return {};
    a.push_back(node->input(0));
    b.push_back(node->input(1));
  }
  const Output axis = s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(0)}});
  return s.Add("MatMul", {Output(s.Add("ConcatV2", {a, axis})), Output(s.Add("ConcatV2", {b, axis}))},
               {{"transpose_a", true}});
}

// Sums what several consumers contributed to one tensor.
Gradient Sum(const Scope& s, const std::vector<Gradient>& parts) {
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts[0];
  if (std::all_of(parts.begin(), parts.end(), [](const Gradient& g) { return g.sparse(); })) {
    std::vector<Output> values, indices;
    for (const Gradient& g : parts) {
      values.push_back(g.values);
      indices.push_back(g.indices);
    }
    const Output axis = s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(0)}});
    return Gradient(s.Add("ConcatV2", {values, axis}), s.Add("ConcatV2", {indices, axis}), parts[0].dense_shape);
  }
  if (const Output product = SumOfProducts(s, parts)) return product;
  std::vector<Output> dense;
  for (const Gradient& g : parts) dense.push_back(ToDense(s, g));
  return Output(s.Add("AddN", {dense}));
}

// Walks the graph backwards from the ys, over the nodes that lie between them
// and the xs. A node is done when every consumer between has been: then its
// outputs' derivatives are summed and its gradient function is called.
class Backward {
 public:
  Backward(const Scope& s, const std::vector<Output>& ys, const std::vector<Output>& xs)
      : scope_(s.SubScope("gradients")), ys_(ys), xs_(xs) {}

  std::vector<Gradient> Run(const std::vector<Output>& grad_ys) {
    const int count = scope_.graph().num_nodes();
    FindBetween(count);
    for (size_t i = 0; i < ys_.size(); ++i) {
      const Output y = ys_[i];
      Output seed = i < grad_ys.size() ? grad_ys[i] : Output();
      if (!seed) seed = scope_.Add("OnesLike", {y});
      if (!scope_.ok()) return std::vector<Gradient>(xs_.size());
      contributions_[y].push_back(seed);
    }
    // Ids of the original nodes only: operations added on the way are later.
    std::vector<Node*> ready;
    for (int id = count - 1; id >= 0; --id) {
      if (between_[id] && pending_[id] == 0) ready.push_back(scope_.graph().node(id));
    }
    while (!ready.empty() && scope_.ok()) {
      Node* node = ready.back();
      ready.pop_back();
      Visit(node);
      for (const Output& input : node->inputs()) {
        const int id = input.node->id();
        if (between_[id] && --pending_[id] == 0) ready.push_back(input.node);
      }
    }
    std::vector<Gradient> result;
    for (const Output& x : xs_) result.push_back(Total(x));
    if (!scope_.ok()) result.assign(xs_.size(), Gradient());
    return result;
  }

 private:
  void FindBetween(int count) {
    std::vector<bool> forward(count, false);  // depends on an x
    for (const Output& x : xs_) forward[x.node->id()] = true;
    // Repeats until nothing changes, since loops point back.
    for (bool changed = true; changed;) {
      changed = false;
      for (int id = 0; id < count; ++id) {
        if (forward[id]) continue;
        for (const Output& input : scope_.graph().node(id)->inputs()) {
          if (forward[input.node->id()] && CarriesGradient(input.dtype())) {
            forward[id] = changed = true;
            break;
          }
        }
      }
    }
    between_.assign(count, false);
    pending_.assign(count, 0);
    std::vector<Node*> stack;
    const auto enter = [&](Node* node) {
      if (forward[node->id()] && !between_[node->id()]) {
        between_[node->id()] = true;
        stack.push_back(node);
      }
    };
    for (const Output& y : ys_) enter(y.node);
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      for (const Output& input : node->inputs()) {
        if (forward[input.node->id()]) ++pending_[input.node->id()];
        enter(input.node);
      }
    }
  }

  void Visit(Node* node) {
    std::vector<Gradient> dy;
    bool any = false;
    for (int i = 0; i < node->num_outputs(); ++i) {
      dy.push_back(Total(node->out(i)));
      any = any || dy.back();
    }
    const bool inputs_matter = std::any_of(node->inputs().begin(), node->inputs().end(),
                                           [&](const Output& in) { return between_[in.node->id()]; });
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
  std::vector<bool> between_;
  std::vector<int> pending_;
  absl::flat_hash_map<Output, std::vector<Gradient>> contributions_;
};

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
  return Backward(s, ys, xs).Run(grad_ys);
}

}  // namespace thalweg
