// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/scaffold.h"

#include <map>
#include <set>

#include "thalweg/base/status.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/session/summary.h"

namespace thalweg {
namespace {

Output InitializeLocalVariables(const Scope& s) {
  std::vector<Output> initializers;
  for (const Var& v : LocalVariables(s.graph())) initializers.push_back(v.initializer);
  return initializers.empty() ? Output() : Group(s.WithOpName("init_local"), initializers);
}

}  // namespace

ReadyCheck::ReadyCheck(const Scope& s) {
  const Scope own = s.InScope("").WithoutControlDependencies().SubScope("report_uninitialized_variables");
  std::map<std::string, std::vector<Var>> by_device;
  for (const Var& v : GlobalVariables(s.graph())) by_device[v.ref.node->device()].push_back(v);
  for (const auto& [device, variables] : by_device) {
    Group group;
    std::vector<Output> initialized;
    for (const Var& v : variables) {
      group.names.push_back(v.name());
      initialized.push_back(IsVariableInitialized(own.ColocateWith(v.ref), v.ref));
    }
    group.initialized = Pack(own.WithDevice(device), initialized);
    groups_.push_back(std::move(group));
  }
}

absl::StatusOr<std::vector<std::string>> ReadyCheck::Uninitialized(Session& session) const {
  std::vector<std::string> names;
  if (groups_.empty()) return names;
  std::vector<Fetch> fetches;
  for (const Group& group : groups_) fetches.push_back(group.initialized);
  ASSIGN_OR_RETURN(const std::vector<Tensor> results, session.Run(fetches));
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (size_t j = 0; j < groups_[i].names.size(); ++j) {
      if (!results[i].data<bool>()[j]) names.push_back(groups_[i].names[j]);
    }
  }
  return names;
}

Scaffold CompleteScaffold(const Scope& s, Scaffold scaffold, bool with_saver) {
  const Scope root = s.InScope("").WithoutControlDependencies();
  if (!scaffold.init_op) scaffold.init_op = InitializeVariables(root);
  if (!scaffold.local_init_op) scaffold.local_init_op = InitializeLocalVariables(root);
  if (!scaffold.summary_op) scaffold.summary_op = summary::MergeAll(root);
  if (with_saver && scaffold.saver == nullptr && !GlobalVariables(s.graph()).empty()) {
    scaffold.saver = std::make_shared<Saver>(root);
  }
  return scaffold;
}

std::vector<std::string> TasksOf(const Graph& graph) {
  std::set<std::string> tasks;
  for (const auto& node : graph.nodes()) {
    if (node->device().empty()) continue;
    const absl::StatusOr<DeviceName> name = DeviceName::Parse(node->device());
    if (!name.ok() || !name->job) continue;
    tasks.insert(DeviceName{.job = name->job, .replica = {}, .task = name->task, .type = {}, .id = {}}.ToString());
  }
  return std::vector<std::string>(tasks.begin(), tasks.end());
}

}  // namespace thalweg
