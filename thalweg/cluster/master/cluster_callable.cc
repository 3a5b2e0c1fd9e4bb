// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/cluster_callable.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/collectives/collective_step_ids.h"
#include "thalweg/cluster/master/master_session.h"
#include "thalweg/cluster/worker/update_ledger.h"
#include "thalweg/graph/file_role.h"
#include "thalweg/graph/sync_role.h"
#include "thalweg/runtime/graph_optimizer.h"
#include "thalweg/runtime/partitioner.h"

namespace thalweg {
namespace {

GraphOptimizerOptions GraphOptimizerOptionsOf(const tensorflow::ConfigProto& config) {
  const auto& options = config.graph_options().optimizer_options();
  const auto& rewrite = config.graph_options().rewrite_options();
  GraphOptimizerOptions result;
  if (options.opt_level() == tensorflow::OptimizerOptions::L0) {
    result.fold_constants = result.merge_common_subexpressions = false;
  }
  if (rewrite.disable_meta_optimizer() || rewrite.constant_folding() == tensorflow::RewriterConfig::OFF) {
    result.fold_constants = false;
  }
  return result;
}

template <typename Predicate>
bool AnyNode(const Graph& graph, Predicate predicate) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) { return predicate(*node); });
}

// Whether steps update variables that steps of other masters may update, too. If the graph
// updates variables of other tasks, those in the master's own task do not count. The
// aggregation round of synchronous training, which begins by waiting for gradients, is not
// delayed by saves: the chief, which saves, has not sent its own gradient.
// The same holds for steps with collectives: they cannot end before the chief, which saves,
// has reached them.
bool HasSharedUpdates(const Graph& graph, const std::string& self) {
  const std::string own = absl::StrCat(self, "/");
  const auto is_own = [&](const Node& node) { return absl::StartsWith(node.device(), own); };
  const bool only_own = !AnyNode(graph, [&](const Node& node) { return !is_own(node); });
  return AnyNode(graph, [&](const Node& node) { return ChangesVariable(node) && (only_own || !is_own(node)); }) &&
         !AnyNode(graph, [](const Node& node) {
           return SyncRoleOf(node) == SyncRole::kTakeGradients || IsCollective(node.op());
         });
}

bool HasFileRole(const Graph& graph, FileRole role) {
  return AnyNode(graph, [&](const Node& node) { return FileRoleOf(node.op()) == role; });
}
bool WritesCheckpoint(const Graph& graph) { return HasFileRole(graph, FileRole::kSave); }
bool ReadsCheckpoint(const Graph& graph) { return HasFileRole(graph, FileRole::kRestore); }
bool WritesSnapshot(const Graph& graph) { return HasFileRole(graph, FileRole::kSnapshot); }

tensorflow::ThalwegTransfers TransfersOf(const MasterSessionOptions& session, const std::vector<GraphPart>& parts) {
  tensorflow::ThalwegTransfers transfers;
  transfers.set_master_task(session.self);
  transfers.set_sent_nanos(NowNanos());
  for (const ClusterDevices::Task& task : session.devices.tasks) {
    if (task.takes_pushes) transfers.add_push_task(task.name);
  }
  const auto& push_tasks = transfers.push_task();
  transfers.set_all_pushed(std::all_of(parts.begin(), parts.end(), [&](const GraphPart& p) {
    return std::find(push_tasks.begin(), push_tasks.end(), p.task) != push_tasks.end();
  }));
  return transfers;
}

// Has the workers compile the parts. They wait together, for as long as all of
// them are alive.
absl::Status Register(std::vector<GraphPart> parts, const MasterSessionOptions& session, Cancellation& cancellation,
                      const tensorflow::DebugOptions& debug, ClusterCallable* callable) {
  const tensorflow::ThalwegTransfers transfers = TransfersOf(session, parts);
  callable->cleans_up = transfers.all_pushed();
  callable->parts.resize(parts.size());
  std::vector<tensorflow::RegisterGraphRequest> requests(parts.size());
  std::vector<tensorflow::RegisterGraphResponse> responses(parts.size());
  std::vector<absl::Status> statuses(parts.size());
  std::vector<Peer> peers;
  BlockingCounter left(static_cast<int>(parts.size()));
  for (size_t i = 0; i < parts.size(); ++i) {
    ClusterCallable::Part& part = callable->parts[i];
    part.task = parts[i].task;
    part.worker = session.workers->Find(part.task);
    part.feeds = std::move(parts[i].feeds);
    part.fetches = std::move(parts[i].fetches);
    const auto& nodes = parts[i].graph.node();
    part.saves = std::any_of(nodes.begin(), nodes.end(),
                             [](const auto& node) { return FileRoleOf(node.op()) == FileRole::kSave; });
    CHECK(part.worker != nullptr) << part.task;
    if (part.task != session.self) peers.push_back({part.task, part.worker, session.workers});
  }
  callable->peers = std::make_shared<const std::vector<Peer>>(peers);
  const WatchedCalls watched(session.health, std::move(peers), &cancellation);
  for (size_t i = 0; i < parts.size(); ++i) {
    requests[i].set_session_handle(session.handle);
    requests[i].set_create_worker_session_called(true);
    *requests[i].mutable_graph_def() = std::move(parts[i].graph);
    *requests[i].mutable_graph_options() = session.config.graph_options();
    *requests[i].mutable_thalweg() = transfers;
    if (debug.debug_tensor_watch_opts_size() > 0) *requests[i].mutable_debug_options() = debug;
    if (callable->collective_graph_key != 0) {
      requests[i].set_collective_graph_key(callable->collective_graph_key);
      *requests[i].mutable_config_proto() = session.config;
    }
    callable->parts[i].worker->RegisterGraph({.cancellation = watched.cancellation().get()}, requests[i], &responses[i],
                                             [&statuses, &left, i](const absl::Status& status) {
                                               statuses[i] = status;
                                               left.DecrementCount();
                                             });
  }
  left.Wait();
  RETURN_IF_ERROR(cancellation.status());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!statuses[i].ok()) return FromTask(watched.Explain(statuses[i]), callable->parts[i].task);
    callable->parts[i].graph_handle = responses[i].graph_handle();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FromTask(const absl::Status& status, const std::string& task) {
  return Prepend(status, absl::StrCat("From ", task, ":\n"));
}

void ClusterCallable::CleanUp(int64_t step_id) const {
  // Do not wait for tasks that are gone.
  constexpr absl::Duration kTimeout = absl::Seconds(10);
  for (const Part& part : parts) {
    part.worker->CleanupGraph({.timeout = kTimeout}, step_id, [](const absl::Status&) {});
  }
}

void ClusterCallable::Deregister(const std::string& session_handle) const {
  constexpr absl::Duration kTimeout = absl::Seconds(10);
  for (const Part& part : parts) {
    auto request = std::make_shared<tensorflow::DeregisterGraphRequest>();
    request->set_session_handle(session_handle);
    request->set_create_worker_session_called(true);
    request->set_graph_handle(part.graph_handle);
    part.worker->DeregisterGraph({.timeout = kTimeout}, *request, [request](const absl::Status&) {});
  }
}

absl::StatusOr<PrepareOptions> PrepareOptionsOf(const MasterSessionOptions& session) {
  PrepareOptions prepare{.placer = {.default_device = session.client_device(),
                                    .allow_soft_placement = session.config.allow_soft_placement()},
                         .log_device_placement = session.config.log_device_placement(),
                         .absent_tasks = session.devices.absent,
                         .folding_device = session.folding_device.get(),
                         .optimizer = GraphOptimizerOptionsOf(session.config)};
  for (const ClusterDevices::Task& task : session.devices.tasks) {
    for (const tensorflow::DeviceAttributes& device : task.devices) {
      ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(device.name()));
      prepare.placer.devices.push_back({std::move(name)});
    }
  }
  return prepare;
}

absl::StatusOr<std::shared_ptr<const ClusterCallable>> RegisterParts(Graph graph, const Signature& signature,
                                                                     int64_t number,
                                                                     const MasterSessionOptions& session,
                                                                     Cancellation& cancellation,
                                                                     const tensorflow::DebugOptions& debug) {
  const auto callable = std::make_shared<ClusterCallable>();
  callable->signature = signature;
  callable->collective_graph_key = CollectiveGraphKey(graph);
  callable->updates = HasSharedUpdates(graph, session.self);
  callable->writes_checkpoint = WritesCheckpoint(graph);
  callable->saves = callable->writes_checkpoint && !WritesSnapshot(graph);
  callable->restores = ReadsCheckpoint(graph);
  callable->trains = IsTraining(graph);
  const bool all_ours = std::all_of(session.devices.tasks.begin(), session.devices.tasks.end(),
                                    [](const ClusterDevices::Task& task) { return task.takes_pushes; });
  const auto takes_pushes = [&](const std::string& name) {
    return std::any_of(session.devices.tasks.begin(), session.devices.tasks.end(),
                       [&](const ClusterDevices::Task& task) { return task.name == name && task.takes_pushes; });
  };
  const PartitionOptions partition{
      .incarnation = [&](const std::string& device) { return session.devices.Incarnation(device); },
      .pushes = [&](const std::string& from, const std::string& to) { return takes_pushes(from) && takes_pushes(to); },
      .suffix = all_ours ? "" : absl::StrCat("_S", number)};
  RETURN_IF_ERROR(FailPoint("master.register_graph", session.self));
  ASSIGN_OR_RETURN(std::vector<GraphPart> parts, Partition(std::move(graph), signature, partition));
  // The master's own part runs on the thread that starts the others, after them.
  std::stable_partition(parts.begin(), parts.end(), [&](const GraphPart& p) { return p.task != session.self; });
  RETURN_IF_ERROR(Register(std::move(parts), session, cancellation, debug, callable.get()));
  return std::shared_ptr<const ClusterCallable>(callable);
}

}  // namespace thalweg
