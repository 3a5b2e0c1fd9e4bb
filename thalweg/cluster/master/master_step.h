// SPDX-License-Identifier: Apache-2.0
// One step of a master's session: runs its partitions in their tasks and combines the
// results.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/master/cluster_callable.h"
#include "thalweg/cluster/master/master.h"
#include "thalweg/cluster/master/master_session.h"
#include "thalweg/monitor/task_monitor.h"
#include "thalweg/runtime/active_steps.h"

namespace thalweg {

// The arguments of a step.
struct MasterStepCall {
  CallOptions options;
  std::unique_ptr<StepScope> scope;
  std::shared_ptr<const ClusterCallable> callable;
  std::vector<Tensor> feeds;
  tensorflow::RunOptions run_options;
  int64_t collective_step_id = 0;   // 0: no collectives
  uint64_t pause = 0;               // as in RunGraphCall
  RunStepResult* result = nullptr;  // borrowed until `done` has run
  Master::Done done;
};

// Keeps itself alive until its last partition has ended. The first error cancels the
// other partitions.
class MasterStep : public MonitoredStep, public std::enable_shared_from_this<MasterStep> {
 public:
  MasterStep(std::shared_ptr<MasterSession> session, MasterStepCall call);

  void Start();
  void Describe(RunningStep* description) const override;

 private:
  void RunPart(size_t i);
  absl::Duration ValidFor(int64_t bytes) const;
  void PartEnded(size_t i, const absl::Status& status);
  void Collect();
  void Note(int fetch, const Tensor& value);
  void Finish(const absl::Status& status);
  void Record(const absl::Status& status);

  const std::shared_ptr<MasterSession> session_;
  MasterStepCall call_;
  const ClusterCallable& callable_;
  std::vector<RunGraphResult> results_;  // by part
  int64_t step_id_ = 0;
  const std::shared_ptr<Cancellation> cancellation_;
  std::optional<int64_t> watch_;
  std::atomic<int> left_{0};
  int64_t start_nanos_ = 0;
  // For the monitor: the first 64 parts that have ended, as bits, and when the last but one
  // of them ended.
  std::atomic<uint64_t> ended_{0};
  std::atomic<int64_t> ended_nanos_{0};
  size_t last_part_ = 0;  // the part that ended last
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
