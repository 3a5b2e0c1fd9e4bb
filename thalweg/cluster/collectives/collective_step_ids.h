// SPDX-License-Identifier: Apache-2.0
// Numbers the steps that run collectives. Masters whose graphs have the same collectives run the
// same steps and must give them the same ids. They start with the id that the group's leader
// assigns and then count up, whether steps succeed or fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/mutex.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// A key that is the same for all graphs with the same collective instances, computed as in
// TensorFlow. 0 if the graph has no collectives.
int64_t CollectiveGraphKey(const Graph& graph);

// Whether ops of this type exchange values with the members of a group.
bool IsCollective(absl::string_view op);

// Whether steps of the graph run collectives, or end those of other steps.
bool UsesCollectives(const Graph& graph);

// Thread-safe.
class CollectiveStepIds {
 public:
  // The id of the next step of graphs with this key in a session; nullopt if the leader must be
  // asked.
  std::optional<int64_t> Next(const std::string& session, int64_t graph_key) const;
  void Set(const std::string& session, int64_t graph_key, int64_t step_id);
  // The next id of the leader's own sequence, for all sessions. Starts a sequence if there is none.
  // RESOURCE_EXHAUSTED if there are too many, since the keys come from other tasks.
  absl::StatusOr<int64_t> NextOfLeader(int64_t graph_key);
  // Records that a step has ended, so that its id is not used again.
  void Retire(int64_t step_id);
  void Forget(const std::string& session);

 private:
  mutable Mutex mutex_;
  // By session, "" for the leader's own, and graph key.
  absl::flat_hash_map<std::pair<std::string, int64_t>, int64_t> next_ ABSL_GUARDED_BY(mutex_);
  int of_leader_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace thalweg
