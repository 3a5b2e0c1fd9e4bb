// SPDX-License-Identifier: Apache-2.0
// The collective ops of one task. Runs those of its steps, serves the values that other members ask
// for, and checks that the other members are alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/collectives/buffer_rendezvous.h"
#include "thalweg/cluster/collectives/collective_groups.h"
#include "thalweg/cluster/collectives/direct_collectives.h"
#include "thalweg/cluster/membership.h"
#include "thalweg/cluster/peer_health.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/kernel/collectives.h"

namespace thalweg {

// When a collective of a session was last over; 0 if none was.
using LastCollective = std::atomic<int64_t>;

// State that all collective ops of one graph share, with a cache of the groups that the leader has sent.
// Thread-safe.
class GraphCollectives {
 public:
  // `last` belongs to the session of the graph.
  GraphCollectives(std::string task, std::shared_ptr<Workers> workers, std::string leader,
                   std::shared_ptr<LastCollective> last = std::make_shared<LastCollective>(0))
      : task(std::move(task)),
        workers(std::move(workers)),
        leader(std::move(leader)),
        last(std::move(last)),
        begun_nanos(*this->last != 0 ? this->last->load() : NowNanos()) {}

  const std::string task;  // this task's name in the session
  const std::shared_ptr<Workers> workers;
  const std::string leader;
  const std::shared_ptr<LastCollective> last;
  // The members that the graph works with have begun before. Those of the session's last collective are the same ones,
  // so a member that has begun again since is not among them, even if the graph was registered later.
  const int64_t begun_nanos;

  // The leader's answer to a device about a group and about an instance, if it is known.
  std::shared_ptr<const CollectiveGroup> FindGroup(int32_t group_key, const std::string& device) const;
  void AddGroup(int32_t group_key, const std::string& device, std::shared_ptr<const CollectiveGroup> group);
  std::optional<int> FindSource(int32_t group_key, int32_t instance_key, const std::string& device) const;
  void AddSource(int32_t group_key, int32_t instance_key, const std::string& device, int source);
  static constexpr size_t kMaxSources = 1 << 16;
  // All other tasks of the groups in the cache, also of those that were forgotten since.
  std::set<std::string> OtherTasks() const;
  // Removes a group from the cache after an error, so that the leader is asked again.
  void Forget(int32_t group_key);

 private:
  mutable Mutex mutex_;
  std::set<std::string> other_tasks_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<int32_t, std::string>, std::shared_ptr<const CollectiveGroup>> groups_ ABSL_GUARDED_BY(mutex_);
  // The newest kMaxSources: keys may be computed anew in every step. The leader is asked again about older ones.
  using SourceKey = std::tuple<int32_t, int32_t, std::string>;
  std::map<SourceKey, int> sources_ ABSL_GUARDED_BY(mutex_);
  std::deque<SourceKey> sources_by_age_ ABSL_GUARDED_BY(mutex_);
};

struct TaskCollectivesOptions {
  std::string task;
  Membership* membership = nullptr;  // borrowed
  PeerHealth* health = nullptr;      // borrowed; nullptr: the leader's health is not checked
  DirectCollectivesOptions direct;
};

// Thread-safe.
class TaskCollectives {
 public:
  explicit TaskCollectives(const TaskCollectivesOptions& options) : options_(options), direct_(options.direct) {}
  ~TaskCollectives();

  // The collectives of one step, which its kernels use. Must not outlive this object.
  class StepPart;
  std::shared_ptr<StepPart> ForStep(std::shared_ptr<GraphCollectives> graph, int64_t step_id);

  // A task that does not answer for this long counts as dead.
  absl::Duration peer_timeout() const {
    return options_.health == nullptr ? absl::Seconds(5) : options_.health->timeout();
  }
  CollectiveGroups& groups() { return groups_; }
  BufferRendezvous& buffers() { return buffers_; }

  // Ends a step that a member in another task has given up.
  void AbortStep(int64_t step_id, const absl::Status& why);
  // See Collectives::End().
  void EndInstances(const EndCollectives& which);
  void Shutdown(const absl::Status& why);
  // Starts the thread that checks other members, if it does not run yet. Call it before waiting for a member.
  void StartWatch();

 private:
  class Run;
  // Collectives that members have ended, of graphs that had begun before.
  struct Ended {
    int64_t nanos = 0;
    absl::Status why;
    bool tell_members = false;
  };
  static constexpr size_t kMaxEnded = 1000;

  // How the collective of this graph was ended, if it was.
  std::optional<Ended> FindEnded(const GraphCollectives& graph, int32_t group_key, int32_t instance_key) const;
  void Watch();
  void AskPeers();
  void Report(absl::Time now);
  std::vector<std::shared_ptr<Run>> Running() const;
  void Answered(const std::string& task, Worker* worker, const absl::Status& status,
                const tensorflow::GetStatusResponse& response);

  const TaskCollectivesOptions options_;
  BufferRendezvous buffers_;
  CollectiveGroups groups_;
  DirectCollectives direct_;
  Timer timer_;
  Cancellation closed_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<Run*, std::weak_ptr<Run>> running_ ABSL_GUARDED_BY(mutex_);
  std::set<Worker*> asked_ ABSL_GUARDED_BY(mutex_);  // whose answers are pending
  // By group, first and last instance; those that members have ended last.
  std::map<std::tuple<int32_t, int32_t, int32_t>, Ended> ended_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Thread> thread_ ABSL_GUARDED_BY(mutex_);
  // Used only by the thread that checks members.
  absl::flat_hash_map<Run*, absl::Duration> reported_;
  absl::Time leader_reported_;
};

// The resource through which the kernels of a step run collective ops.
class TaskCollectives::StepPart : public Collectives {
 public:
  StepPart(TaskCollectives& task, std::shared_ptr<GraphCollectives> graph, int64_t step_id)
      : task_(task), graph_(std::move(graph)), step_id_(step_id) {}

  std::optional<SharedValues> AllocateShared(int32_t group_key, const Device& device, DType dtype,
                                             const Shape& shape) override;
  void Run(CollectiveCall call, Cancellation& cancellation, Done done) override;
  void End(const EndCollectives& which) override { task_.EndInstances(which); }
  std::string Describe() const override;

  // Tells the other members that the step has failed in this task.
  void Failed(const absl::Status& why);

  // A member has begun again. It has told the others itself, and will not come to this step.
  void EndedByMember() { ended_by_member_ = true; }

  // For the runs.
  TaskCollectives& task() { return task_; }
  GraphCollectives& graph() { return *graph_; }
  int64_t step_id() const { return step_id_; }
  void AddGroup(const CollectiveGroup& group);

 private:
  TaskCollectives& task_;
  const std::shared_ptr<GraphCollectives> graph_;
  const int64_t step_id_;
  std::atomic<bool> ended_by_member_{false};
  Mutex mutex_;
  std::set<std::string> tasks_ ABSL_GUARDED_BY(mutex_);  // tasks of all other members
};

}  // namespace thalweg
