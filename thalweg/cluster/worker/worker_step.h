// SPDX-License-Identifier: Apache-2.0
// One step of one registered graph, from the RunGraph call to its response.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/base/cancellation.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/cluster/collectives/task_collectives.h"
#include "thalweg/cluster/worker/running_steps.h"
#include "thalweg/cluster/worker/step_rendezvous.h"
#include "thalweg/cluster/worker/step_table.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/cluster/worker/worker_session.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/monitor/task_monitor.h"
#include "thalweg/runtime/executor.h"
#include "thalweg/runtime/step_stats.h"

namespace thalweg {

// Services that the steps of a task share. All are borrowed.
struct StepEnvironment {
  ThreadPool* pool = nullptr;
  StepTable* rendezvous = nullptr;
  TaskCollectives* collectives = nullptr;
  RunningSteps* running = nullptr;
  PeerHealth* health = nullptr;    // nullptr: masters are not watched
  TaskMonitor* monitor = nullptr;  // nullptr: steps are not recorded
};

// Keeps itself alive while it runs. The cancellation of the call, an error, and the end of
// the task all cancel the step's own Cancellation, which lives as long as the step. The
// call's Cancellation does not: it is gone once the response is sent.
class WorkerStep : public MonitoredStep, public std::enable_shared_from_this<WorkerStep> {
 public:
  WorkerStep(const StepEnvironment& environment, const CallOptions& options, RunGraphCall call,
             std::shared_ptr<WorkerSession> session, std::shared_ptr<RegisteredGraph> graph, RunGraphResult* result,
             Worker::Done done);

  void Start();
  void Cancel(const absl::Status& why) { cancellation_.Cancel(why); }

  int64_t id() const { return call_.step_id; }
  // Whether something keeps it from going on now. False while it computes, however long
  // that takes.
  bool Waits() const { return sends_ || !execution_->DescribeWaits().empty(); }
  const std::string& session_handle() const { return call_.session_handle; }
  std::string Describe() const;  // what it waits for, if it does
  void Describe(RunningStep* description) const override;
  // Whether its master is another Thalweg task, which gives the step up if this task does
  // not answer.
  bool has_remote_master() const;
  bool WaitsForRoom() const { return execution_->WaitsForRoom(); }

 private:
  absl::Status Prepare(std::vector<Tensor>* args);
  absl::Status Bind(std::vector<Tensor>* args);
  void WatchMaster();
  // Tells the master that this task has the values that the step saves.
  void ValuesHeld(int left);
  void End(absl::Status status);
  void Finish(absl::Status status);
  absl::Status TakeResults();
  void Record(const absl::Status& status);
  void AddToTrace(const StepRecord& record);

  const StepEnvironment environment_;
  Cancellation* const outside_;  // the cancellation of the call, or nullptr
  RunGraphCall call_;
  const std::shared_ptr<WorkerSession> session_;
  const std::shared_ptr<RegisteredGraph> graph_;
  const std::shared_ptr<StepRendezvous> rendezvous_;
  RunGraphResult* const result_;
  Worker::Done done_;
  Cancellation cancellation_;
  ResourceManager resources_;
  std::shared_ptr<TaskCollectives::StepPart> collectives_;  // if its graph has any
  TrackedStep step_;
  std::optional<SaveNotice> save_notice_;
  std::optional<StepStatsCollector> stats_;
  std::optional<Execution> execution_;
  std::optional<Cancellation::CallbackId> outside_id_;
  std::optional<int64_t> master_watch_;
  bool listed_ = false;  // it is in environment_.running
  const int64_t start_nanos_;
  int64_t run_nanos_ = 0;             // when the part had run
  std::atomic<bool> sends_{false};    // it has run, and receivers have not yet got everything that it sent
  std::shared_ptr<WorkerStep> self_;  // while it runs
};

}  // namespace thalweg
