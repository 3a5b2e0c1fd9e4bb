// SPDX-License-Identifier: Apache-2.0
// A partial run: a step of a master's session that the client feeds and fetches in several
// calls.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/master/cluster_callable.h"
#include "thalweg/cluster/master/master.h"

namespace thalweg {

// Thread-safe.
class MasterPartialRun : public std::enable_shared_from_this<MasterPartialRun> {
 public:
  // `health` is borrowed.
  MasterPartialRun(std::string session_handle, std::shared_ptr<const ClusterCallable> callable, PeerHealth* health);

  // Checks that a fetch does not depend on feeds that have not been fed yet.
  using CheckComputable = std::function<absl::Status(const std::string& fetch, const std::set<std::string>& not_fed)>;
  // Checks and records the feeds and fetches of a call. Each feed and fetch is allowed
  // once. Sets `is_last` if none is left.
  absl::Status Take(const RunStepCall& call, const CheckComputable& check, bool* is_last);

  // Forwards the call to the partitions. REQUIRES: Take() returned OK.
  void Exchange(const CallOptions& options, RunStepCall call, bool is_last, RunStepResult* result, Master::Done done);

  // Ends the step in its tasks.
  void CleanUp() const { callable_->CleanUp(step_id_); }

 private:
  struct Exchanged;
  void Ended(const Exchanged& exchange, const absl::Status& status, RunStepResult* result) const;

  const std::string session_handle_;
  const std::shared_ptr<const ClusterCallable> callable_;
  PeerHealth* const health_;
  const int64_t step_id_;
  Mutex mutex_;
  std::set<std::string> feeds_left_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> fetches_left_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
