// SPDX-License-Identifier: Apache-2.0
// The collectives of one task: runs those of its steps, serves what other
// members want of it, and watches that they are alive.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/collectives/buffer_rendezvous.h"
#include "thalweg/cluster/collectives/collective_groups.h"
#include "thalweg/cluster/collectives/host_collectives.h"
#include "thalweg/cluster/membership.h"
#include "thalweg/cluster/peer_health.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/kernel/collectives.h"

namespace thalweg {

// What the collectives of one graph share, and what they have learned of their
// groups. Thread-safe.
class GraphCollectives {
 public:
  GraphCollectives(std::string task, std::shared_ptr<Workers> workers, std::string leader)
      : task(std::move(task)), workers(std::move(workers)), leader(std::move(leader)) {}

  const std::string task;  // as the session calls this one
  const std::shared_ptr<Workers> workers;
  const std::string leader;

  // What the leader has told a device of a group and of an instance, if it has.
  std::shared_ptr<const CollectiveGroup> FindGroup(int32_t group_key, const std::string& device) const;
  void AddGroup(int32_t group_key, const std::string& device, std::shared_ptr<const CollectiveGroup> group);
  std::optional<int> FindSource(int32_t group_key, int32_t instance_key, const std::string& device) const;
  void AddSource(int32_t group_key, int32_t instance_key, const std::string& device, int source);
  // Something went wrong: the leader is asked again.
  void Forget(int32_t group_key);

 private:
  mutable Mutex mutex_;
  std::map<std::pair<int32_t, std::string>, std::shared_ptr<const CollectiveGroup>> groups_ ABSL_GUARDED_BY(mutex_);
  std::map<std::tuple<int32_t, int32_t, std::string>, int> sources_ ABSL_GUARDED_BY(mutex_);
};

struct TaskCollectivesOptions {
  std::string task;
  Membership* membership = nullptr;  // borrowed
  PeerHealth* health = nullptr;      // borrowed; nullptr: the leader is not watched
  std::string host;                  // see HostIdentity(); "": collectives do not share memory with other tasks
};

// Thread-safe.
class TaskCollectives {
 public:
  explicit TaskCollectives(const TaskCollectivesOptions& options) : options_(options), host_(options.host) {}
  ~TaskCollectives();

  // What a step of a graph gives to its kernels. Must not outlive this.
  class StepPart;
  std::shared_ptr<StepPart> ForStep(std::shared_ptr<GraphCollectives> graph, int64_t step_id);

  // A task that does not answer for so long is dead.
  absl::Duration peer_timeout() const {
    return options_.health == nullptr ? absl::Seconds(5) : options_.health->timeout();
  }
  CollectiveGroups& groups() { return groups_; }
  BufferRendezvous& buffers() { return buffers_; }

  // A member elsewhere has given a step up.
  void AbortStep(int64_t step_id, const absl::Status& why);
  void Shutdown(const absl::Status& why);
  // Starts to watch, if that has not begun: somebody waits.
  void StartWatch();

 private:
  class Run;

  void Watch();
  void AskPeers();
  void Report(absl::Time now);
  std::vector<std::shared_ptr<Run>> Running() const;
  void Answered(const std::string& task, Worker* worker, const absl::Status& status,
                const tensorflow::GetStatusResponse& response);

  const TaskCollectivesOptions options_;
  BufferRendezvous buffers_;
  CollectiveGroups groups_;
  HostCollectives host_;
  Timer timer_;
  Cancellation closed_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<Run*, std::weak_ptr<Run>> running_ ABSL_GUARDED_BY(mutex_);
  std::set<Worker*> asked_ ABSL_GUARDED_BY(mutex_);  // without an answer yet
  std::unique_ptr<Thread> thread_ ABSL_GUARDED_BY(mutex_);
  // Only the watching thread's.
  absl::flat_hash_map<Run*, absl::Duration> reported_;
  absl::Time leader_reported_;
};

// A step's part: the resource that its kernels find.
class TaskCollectives::StepPart : public Collectives {
 public:
  StepPart(TaskCollectives& task, std::shared_ptr<GraphCollectives> graph, int64_t step_id)
      : task_(task), graph_(std::move(graph)), step_id_(step_id) {}

  void Run(CollectiveCall call, Cancellation& cancellation, Done done) override;
  std::string Describe() const override;

  // The step has failed here: the other members learn of it.
  void Failed(const absl::Status& why);

  // For the runs.
  TaskCollectives& task() { return task_; }
  GraphCollectives& graph() { return *graph_; }
  int64_t step_id() const { return step_id_; }
  void AddGroup(const CollectiveGroup& group);

 private:
  TaskCollectives& task_;
  const std::shared_ptr<GraphCollectives> graph_;
  const int64_t step_id_;
  Mutex mutex_;
  std::set<std::string> tasks_ ABSL_GUARDED_BY(mutex_);  // of all members, but this one
};

}  // namespace thalweg
