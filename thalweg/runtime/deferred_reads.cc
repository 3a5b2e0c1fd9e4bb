// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/deferred_reads.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"

namespace thalweg {
namespace {

bool Receives(const Node& node) { return node.op() == "_Recv" || node.op() == "_HostRecv"; }

bool IsIdentity(const Node& node) {
  return node.op() == "Identity" || node.op() == "StopGradient" || node.op() == "PreventGradient";
}

// Passes on one of its inputs, as it is.
bool PassesValue(const Node& node) {
  if (node.num_inputs() == 0 || IsRef(node.input_type(0))) return false;
  return IsIdentity(node) || (IsControlFlow(node) && node.op() != "LoopCond");
}

int NumPassed(const Node& node) { return IsMerge(node) ? node.num_inputs() : 1; }

// Writes to the variable's memory. An Assign that may change the shape may bring
// memory of its own.
bool UpdatesInPlace(const Node& node) {
  if (!UpdatesVariable(node)) return false;
  return node.op() != "Assign" || GetAttr<bool>(node.def(), "validate_shape").value_or(true);
}

// The variable, if only Identities are between it and `node` that wait for
// nothing else.
Output BehindIdentities(const Node& node) {
  const Node* at = &node;
  while (IsIdentity(*at) && at->control_inputs().empty()) {
    const Output& input = at->input(0);
    if (IsRef(input.dtype())) return input;
    at = input.node;
  }
  return {};
}

class DeferredReads {
 public:
  explicit DeferredReads(Graph& graph)
      : graph_(graph),
        consumers_(Consumers(graph)),
        shown_(graph.num_nodes()),
        passes_variable_(graph.num_nodes(), false) {}

  std::vector<bool> Run() {
    FindUpdates();
    if (updates_.empty()) return std::move(passes_variable_);
    FindShown();
    FindAfterReceives();
    for (const auto& [variable, updates] : updates_) {
      const auto it = shown_by_.find(variable);
      if (it != shown_by_.end()) DeferReadsOf(*variable, updates, it->second);
    }
    for (const auto& [reader, source] : rewired_) reader.first->set_input(reader.second, source);
    return std::move(passes_variable_);
  }

 private:
  // The variables that an output of a ref type may stand for: updates, and control
  // flow of refs, hand on references that they got.
  absl::flat_hash_set<const Node*> VariablesOf(const Output& output) const {
    absl::flat_hash_set<const Node*> variables, seen{output.node};
    std::vector<const Node*> stack{output.node};
    while (!stack.empty()) {
      const Node& node = *stack.back();
      stack.pop_back();
      bool hands_on = false;
      for (int i = 0; i < node.num_inputs(); ++i) {
        if (!IsRef(node.input_type(i))) continue;
        hands_on = true;
        if (seen.insert(node.input(i).node).second) stack.push_back(node.input(i).node);
      }
      if (!hands_on) variables.insert(&node);
    }
    return variables;
  }

  void FindUpdates() {
    for (const auto& node : graph_.nodes()) {
      if (!UpdatesInPlace(*node)) continue;
      for (int i = 0; i < node->num_inputs(); ++i) {
        if (!IsRef(node->input_type(i))) continue;
        for (const Node* variable : VariablesOf(node->input(i))) updates_[variable].push_back(node.get());
      }
    }
  }

  // Which variables a node that passes a value on may show, through others of its
  // kind too: for each, once.
  void FindShown() {
    std::vector<std::pair<Node*, const Node*>> stack;
    for (const auto& node : graph_.nodes()) {
      if (!PassesValue(*node)) continue;
      for (int i = 0; i < NumPassed(*node); ++i) {
        if (!IsRef(node->input(i).dtype())) continue;
        for (const Node* variable : VariablesOf(node->input(i))) {
          if (updates_.contains(variable)) stack.emplace_back(node.get(), variable);
        }
      }
    }
    while (!stack.empty()) {
      const auto [node, variable] = stack.back();
      stack.pop_back();
      if (!shown_[node->id()].insert(variable).second) continue;
      shown_by_[variable].push_back(node);
      for (Node* next : consumers_[node->id()]) {
        if (PassesValue(*next) && Passes(*next, *node)) stack.emplace_back(next, variable);
      }
    }
  }

  static bool Passes(const Node& node, const Node& from) {
    for (int i = 0; i < NumPassed(node); ++i) {
      if (node.input(i).node == &from && IsValue(node.input(i))) return true;
    }
    return false;
  }
  // Not the number that a Merge gives besides.
  static bool IsValue(const Output& output) { return !IsMerge(*output.node) || output.index == 0; }

  // Marks the nodes that run after `from`, other iterations of loops included. True
  // if one of them is a send: other tasks may then go on, and send something here.
  bool MarkAfter(const std::vector<Node*>& from, std::vector<bool>& after) const {
    bool sends = false;
    std::vector<const Node*> stack(from.begin(), from.end());
    while (!stack.empty()) {
      const Node& node = *stack.back();
      stack.pop_back();
      for (const Node* next : consumers_[node.id()]) {
        if (after[next->id()]) continue;
        after[next->id()] = true;
        sends = sends || IsSend(*next);
        stack.push_back(next);
      }
    }
    return sends;
  }

  void FindAfterReceives() {
    after_receives_.assign(graph_.num_nodes(), false);
    std::vector<Node*> receives;
    for (const auto& node : graph_.nodes()) {
      if (Receives(*node)) receives.push_back(node.get());
    }
    MarkAfter(receives, after_receives_);
  }

  void DeferReadsOf(const Node& variable, const std::vector<Node*>& updates, const std::vector<Node*>& shown) {
    std::vector<bool> after(graph_.num_nodes(), false);
    const bool via_others = MarkAfter(updates, after);
    for (Node* node : shown) {
      for (Node* reader : consumers_[node->id()]) {
        // A fetch is taken when the step has ended.
        const bool is_late =
            after[reader->id()] || (via_others && after_receives_[reader->id()]) || reader->op() == "_Retval";
        if (is_late) ReadLate(*node, *reader, variable);
      }
    }
  }

  void ReadLate(Node& node, Node& reader, const Node& variable) {
    for (int i = 0; i < reader.num_inputs(); ++i) {
      if (reader.input(i).node != &node || !IsValue(reader.input(i))) continue;
      if (PassesValue(reader) && i < NumPassed(reader)) continue;  // not the end of the way
      if (const Output source = BehindIdentities(node)) {
        rewired_[{&reader, i}] = source;
      } else {
        PassVariable(node, variable);
      }
    }
  }

  // Has all nodes between the variable and `node` pass on the variable.
  void PassVariable(Node& node, const Node& variable) {
    std::vector<Node*> stack{&node};
    while (!stack.empty()) {
      Node* at = stack.back();
      stack.pop_back();
      if (passes_variable_[at->id()] || !shown_[at->id()].contains(&variable)) continue;
      passes_variable_[at->id()] = true;
      for (int i = 0; i < NumPassed(*at); ++i) stack.push_back(at->input(i).node);
    }
  }

  Graph& graph_;
  const std::vector<std::vector<Node*>> consumers_;
  std::map<const Node*, std::vector<Node*>> updates_;    // by variable
  std::vector<absl::flat_hash_set<const Node*>> shown_;  // by id: the variables that a node may show
  std::map<const Node*, std::vector<Node*>> shown_by_;   // by variable
  std::vector<bool> after_receives_;                     // by id
  std::map<std::pair<Node*, int>, Output> rewired_;      // by reader and its input
  std::vector<bool> passes_variable_;                    // the result
};

}  // namespace

bool IsSend(const Node& node) { return node.op() == "_Send" || node.op() == "_HostSend"; }

bool UpdatesVariable(const Node& node) {
  if (IsControlFlow(node)) return false;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (IsRef(node.input_type(i))) return node.op() != "IsVariableInitialized" && node.op() != "RefIdentity";
  }
  return false;
}

std::vector<bool> DeferReads(Graph& graph) { return DeferredReads(graph).Run(); }

bool ReadsInPlace(const Node& n, int i) {
  static const absl::flat_hash_set<absl::string_view> kOps = {"Gather", "GatherV2", "GatherNd",
                                                              "Shape",  "Size",     "Rank"};
  return i == 0 && kOps.contains(n.op());
}

void ReadInPlace(Graph& graph) {
  std::vector<const Node*> bypassed;
  for (const auto& node : graph.nodes()) {
    if (node->num_inputs() == 0 || !ReadsInPlace(*node, 0)) continue;
    const Output variable = BehindIdentities(*node->input(0).node);
    if (!variable) continue;
    bypassed.push_back(node->input(0).node);
    node->set_input(0, variable);
  }
  if (bypassed.empty()) return;
  std::vector<bool> keep(graph.num_nodes(), true);
  const std::vector<std::vector<Node*>> consumers = Consumers(graph);
  for (const Node* node : bypassed) {
    // From the last Identity to the first, as long as nothing else uses them.
    while (keep[node->id()] && IsIdentity(*node) &&
           absl::c_none_of(consumers[node->id()], [&](const Node* user) { return keep[user->id()]; })) {
      keep[node->id()] = false;
      node = node->input(0).node;
    }
  }
  graph.Retain(keep);
}

bool CarriesVariable(const Output& output, const std::vector<bool>& passes_variable) {
  if (IsRef(output.dtype())) return true;
  return passes_variable[output.node->id()] && !(IsMerge(*output.node) && output.index != 0);
}

bool TakesVariable(const Node& n, int i, const std::vector<bool>& passes_variable) {
  return IsRef(n.input_type(i)) || IsSend(n) || ReadsInPlace(n, i) ||
         (passes_variable[n.id()] && (i == 0 || IsMerge(n)));
}

}  // namespace thalweg
