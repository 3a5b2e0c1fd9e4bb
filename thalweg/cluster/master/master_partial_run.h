// A step of a master's session that the client feeds and fetches piece by piece.
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

  // Whether a fetch needs none of those that have not been fed.
  using CheckComputable = std::function<absl::Status(const std::string& fetch, const std::set<std::string>& not_fed)>;
  // Counts off what a call feeds and fetches, each of which comes once. Sets
  // `is_last` if nothing is left.
  absl::Status Take(const RunStepCall& call, const CheckComputable& check, bool* is_last);

  // Passes the call on to the parts. REQUIRES: Take() was content with it.
  void Exchange(const CallOptions& options, RunStepCall call, bool is_last, RunStepResult* result, Master::Done done);

  // Ends it in its tasks.
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
