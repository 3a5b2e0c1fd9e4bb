// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/worker_session.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/collectives/collective_step_ids.h"
#include "thalweg/cluster/debug_reports.h"
#include "thalweg/cluster/request_id.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/file_role.h"
#include "thalweg/graph/unusable_node.h"
#include "thalweg/kernel/send_key.h"
#include "thalweg/runtime/debug_nodes.h"
#include "thalweg/runtime/functions.h"
#include "thalweg/runtime/planner.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {
namespace {

using tensorflow::NodeDef;

bool IsClientTerminated(const NodeDef& def) {
  const absl::StatusOr<bool> attr = GetAttr<bool>(def, "client_terminated");
  return attr.ok() && *attr;
}

// Turns the ends that the master completes into arguments and results, which
// need no rendezvous and no wait.
absl::Status BindByPosition(tensorflow::GraphDef& def, RegisteredGraph& graph) {
  for (NodeDef& node : *def.mutable_node()) {
    RETURN_IF_ERROR(CheckNoArgument(node));
    const bool is_recv = node.op() == "_Recv";
    if ((!is_recv && node.op() != "_Send") || !IsClientTerminated(node)) continue;
    ASSIGN_OR_RETURN(const RendezvousKey key, SendKeyOf(node));
    ASSIGN_OR_RETURN(const DType type, GetAttr<DType>(node, is_recv ? "tensor_type" : "T"));
    auto& index_by_key = is_recv ? graph.arg_by_key : graph.result_by_key;
    const auto index = static_cast<int64_t>(index_by_key.size());
    if (!index_by_key.emplace(key.ToString(), static_cast<int>(index)).second) {
      return InvalidArgument("{{node ", node.name(), "}}: another node has the same key");
    }
    node.set_op(is_recv ? "_Arg" : "_Retval");
    node.clear_attr();
    SetAttr(node, "T", type);
    SetAttr(node, "index", index);
  }
  return absl::OkStatus();
}

bool HasTransfers(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->op() == "_Send" || node->op() == "_Recv" || node->op() == "_HostSend" || node->op() == "_HostRecv";
  });
}

// 0 if a node may save more than once, or not at all, in a step.
int CountSaves(const Graph& graph) {
  int saves = 0;
  for (const auto& node : graph.nodes()) {
    if (IsControlFlow(*node)) return 0;
    if (FileRoleOf(node->op()) == FileRole::kSave) ++saves;
  }
  return saves;
}

std::vector<WaitReason> WaitReasonsOf(const Plan& plan) {
  std::vector<WaitReason> reasons(plan.wait_successors.size());
  for (const Instruction& in : plan.code) {
    const bool waits = in.async && in.loop == nullptr;  // the time in loops counts as computing
    if (waits) reasons[static_cast<size_t>(in.async_index)] = WaitReasonOf(*in.call.node);
  }
  return reasons;
}

}  // namespace

Device* WorkerSession::FindDevice(const std::string& name) const {
  for (const auto& device : devices_) {
    if (device->name() == name) return device.get();
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<Executable>> WorkerSession::CompileGraph(const tensorflow::GraphDef& def,
                                                                        const tensorflow::DebugOptions& debug) {
  Graph graph;
  RETURN_IF_ERROR(graph.Import(def));
  if (const std::optional<tensorflow::GraphDef> changed = ReplaceUnusable(graph, def)) {
    graph = Graph();
    RETURN_IF_ERROR(graph.Import(*changed));
  }
  // Masters of TensorFlow leave calls of functions to the workers.
  std::vector<std::string> targets;
  RETURN_IF_ERROR(InlineFunctions(graph, &targets));
  for (const auto& node : graph.nodes()) {
    ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(node->device()));
    std::string full = name.ToString();
    if (FindDevice(full) == nullptr) {
      return InvalidArgument("{{node ", node->name(), "}} is on ", node->device(), ", which is not a device of ",
                             task_);
    }
    node->set_device(std::move(full));
  }
  if (WatchesTensors(debug)) {
    RETURN_IF_ERROR(InsertDebugNodes(debug, graph));
    RETURN_IF_ERROR(PublishDebugGraph(debug, graph));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable,
                   Compile(
                       std::move(graph), [this](const std::string& name) { return FindDevice(name); },
                       [this](const Node& node, Device& device) -> absl::StatusOr<std::shared_ptr<Kernel>> {
                         ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel, kernels_.Make(node, device));
                         return WithSaveNotice(OncePerStep(std::move(kernel), node, ledger_), node);
                       }));
  return std::shared_ptr<Executable>(std::move(executable));
}

absl::StatusOr<std::string> WorkerSession::Register(const tensorflow::RegisterGraphRequest& request,
                                                    const std::string& collective_leader) {
  const tensorflow::GraphDef& def = request.graph_def();
  Graphs graphs{.whole = std::make_shared<RegisteredGraph>(), .partial = nullptr, .def = def};
  tensorflow::GraphDef bound = def;
  RETURN_IF_ERROR(BindByPosition(bound, *graphs.whole));
  ASSIGN_OR_RETURN(graphs.whole->executable, CompileGraph(bound, request.debug_options()));
  graphs.whole->has_transfers = HasTransfers(graphs.whole->executable->graph);
  graphs.whole->trains = IsTraining(graphs.whole->executable->graph);
  graphs.whole->saves = CountSaves(graphs.whole->executable->graph);
  graphs.whole->wait_reasons = WaitReasonsOf(graphs.whole->executable->plan);
  if (UsesCollectives(graphs.whole->executable->graph)) {
    const std::string& leader = request.config_proto().experimental().collective_group_leader();
    graphs.whole->collectives = std::make_shared<GraphCollectives>(
        task_, workers_, leader.empty() ? collective_leader : leader, last_collective_);
  }
  const tensorflow::ThalwegTransfers& transfers = request.thalweg();
  if (transfers.sent_nanos() != 0) master_clock_.Age(transfers.sent_nanos(), NowNanos());
  graphs.whole->rules = std::make_shared<TransferRules>(
      TransferRules{.push_tasks = {transfers.push_task().begin(), transfers.push_task().end()},
                    .master_task = transfers.master_task(),
                    .all_pushed = transfers.all_pushed()});
  std::string handle = NewHandle();
  MutexLock lock(&mutex_);
  graphs_[handle] = std::move(graphs);
  return handle;
}

absl::Status WorkerSession::Deregister(const std::string& handle) {
  Graphs removed;  // destroyed after the lock is gone
  MutexLock lock(&mutex_);
  const auto it = graphs_.find(handle);
  if (it == graphs_.end()) {
    return Aborted("Graph handle is not found: ", handle, ". Possibly, this worker just restarted.");
  }
  removed = std::move(it->second);
  graphs_.erase(it);
  return absl::OkStatus();
}

int WorkerSession::num_graphs() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(graphs_.size());
}

absl::StatusOr<std::shared_ptr<RegisteredGraph>> WorkerSession::Find(const std::string& handle) const {
  MutexLock lock(&mutex_);
  const auto it = graphs_.find(handle);
  if (it == graphs_.end()) return Aborted("Graph handle is not found: ", handle);
  return it->second.whole;
}

absl::StatusOr<std::shared_ptr<Executable>> WorkerSession::FindPartial(const std::string& handle) {
  tensorflow::GraphDef def;
  {
    MutexLock lock(&mutex_);
    const auto it = graphs_.find(handle);
    if (it == graphs_.end()) return Aborted("Graph handle is not found: ", handle);
    if (it->second.partial != nullptr) return it->second.partial;
    def = it->second.def;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> compiled, CompileGraph(def, {}));
  MutexLock lock(&mutex_);
  const auto it = graphs_.find(handle);
  if (it == graphs_.end()) return Aborted("Graph handle is not found: ", handle);
  if (it->second.partial == nullptr) it->second.partial = compiled;
  return it->second.partial;
}

}  // namespace thalweg
