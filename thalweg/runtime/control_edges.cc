// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/control_edges.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {
namespace {

// More edges than this may cost more than the messages that they save.
constexpr size_t kMaxNewEdges = 10'000;
// Larger values may arrive much later than a signal.
constexpr int64_t kMaxValueBytes = 4096;

bool IsSmallValue(const Output& output) {
  const std::optional<Shape> shape = output.shape().AsShape();
  const auto size = static_cast<int64_t>(ElementSize(output.dtype()));
  return !IsRef(output.dtype()) && size > 0 && shape.has_value() && shape->num_elements() <= kMaxValueBytes / size;
}

class ControlEdges {
 public:
  ControlEdges(Graph& graph, const std::vector<std::string>& targets)
      : graph_(graph), targets_(targets.begin(), targets.end()) {}

  absl::Status Shorten() {
    const auto is_control_flow = [](const auto& node) { return IsControlFlow(*node); };
    if (std::any_of(graph_.nodes().begin(), graph_.nodes().end(), is_control_flow)) return absl::OkStatus();
    for (const auto& node : graph_.nodes()) tasks_.push_back(TaskIndex(*node));
    if (by_name_.size() < 2) return absl::OkStatus();
    RETURN_IF_ERROR(BypassNoOps());
    RETURN_IF_ERROR(WaitForValues());
    return MergeSignals();
  }

 private:
  // A number for the task of a node.
  int TaskIndex(const Node& node) {
    const absl::StatusOr<DeviceName> name = DeviceName::Parse(node.device());
    return by_name_.try_emplace(name.ok() ? TaskOf(*name) : "", static_cast<int>(by_name_.size())).first->second;
  }
  int TaskOfNode(const Node& node) const { return tasks_[node.id()]; }

  static size_t CountWithout(const std::set<int>& tasks, int without) { return tasks.size() - tasks.count(without); }

  absl::Status BypassNoOps() {
    ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph_));
    std::vector<std::vector<Node*>> consumers = Consumers(graph_);
    std::vector<bool> keep(graph_.num_nodes(), true);
    // The control inputs of a NoOp are final when its turn comes.
    for (Node* node : order) {
      if (node->op() != "NoOp") continue;
      const int own = TaskOfNode(*node);
      std::set<int> from, to;
      for (const Node* input : node->control_inputs()) from.insert(TaskOfNode(*input));
      std::vector<Node*> others;  // consumers on other tasks
      for (Node* consumer : consumers[node->id()]) {
        if (TaskOfNode(*consumer) == own) continue;
        others.push_back(consumer);
        to.insert(TaskOfNode(*consumer));
      }
      if (others.empty() || others.size() * node->control_inputs().size() > kMaxNewEdges) continue;
      const bool stays = targets_.contains(node->name()) || others.size() < consumers[node->id()].size();
      const size_t before = CountWithout(from, own) + to.size();
      size_t after = stays ? CountWithout(from, own) : 0;
      for (const int task : to) after += CountWithout(from, task);
      if (after > before) continue;
      for (Node* consumer : others) Bypass(*node, *consumer, consumers);
      keep[node->id()] = stays;
    }
    if (std::find(keep.begin(), keep.end(), false) == keep.end()) return absl::OkStatus();
    graph_.Retain(keep);
    std::vector<int> tasks;
    for (size_t id = 0; id < keep.size(); ++id) {
      if (keep[id]) tasks.push_back(tasks_[id]);
    }
    tasks_ = std::move(tasks);
    return absl::OkStatus();
  }

  // Lets `consumer` wait for the control inputs of the node, and no longer for the node.
  static void Bypass(const Node& node, Node& consumer, std::vector<std::vector<Node*>>& consumers) {
    std::vector<Node*> controls = consumer.control_inputs();
    std::erase(controls, &node);
    for (Node* input : node.control_inputs()) {
      if (std::find(controls.begin(), controls.end(), input) != controls.end()) continue;
      controls.push_back(input);
      std::vector<Node*>& of_input = consumers[input->id()];
      if (std::find(of_input.begin(), of_input.end(), &consumer) == of_input.end()) of_input.push_back(&consumer);
    }
    consumer.set_control_inputs(std::move(controls));
  }

  // Lets nodes wait for an Identity of a value that their task receives, in place of the node that computes it.
  absl::Status WaitForValues() {
    std::map<std::pair<int, int>, Output> received;  // by node and task: a small value of the node that goes there
    for (const auto& node : graph_.nodes()) {
      for (const Output& input : node->inputs()) {
        if (TaskOfNode(*input.node) == TaskOfNode(*node) || !IsSmallValue(input)) continue;
        received.try_emplace({input.node->id(), TaskOfNode(*node)}, input);
      }
    }
    std::map<std::pair<int, int>, Node*> arrived;
    const int before = graph_.num_nodes();
    for (int id = 0; id < before; ++id) {
      Node* const node = graph_.node(id);
      std::vector<Node*> controls = node->control_inputs();
      for (Node*& control : controls) {
        const auto value = received.find({control->id(), TaskOfNode(*node)});
        if (value == received.end()) continue;
        Node*& identity = arrived[value->first];
        if (identity == nullptr) {
          ASSIGN_OR_RETURN(identity, AddIdentity(value->second, *node));
        }
        control = identity;
      }
      node->set_control_inputs(std::move(controls));
    }
    return absl::OkStatus();
  }

  // On the device of `reader`.
  absl::StatusOr<Node*> AddIdentity(const Output& value, const Node& reader) {
    tensorflow::NodeDef def;
    def.set_name(graph_.UniqueName(absl::StrCat(value.node->name(), "/_arrived")));
    def.set_op("Identity");
    def.set_device(reader.device());
    SetAttr(def, "T", value.dtype());
    tasks_.push_back(TaskOfNode(reader));
    return graph_.AddNode(std::move(def), {value}, {});
  }

  // The nodes of one task for which nodes of another one wait.
  struct Signals {
    std::set<int> sources;                                   // node ids
    std::map<std::vector<int>, std::vector<Node*>> waiting;  // by the sources that they wait for together
  };

  absl::Status MergeSignals() {
    std::map<std::pair<int, int>, Signals> between;  // by both tasks
    for (const auto& node : graph_.nodes()) {
      std::map<int, std::vector<int>> by_task;
      for (const Node* input : node->control_inputs()) by_task[TaskOfNode(*input)].push_back(input->id());
      for (auto& [task, sources] : by_task) {
        if (task == TaskOfNode(*node)) continue;
        std::sort(sources.begin(), sources.end());
        Signals& signals = between[{task, TaskOfNode(*node)}];
        signals.sources.insert(sources.begin(), sources.end());
        signals.waiting[sources].push_back(node.get());
      }
    }
    for (const auto& [tasks, signals] : between) {
      // Nodes that wait for the same source share its signal: merging must not make more of them.
      if (signals.waiting.size() >= signals.sources.size()) continue;
      for (const auto& [sources, waiting] : signals.waiting) {
        if (sources.size() > 1) RETURN_IF_ERROR(Meet(sources, waiting));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Meet(const std::vector<int>& ids, const std::vector<Node*>& waiting) {
    std::vector<Node*> sources;
    for (const int id : ids) sources.push_back(graph_.node(id));
    tensorflow::NodeDef def;
    def.set_name(graph_.UniqueName(absl::StrCat(waiting[0]->name(), "/_after")));
    def.set_op("NoOp");
    def.set_device(sources[0]->device());
    tasks_.push_back(TaskOfNode(*sources[0]));
    ASSIGN_OR_RETURN(Node* const met, graph_.AddNode(std::move(def), {}, sources));
    for (Node* node : waiting) {
      std::vector<Node*> controls = node->control_inputs();
      std::erase_if(controls,
                    [&](Node* control) { return std::find(sources.begin(), sources.end(), control) != sources.end(); });
      controls.push_back(met);
      node->set_control_inputs(std::move(controls));
    }
    return absl::OkStatus();
  }

  Graph& graph_;
  const absl::flat_hash_set<std::string> targets_;
  std::map<std::string, int> by_name_;
  std::vector<int> tasks_;  // by node id
};

}  // namespace

absl::Status ShortenControlEdges(Graph& graph, const std::vector<std::string>& targets) {
  return ControlEdges(graph, targets).Shorten();
}

}  // namespace thalweg
