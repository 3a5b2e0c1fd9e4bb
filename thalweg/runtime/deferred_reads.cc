#include "thalweg/runtime/deferred_reads.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// The variable that an output of a ref type stands for: updates hand on the
// reference that they got.
const Node* VariableOf(Output output) {
  while (IsRef(output.dtype()) && UpdatesVariable(*output.node)) {
    const Node& node = *output.node;
    Output next;
    for (int i = 0; i < node.num_inputs() && !next; ++i) {
      if (IsRef(node.input_type(i))) next = node.input(i);
    }
    output = next;
  }
  return output.node;
}

bool UpdatesInPlace(const Node& node, const Node& variable) {
  if (!UpdatesVariable(node) || node.op() == "Assign") return false;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (IsRef(node.input_type(i)) && VariableOf(node.input(i)) == &variable) return true;
  }
  return false;
}

class DelayedReads {
 public:
  explicit DelayedReads(Graph& graph) : graph_(graph), after_update_(graph.num_nodes(), false) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph_));
    for (const Node* node : order) {
      for (const Output& input : node->inputs()) Follow(*input.node, *node);
      for (const Node* control : node->control_inputs()) Follow(*control, *node);
    }
    for (Node* node : order) {
      if (!after_update_[node->id()]) continue;
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Node& read = *node->input(i).node;
        if (!IsRead(read)) continue;
        const Output variable = read.input(0);
        if (node->device() == variable.node->device() && ComesAfterUpdate(*node, *VariableOf(variable))) {
          node->set_input(i, variable);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  void Follow(const Node& from, const Node& to) {
    if (after_update_[from.id()] || UpdatesVariable(from)) after_update_[to.id()] = true;
  }

  static bool IsRead(const Node& node) {
    return node.op() == "Identity" && IsRef(node.input(0).dtype()) && node.control_inputs().empty();
  }

  // Looks for the update among all that `node` depends on.
  bool ComesAfterUpdate(const Node& node, const Node& variable) const {
    std::vector<const Node*> stack{&node};
    absl::flat_hash_set<const Node*> seen{&node};
    while (!stack.empty()) {
      const Node& at = *stack.back();
      stack.pop_back();
      if (&at != &node && UpdatesInPlace(at, variable)) return true;
      const auto visit = [&](const Node* from) {
        const bool leads = after_update_[from->id()] || UpdatesVariable(*from);
        if (leads && seen.insert(from).second) stack.push_back(from);
      };
      for (const Output& input : at.inputs()) visit(input.node);
      for (const Node* control : at.control_inputs()) visit(control);
    }
    return false;
  }

  Graph& graph_;
  std::vector<bool> after_update_;  // by id: depends on an update of some variable
};

}  // namespace

bool UpdatesVariable(const Node& node) {
  if (IsControlFlow(node)) return false;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (IsRef(node.input_type(i))) return node.op() != "IsVariableInitialized" && node.op() != "RefIdentity";
  }
  return false;
}

absl::Status DeferReads(Graph& graph) { return DelayedReads(graph).Run(); }

}  // namespace thalweg
