// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/collective_step_ids.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"
#include "thalweg/graph/attr.h"
#include "thalweg/kernel/collectives.h"

namespace thalweg {
namespace {

constexpr char kEndsCollectives[] = "ThalwegCollectiveEnd";
constexpr char kAssemblesGroup[] = "ThalwegAssembleGroup";  // ends those of the group before

}  // namespace

bool IsCollective(absl::string_view op) {
  return absl::StartsWith(op, "Collective") || (absl::StartsWith(op, "ThalwegCollective") && op != kEndsCollectives);
}

int64_t CollectiveGraphKey(const Graph& graph) {
  std::set<int32_t> instances;
  bool any = false;
  for (const auto& node : graph.nodes()) {
    if (!IsCollective(node->op())) continue;
    any = true;
    // Others have their key as an input: the same sequence serves all of them.
    const bool named = HasAttr(node->def(), kInstanceKeyAttr);
    const absl::StatusOr<int64_t> key = GetAttr<int64_t>(node->def(), named ? kInstanceKeyAttr : "instance_key");
    if (key.ok()) instances.insert(static_cast<int32_t>(*key));
  }
  if (!any) return 0;
  uint64_t hash = 0x8774aa605c729c72;
  for (const int32_t instance : instances) {
    const auto k = static_cast<uint64_t>(static_cast<int64_t>(instance));
    hash = k ^ (hash + 0x9e3779b97f4a7800 + (k << 10) + (k >> 4));
  }
  return static_cast<int64_t>(hash);
}

bool UsesCollectives(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return IsCollective(node->op()) || node->op() == kEndsCollectives || node->op() == kAssemblesGroup;
  });
}

std::optional<int64_t> CollectiveStepIds::Next(const std::string& session, int64_t graph_key) const {
  MutexLock lock(&mutex_);
  const auto it = next_.find({session, graph_key});
  if (it == next_.end()) return std::nullopt;
  return it->second;
}

void CollectiveStepIds::Set(const std::string& session, int64_t graph_key, int64_t step_id) {
  MutexLock lock(&mutex_);
  next_[{session, graph_key}] = step_id;
}

absl::StatusOr<int64_t> CollectiveStepIds::NextOfLeader(int64_t graph_key) {
  constexpr int kMaxOfLeader = 100'000;
  MutexLock lock(&mutex_);
  const auto it = next_.find({"", graph_key});
  if (it != next_.end()) return it->second;
  if (of_leader_ >= kMaxOfLeader) {
    return ResourceExhausted("This task leads the collectives of ", of_leader_, " graphs, and takes no more");
  }
  ++of_leader_;
  return next_.emplace(std::pair("", graph_key), NewStepId()).first->second;
}

void CollectiveStepIds::Retire(int64_t step_id) {
  MutexLock lock(&mutex_);
  for (auto& [key, next] : next_) {
    if (next == step_id) next = (step_id + 1) & ((int64_t{1} << 57) - 1);
  }
}

void CollectiveStepIds::Forget(const std::string& session) {
  MutexLock lock(&mutex_);
  absl::erase_if(next_, [&](const auto& entry) { return entry.first.first == session; });
}

}  // namespace thalweg
