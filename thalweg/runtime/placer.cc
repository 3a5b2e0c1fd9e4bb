// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/placer.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/runtime/function_inliner.h"

namespace thalweg {
namespace {

// Sets of nodes that must share a device (union-find). Each set has the merged device requests of
// its members.
class Groups {
 public:
  explicit Groups(int nodes)
      : parent_(nodes), size_(nodes, 1), firm_(nodes), pinned_(nodes), asked_(nodes), why_(nodes), near_(nodes) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  int Find(int id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }

  absl::Status Ask(const Node& node) {
    if (node.device().empty()) return absl::OkStatus();
    absl::StatusOr<DeviceName> name = DeviceName::Parse(node.device());
    if (!name.ok()) return Append(name.status(), absl::StrCat("; node '", node.name(), "'"));
    asked_[node.id()] = *name;
    why_[node.id()] = absl::StrCat("asked for ", node.device());
    return absl::OkStatus();
  }

  // Fixes the node on the device that was decided before.
  void Pin(const Node& node, const StatePlacement::Decision& decision) {
    asked_[node.id()] = decision.device;
    why_[node.id()] = decision.why;
    pinned_[node.id()] = true;
  }

  // Marks the set of a stateful node as firm if the node requests a device: other nodes must follow it.
  void MakeFirm(const Node& node) { firm_[node.id()] = pinned_[node.id()] || !node.device().empty(); }

  // Unites the sets of two nodes, because `second` must be colocated with `first`. If their requests
  // contradict, the request of a single node `second` is ignored, as in TensorFlow. The request of a larger
  // set is ignored only if the set of `first` is firm and that set is not; otherwise it is an error.
  absl::Status Join(const Node& first, const Node& second) {
    if (near_[second.id()].empty()) near_[second.id()] = absl::StrCat("with '", first.name(), "'");
    const int a = Find(first.id());
    const int b = Find(second.id());
    if (a == b) return absl::OkStatus();
    absl::StatusOr<DeviceName> both = DeviceName::Intersect(asked_[a], asked_[b]);
    if (!both.ok()) {
      if (size_[b] > 1 && !(firm_[a] && !firm_[b])) {
        return InvalidArgument("Cannot colocate nodes '", first.name(), "' and '", second.name(),
                               "': ", both.status().message());
      }
      both = asked_[a];
    }
    parent_[b] = a;
    size_[a] += size_[b];
    firm_[a] = firm_[a] || firm_[b];
    asked_[a] = *both;
    if (why_[a].empty()) why_[a] = why_[b];
    return absl::OkStatus();
  }

  const DeviceName& asked(int id) { return asked_[Find(id)]; }
  const std::string& wish(int id) { return why_[Find(id)]; }  // the reason for the request of the set
  std::string Why(const Node& node) {
    const std::string& wish = why_[Find(node.id())];
    const std::string& near = near_[node.id()];
    if (near.empty()) return wish.empty() ? "default" : wish;
    return wish.empty() ? near : absl::StrCat(near, ", ", wish);
  }

 private:
  // By node. Properties of a set are valid at its root.
  std::vector<int> parent_;        // union-find
  std::vector<int> size_;          // size of each set
  std::vector<bool> firm_;         // by set, see MakeFirm()
  std::vector<bool> pinned_;       // by node, see Pin()
  std::vector<DeviceName> asked_;  // the merged requests of the set
  std::vector<std::string> why_;   // the reason for them
  std::vector<std::string> near_;  // "with 'x'": the node that it is colocated with
};

class Placement {
 public:
  Placement(const Graph& graph, const PlacerOptions& options)
      : graph_(graph), options_(options), groups_(graph.num_nodes()) {
    for (const auto& function : graph.library().function()) functions_.insert(function.signature().name());
  }

  // Fails if a node cannot be placed.
  absl::Status Decide() {
    if (options_.devices.empty()) return InvalidArgument("No devices to place nodes on");
    return DecideAll([](absl::Status status) { return status; });
  }
  // Leaves nodes without a device if they cannot be placed, and ignores colocations that contradict.
  absl::Status DecideWherePossible() {
    return DecideAll([](const absl::Status&) { return absl::OkStatus(); });
  }

  // The device of a node; nullptr if it could not be placed.
  const PlacementDevice* device(const Node& node) { return chosen_[groups_.Find(node.id())]; }
  const std::string& wish(const Node& node) { return groups_.wish(node.id()); }

  std::vector<Placed> Set() {
    std::vector<Placed> placed;
    for (const auto& node : graph_.nodes()) {
      const PlacementDevice& device = *chosen_[groups_.Find(node->id())];
      std::string why = groups_.Why(*node);
      if (!groups_.asked(node->id()).Matches(device.name)) absl::StrAppend(&why, ", softly replaced");
      node->set_device(device.name.ToString());
      placed.push_back({node->name(), node->op(), node->device(), std::move(why)});
    }
    return placed;
  }

 private:
  // `check` decides which errors to return.
  template <typename F>
  absl::Status DecideAll(F&& check) {
    for (const auto& node : graph_.nodes()) {
      const StatePlacement::Decision* decision = options_.states == nullptr ? nullptr : options_.states->Find(*node);
      if (decision != nullptr) {
        groups_.Pin(*node, *decision);
      } else {
        RETURN_IF_ERROR(check(groups_.Ask(*node)));
      }
    }
    // Join in topological order: the nodes that a handle passes through join its set one by one, so that the
    // request of each single node gives way.
    for (const auto& node : graph_.nodes()) {
      if (HoldsState(*node)) groups_.MakeFirm(*node);
    }
    ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph_));
    for (const Node* node : order) RETURN_IF_ERROR(JoinWithOthers(*node, check));
    // Choose one device per set that can run all of its members.
    std::vector<std::vector<const Node*>> members(graph_.num_nodes());
    for (const auto& node : graph_.nodes()) members[groups_.Find(node->id())].push_back(node.get());
    chosen_.resize(graph_.num_nodes());
    for (int root = 0; root < graph_.num_nodes(); ++root) {
      if (members[root].empty()) continue;
      const absl::StatusOr<const PlacementDevice*> device = Choose(root, members[root]);
      RETURN_IF_ERROR(check(device.status()));
      chosen_[root] = device.ok() ? *device : nullptr;
    }
    return absl::OkStatus();
  }

  // A variable, table or queue that is not colocated with another node.
  static bool HoldsState(const Node& node) {
    if (!node.is_stateful() || node.num_inputs() > 0 || node.num_outputs() == 0) return false;
    if (node.output_type(0) != kResource && !IsRef(node.output_type(0))) return false;
    const auto classes = GetAttr<std::vector<std::string>>(node.def(), "_class");
    return !classes.ok() || std::all_of(classes->begin(), classes->end(), [&](const std::string& name) {
      return name == absl::StrCat("loc:@", node.name());
    });
  }

  template <typename F>
  absl::Status JoinWithOthers(const Node& node, F&& check) {
    if (HasAttr(node.def(), "_class")) {
      const auto classes = GetAttr<std::vector<std::string>>(node.def(), "_class");
      RETURN_IF_ERROR(check(classes.status()));
      for (absl::string_view name : classes.ok() ? *classes : std::vector<std::string>()) {
        if (!absl::ConsumePrefix(&name, "loc:@")) continue;
        const Node* other = graph_.FindNode(name);
        if (other == nullptr) continue;  // pruned
        // Colocation wins over the node's own device.
        RETURN_IF_ERROR(check(groups_.Join(*other, node)));
      }
    }
    // Calls are inlined before a step is placed; the nodes of the body join the handle's set then.
    if (IsCallOp(node.op()) || functions_.contains(node.op())) return absl::OkStatus();
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output& input = node.input(i);
      const bool by_reference = IsRef(node.input_type(i));
      // A handle is used on the device of its resource, also through loops and conditionals.
      const bool by_handle =
          node.input_type(i) == kResource && input.node->schema() != nullptr && node.op() != "_Retval";
      if (by_reference || by_handle) {
        // The resource cannot move, so another device that the node requests is ignored, as in TensorFlow.
        RETURN_IF_ERROR(check(groups_.Join(*input.node, node)));
      }
    }
    return absl::OkStatus();
  }

  static bool CanRun(const Node& node, const std::string& device_type) {
    // Nodes without kernels run anywhere. Unknown ops fail later, in the steps that need them.
    return node.schema() == nullptr || node.op() == "_Arg" || node.op() == "_Retval" ||
           KernelRegistry::Global().Has(node.op(), device_type) || !KernelRegistry::Global().Has(node.op(), "CPU");
  }

  // The node to name in the error for a set that cannot be placed: one that requests a device that does not
  // exist or, if there is none, one that requests a device.
  const Node& Asker(const std::vector<const Node*>& members) const {
    const Node* asker = nullptr;
    for (const Node* node : members) {
      if (node->device().empty()) continue;
      const absl::StatusOr<DeviceName> name = DeviceName::Parse(node->device());
      const bool is_there = name.ok() && std::any_of(options_.devices.begin(), options_.devices.end(),
                                                     [&](const auto& device) { return name->Matches(device.name); });
      if (!is_there) return *node;
      if (asker == nullptr) asker = node;
    }
    return asker == nullptr ? *members[0] : *asker;
  }

  absl::StatusOr<const PlacementDevice*> Choose(int root, const std::vector<const Node*>& members) {
    const DeviceName& asked = groups_.asked(root);
    const auto can_run_all = [&](const PlacementDevice& device) {
      return std::all_of(members.begin(), members.end(), [&](const Node* n) { return CanRun(*n, *device.name.type); });
    };
    const PlacementDevice* best = nullptr;
    for (const PlacementDevice& device : options_.devices) {
      if (!asked.Matches(device.name) || !can_run_all(device)) continue;
      if (best == nullptr || device.name.ToString() == options_.default_device) best = &device;
    }
    if (best != nullptr) return best;
    if (options_.allow_soft_placement) {
      // Prefer another device of the same task, then any device.
      DeviceName task = asked;
      task.type.reset();
      task.id.reset();
      for (const DeviceName& wish : {task, DeviceName()}) {
        for (const PlacementDevice& device : options_.devices) {
          if (!wish.Matches(device.name) || !can_run_all(device)) continue;
          if (best == nullptr || device.name.ToString() == options_.default_device) best = &device;
        }
        if (best != nullptr) return best;
      }
    }
    std::vector<std::string> names;
    for (const PlacementDevice& device : options_.devices) names.push_back(device.name.ToString());
    std::sort(names.begin(), names.end());
    return InvalidArgument("Cannot assign a device for operation ", Asker(members).name(),
                           ": Operation was explicitly assigned to ", asked, " but available devices are [ ",
                           absl::StrJoin(names, ", "),
                           " ]. Make sure the device specification refers to a valid device.");
  }

  const Graph& graph_;
  const PlacerOptions& options_;
  Groups groups_;
  absl::flat_hash_set<std::string> functions_;
  std::vector<const PlacementDevice*> chosen_;  // by root of a set; nullptr if it could not be placed
};

}  // namespace

absl::StatusOr<std::vector<Placed>> Place(Graph& graph, const PlacerOptions& options) {
  Placement placement(graph, options);
  RETURN_IF_ERROR(placement.Decide());
  return placement.Set();
}

void StatePlacement::Update(const Graph& graph, const PlacerOptions& options) {
  // Nodes that only compute decide nothing.
  const bool matters = std::any_of(graph.nodes().begin() + known_nodes_, graph.nodes().end(), [](const auto& node) {
    return node->is_stateful() || HasAttr(node->def(), "_class") ||
           std::any_of(node->inputs().begin(), node->inputs().end(),
                       [](const Output& input) { return IsRef(input.dtype()) || input.dtype() == kResource; });
  });
  known_nodes_ = graph.num_nodes();
  if (!matters) return;
  PlacerOptions with_known = options;
  with_known.states = this;
  Placement placement(graph, with_known);
  if (!placement.DecideWherePossible().ok()) return;
  for (const auto& node : graph.nodes()) {
    if (node->schema() == nullptr || !node->is_stateful()) continue;
    if (const PlacementDevice* device = placement.device(*node)) {
      decisions_.try_emplace(node->name(), Decision{node->op(), device->name, placement.wish(*node)});
    }
  }
}

const StatePlacement::Decision* StatePlacement::Find(const Node& node) const {
  const auto it = decisions_.find(node.name());
  return it == decisions_.end() || it->second.op != node.op() ? nullptr : &it->second;
}

}  // namespace thalweg
