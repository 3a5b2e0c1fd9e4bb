#include "thalweg/runtime/placer.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {
namespace {

// Nodes that must share a device, as sets that are joined (union-find), each
// with what its members ask for together.
class Groups {
 public:
  explicit Groups(int nodes) : parent_(nodes), size_(nodes, 1), firm_(nodes), asked_(nodes), why_(nodes), near_(nodes) {
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

  // The node holds a state that is where the node asks for.
  void MakeFirm(const Node& node) { firm_[node.id()] = !node.device().empty(); }

  // Joins the sets of two nodes, `second` for being near `first`. What `second`
  // alone asks for gives way, as in TensorFlow; what others that it must be with
  // ask for does not, unless `first` holds a state and none of them does.
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
  std::string Why(const Node& node) {
    const std::string& wish = why_[Find(node.id())];
    const std::string& near = near_[node.id()];
    if (near.empty()) return wish.empty() ? "default" : wish;
    return wish.empty() ? near : absl::StrCat(near, ", ", wish);
  }

 private:
  std::vector<int> parent_;
  std::vector<int> size_;          // of a set, at its root
  std::vector<bool> firm_;         // of a set, at its root
  std::vector<DeviceName> asked_;  // of a set, at its root
  std::vector<std::string> why_;   // of a set, at its root
  std::vector<std::string> near_;  // of a node: the other that it must be with
};

class Placement {
 public:
  Placement(Graph& graph, const PlacerOptions& options)
      : graph_(graph), options_(options), groups_(graph.num_nodes()) {}

  absl::StatusOr<std::vector<Placed>> Run() {
    if (options_.devices.empty()) return InvalidArgument("No devices to place nodes on");
    for (const auto& node : graph_.nodes()) RETURN_IF_ERROR(groups_.Ask(*node));
    // What a handle goes through joins it one after the other, so that what each
    // alone asks for gives way.
    for (const auto& node : graph_.nodes()) {
      if (HoldsState(*node)) groups_.MakeFirm(*node);
    }
    ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph_));
    for (const Node* node : order) RETURN_IF_ERROR(JoinWithOthers(*node));
    // Every set is placed once, by what all of its members can do.
    std::vector<std::vector<const Node*>> members(graph_.num_nodes());
    for (const auto& node : graph_.nodes()) members[groups_.Find(node->id())].push_back(node.get());
    std::vector<const PlacementDevice*> chosen(graph_.num_nodes());
    for (int root = 0; root < graph_.num_nodes(); ++root) {
      if (members[root].empty()) continue;
      ASSIGN_OR_RETURN(chosen[root], Choose(root, members[root]));
    }
    std::vector<Placed> placed;
    for (const auto& node : graph_.nodes()) {
      const PlacementDevice& device = *chosen[groups_.Find(node->id())];
      std::string why = groups_.Why(*node);
      if (!groups_.asked(node->id()).Matches(device.name)) absl::StrAppend(&why, ", softly replaced");
      node->set_device(device.name.ToString());
      placed.push_back({node->name(), node->op(), node->device(), std::move(why)});
    }
    return placed;
  }

 private:
  // A variable, a table, a queue that does not ask to be near another node.
  static bool HoldsState(const Node& node) {
    if (!node.is_stateful() || node.num_inputs() > 0 || node.num_outputs() == 0) return false;
    if (node.output_type(0) != kResource && !IsRef(node.output_type(0))) return false;
    const auto classes = GetAttr<std::vector<std::string>>(node.def(), "_class");
    return !classes.ok() || std::all_of(classes->begin(), classes->end(), [&](const std::string& name) {
      return name == absl::StrCat("loc:@", node.name());
    });
  }

  absl::Status JoinWithOthers(const Node& node) {
    if (HasAttr(node.def(), "_class")) {
      ASSIGN_OR_RETURN(const std::vector<std::string> classes, GetAttr<std::vector<std::string>>(node.def(), "_class"));
      for (absl::string_view name : classes) {
        if (!absl::ConsumePrefix(&name, "loc:@")) continue;
        const Node* other = graph_.FindNode(name);
        if (other == nullptr) continue;  // pruned away: nothing to be near to
        // Colocation wins over the node's own device.
        RETURN_IF_ERROR(groups_.Join(*other, node));
      }
    }
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output& input = node.input(i);
      const bool by_reference = IsRef(node.input_type(i));
      // Through loops and conditionals too: a handle is used where it is from.
      const bool by_handle =
          node.input_type(i) == kResource && input.node->schema() != nullptr && node.op() != "_Retval";
      if (by_reference || by_handle) {
        // What it refers to is where it is: another device that the node asks
        // for is ignored, as TensorFlow ignores it.
        RETURN_IF_ERROR(groups_.Join(*input.node, node));
      }
    }
    return absl::OkStatus();
  }

  static bool CanRun(const Node& node, const std::string& device_type) {
    // Nodes without kernels of their own run anywhere; unknown ops fail later,
    // in the steps that need them.
    return node.schema() == nullptr || node.op() == "_Arg" || node.op() == "_Retval" ||
           KernelRegistry::Global().Has(node.op(), device_type) || !KernelRegistry::Global().Has(node.op(), "CPU");
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
      // The same task on another device, else the default.
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
    return InvalidArgument("Cannot assign a device for operation ", members[0]->name(),
                           ": Operation was explicitly assigned to ", asked, " but available devices are [ ",
                           absl::StrJoin(names, ", "),
                           " ]. Make sure the device specification refers to a valid device.");
  }

  Graph& graph_;
  const PlacerOptions& options_;
  Groups groups_;
};

}  // namespace

absl::StatusOr<std::vector<Placed>> Place(Graph& graph, const PlacerOptions& options) {
  return Placement(graph, options).Run();
}

std::string DescribePlacement(const Placed& placed) {
  return absl::StrCat(placed.node, ": (", placed.op, "): ", placed.device, " (", placed.reason, ")");
}

std::string DescribePlacement(const std::vector<Placed>& placement) {
  return absl::StrJoin(placement, "\n",
                       [](std::string* out, const Placed& p) { absl::StrAppend(out, DescribePlacement(p)); });
}

}  // namespace thalweg
