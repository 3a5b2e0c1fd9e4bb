// SPDX-License-Identifier: Apache-2.0
// The numbers of steps with collectives. All masters whose graphs have the same
// collectives run the same steps, and must give them the same numbers: they
// begin where the group's leader is, and count on from there, whether a step
// ends well or fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// What masters know each other's graphs by: the same for all graphs with
// collectives of the same instances, as TensorFlow computes it. 0 if there are
// no collectives.
int64_t CollectiveGraphKey(const Graph& graph);

// Thread-safe.
class CollectiveStepIds {
 public:
  // The next step of graphs with this key in a session; nothing if the leader
  // must be asked.
  std::optional<int64_t> Next(const std::string& session, int64_t graph_key) const;
  void Set(const std::string& session, int64_t graph_key, int64_t step_id);
  // As the leader, for all sessions: starts a sequence if there is none.
  // RESOURCE_EXHAUSTED if there are very many: their keys come from others.
  absl::StatusOr<int64_t> NextOfLeader(int64_t graph_key);
  // The step is over: its number is not used again.
  void Retire(int64_t step_id);
  void Forget(const std::string& session);

 private:
  mutable Mutex mutex_;
  // By session, "" for the leader's own, and graph key.
  absl::flat_hash_map<std::pair<std::string, int64_t>, int64_t> next_ ABSL_GUARDED_BY(mutex_);
  int of_leader_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace thalweg
