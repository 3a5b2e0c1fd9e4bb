// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/cond.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/loop.h"

namespace thalweg {
namespace {

// Collects the nodes of one branch and lets the tensors that they use from outside come
// through Switch nodes, so that they are dead if the branch is not taken.
class BranchNodes {
 public:
  BranchNodes(const Scope& s, Output predicate, Node* pivot, int index)
      : scope_(s), predicate_(predicate), pivot_(pivot), index_(index) {}

  // Takes the nodes from id `first` on that wait for the pivot, and those that depend on them.
  void Adopt(int first) {
    inside_.insert(pivot_);
    std::vector<Node*> left;
    for (int id = first; id < scope_.graph().num_nodes(); ++id) left.push_back(scope_.graph().node(id));
    std::vector<Node*> taken;
    for (size_t before = 0; before != left.size();) {
      before = left.size();
      std::erase_if(left, [&](Node* node) {
        if (!DependsOnBranch(*node)) return false;
        inside_.insert(node);
        taken.push_back(node);
        return true;
      });
    }
    for (Node* const node : taken) {
      for (int i = 0; i < node->num_inputs(); ++i) {
        node->set_input(i, Inside(node->input(i), IsRef(node->input_type(i))));
      }
    }
  }

  // The tensor itself if the branch computes it, else as it comes through a Switch.
  Output Inside(Output tensor, bool by_reference) {
    if (!tensor || inside_.contains(tensor.node)) return tensor;
    Output& switched = switches_[{tensor.node->id(), tensor.index}];
    if (!switched) {
      Node* const node = scope_.Add(by_reference ? "RefSwitch" : "Switch", {tensor, predicate_});
      if (node == nullptr) return {};
      inside_.insert(node);
      switched = node->out(index_);
    }
    return switched;
  }

 private:
  bool DependsOnBranch(const Node& node) const {
    const auto inside = [&](const Node* n) { return inside_.contains(n); };
    return std::any_of(node.control_inputs().begin(), node.control_inputs().end(), inside) ||
           std::any_of(node.inputs().begin(), node.inputs().end(), [&](const Output& o) { return inside(o.node); });
  }

  const Scope scope_;
  const Output predicate_;
  Node* const pivot_;
  const int index_;  // the output of the Switch nodes: 0 for false, 1 for true
  absl::flat_hash_set<const Node*> inside_;
  std::map<std::pair<int, int>, Output> switches_;  // by the id and output of what they pass on
};

absl::Status CheckPredicate(const Output& predicate) {
  if (!predicate) return InvalidArgument("Cond: the predicate is missing");
  if (RemoveRef(predicate.dtype()) == kBool && predicate.shape().rank() <= 0) return absl::OkStatus();
  return InvalidArgument("Cond: the predicate must be a bool scalar, got ", predicate.dtype(), predicate.shape());
}

absl::Status CheckResults(const std::vector<Output>& then, const std::vector<Output>& otherwise) {
  if (then.empty()) return InvalidArgument("Cond: a branch must give at least one result");
  if (then.size() != otherwise.size()) {
    return InvalidArgument("Cond: one branch gives ", then.size(), " results, the other ", otherwise.size());
  }
  for (size_t i = 0; i < then.size(); ++i) {
    if (!then[i] || !otherwise[i]) return InvalidArgument("Cond: result ", i, " of a branch is missing");
    if (RemoveRef(then[i].dtype()) == RemoveRef(otherwise[i].dtype())) continue;
    return InvalidArgument("Cond: result ", i, " is ", then[i].dtype(), " in one branch and ", otherwise[i].dtype(),
                           " in the other");
  }
  return absl::OkStatus();
}

// The results of a branch, each computed only if it is taken.
std::vector<Output> AddBranch(const Scope& s, Output predicate, Output pivot_switch, int index, const Branch& branch) {
  Node* const pivot = s.WithOpName(index == 1 ? "switch_t" : "switch_f").Add("Identity", {pivot_switch});
  if (pivot == nullptr) return {};
  BranchNodes nodes(s, predicate, pivot, index);
  const int first = s.graph().num_nodes();
  std::vector<Output> results = branch(s.SubScope(index == 1 ? "then" : "else").WithControlDependencies({pivot}));
  if (!s.ok()) return {};
  nodes.Adopt(first);
  for (Output& result : results) {
    result = nodes.Inside(result, false);
    if (IsRef(result.dtype())) result = s.Add("Identity", {result});
  }
  return results;
}

}  // namespace

std::vector<Output> Cond(const Scope& scope, Output predicate, const Branch& then_branch, const Branch& else_branch,
                         const CondOptions& options) {
  if (!scope.ok()) return {};
  scope.Fail(CheckPredicate(predicate));
  if (!scope.ok()) return {};
  const Scope s = scope.SubScope(options.name);
  predicate = s.WithOpName("pred_id").Add("Identity", {predicate});
  Node* const pivot = s.Add("Switch", {predicate, predicate});
  if (pivot == nullptr) return {};
  const std::vector<Output> then = AddBranch(s, predicate, pivot->out(1), 1, then_branch);
  const std::vector<Output> otherwise = s.ok() ? AddBranch(s, predicate, pivot->out(0), 0, else_branch) : then;
  if (s.ok()) s.Fail(CheckResults(then, otherwise));
  std::vector<Output> results;
  for (size_t i = 0; s.ok() && i < then.size(); ++i) {
    results.emplace_back(s.Add("Merge", {std::vector<Output>{otherwise[i], then[i]}}));
  }
  return s.ok() ? results : std::vector<Output>();
}

std::vector<Output> Case(const Scope& s, Output index, const std::vector<Branch>& branches,
                         const CondOptions& options) {
  if (branches.empty()) s.Fail(InvalidArgument("Case: there are no branches"));
  if (!s.ok()) return {};
  // From the last to the first: "if it is i, branch i, else the rest".
  Branch rest = branches.back();
  for (int i = static_cast<int>(branches.size()) - 2; i >= 0; --i) {
    rest = [&options, index, i, branch = branches[i], otherwise = std::move(rest)](const Scope& in) {
      const Output is_this = in.Add("Equal", {index, Int32Const(in, i)});
      return Cond(in, is_this, branch, otherwise, options);
    };
  }
  return rest(s);
}

}  // namespace thalweg
