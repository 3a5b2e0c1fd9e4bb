// SPDX-License-Identifier: Apache-2.0
// One collective op of one step: finds the members of the group, agrees with them about the op, and
// exchanges the values.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/collectives/links.h"
#include "thalweg/cluster/collectives/task_collectives.h"

namespace thalweg {

// Thread-safe. Keeps itself alive while it runs.
class TaskCollectives::Run : public Links, public std::enable_shared_from_this<TaskCollectives::Run> {
 public:
  Run(TaskCollectives& task, StepPart& step, std::shared_ptr<GraphCollectives> graph, CollectiveCall call,
      Cancellation& cancellation, Collectives::Done done);

  void Start();
  void EndIfEnded();  // if a member has ended collectives like this one
  // Makes the run end soon with `why`.
  void Abort(const absl::Status& why) override;

  int64_t step_id() const { return step_id_; }
  absl::Time since() const { return since_; }
  std::string Describe() const;
  // The members that the run waits for, to send values or to receive them.
  std::vector<CollectiveGroup::Member> WaitsFor() const;
  // Members in shared memory or with connections of their own make no calls. If a run takes long, it asks the other
  // members to report if they give up the step: a member may have failed before it knew of the group.
  void AskForFailures();
  Worker* FindWorker(const std::string& task) const { return graph_->workers->Find(task); }
  const std::string& task() const { return graph_->task; }
  const std::shared_ptr<Workers>& workers() const { return graph_->workers; }

  void Send(int to, std::string key, Tensor value, Links::Done done) override;
  void Receive(int from, std::string key, Tensor into, Links::Done done) override;

 private:
  void ResolveGroup();
  void AskGroup(Worker& leader, bool wait_for_ready);
  // Until UnwatchLeader(), the death of the leader ends the run. A leader that has never answered may still
  // be starting.
  void WatchLeader(Worker& leader);
  void UnwatchLeader();
  void GotGroup(std::shared_ptr<const CollectiveGroup> group);
  void ResolveInstance();
  void Execute(int source);
  void ExecuteDirectly(DirectCollectives::Path path, const CollectiveGroup& group, const std::string& key, int source);
  void MergeInRankOrder(const CollectiveGroup& group, const std::string& key, Links::Done done);
  void PutApart();
  void PutOwnPart();
  void TakeOwnPart();
  void End(absl::Status status);
  void Waiting(int rank, bool for_values, int change);

  TaskCollectives& task_;
  StepPart& step_;  // lives until done_ is called
  const std::shared_ptr<GraphCollectives> graph_;
  const int64_t step_id_;
  const CollectiveCall call_;
  const absl::Time since_;
  Cancellation& outside_;
  std::optional<Cancellation::CallbackId> outside_id_;
  std::optional<Timer::AlarmId> alarm_;
  Collectives::Done done_;
  Cancellation calls_;      // cancels the calls in progress
  Cancellation questions_;  // cancels the calls of AskForFailures()
  int rank_ = 0;            // set before Execute

  mutable Mutex mutex_;
  std::shared_ptr<const CollectiveGroup> group_ ABSL_GUARDED_BY(mutex_);
  bool executing_ ABSL_GUARDED_BY(mutex_) = false;
  bool direct_running_ ABSL_GUARDED_BY(mutex_) = false;  // without calls, and AskForFailures() has not run
  std::optional<int64_t> leader_watch_ ABSL_GUARDED_BY(mutex_);
  std::map<int, int> receiving_ ABSL_GUARDED_BY(mutex_);  // transfers by rank
  std::map<int, int> sending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
