// SPDX-License-Identifier: Apache-2.0
// Reports the status of this process's task.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/resource_report.h"
#include "thalweg/kernel/variable.h"
#include "thalweg/monitor/task_monitor.h"
#include "thalweg/monitor/traffic.h"
#include "thalweg/proto/monitor.pb.h"
#include "thalweg/rpc/rpc_server.h"
#include "thalweg/server/checkpoint_check.h"

namespace thalweg {

struct TaskReporterOptions {
  TaskMonitor* monitor = nullptr;  // borrowed
  std::vector<std::shared_ptr<Device>> devices;
  ClusterSpec cluster;  // names the peers
  std::function<std::vector<const Traffic*>()> traffic;
  std::function<void(TaskStatus*)> sessions;                               // fills in their numbers
  std::vector<std::pair<std::string, std::shared_ptr<CallCounts>>> calls;  // by method
  std::string flight_folder;                                               // see ServerOptions; "": no dumps
  std::function<JobStatus(const GetMonitorRequest&)> whole_job;            // for dumps
  bool collects = true;                                                    // its own dumps have all tasks
  bool sample = true;                                                      // false: no series, rates and dumps
};

// Where dumps go if nobody says so: thalweg-flight-UID in the folder for temporary files.
std::string DefaultFlightFolder();

// Thread-safe. A thread of its own takes a sample every second.
class TaskReporter {
 public:
  explicit TaskReporter(TaskReporterOptions options);
  ~TaskReporter();
  TaskReporter(const TaskReporter&) = delete;
  TaskReporter& operator=(const TaskReporter&) = delete;

  void Fill(const GetMonitorRequest& request, TaskStatus* status) const;

  // Asks all tasks for their recorded steps and events and writes them into the flight folder:
  // FOLDER/ps-0-PID-N.json, and the steps on the clock of this task as a Chrome trace beside
  // it, ps-0-PID-N.trace.json. Returns the first path.
  // FAILED_PRECONDITION if there is no folder, RESOURCE_EXHAUSTED after kMaxDumps.
  static constexpr int kMaxDumps = 20;
  static constexpr size_t kMaxDefaultFiles = 40;  // in the default folder; the oldest are removed
  absl::StatusOr<std::string> Dump();

  // Everything that is recorded in this task, or in all of them: events, series, and up to `steps` of the last steps.
  JobStatus Records(bool whole_job, int steps) const;

  // The steps and the threads of this process, and what they wait for, as text.
  std::string DescribeThreads() const;

 private:
  void Run();
  void Sample();
  // Records which workers have left synchronous training, and come back.
  void NoteMembers();
  // Dumps if there was a fault since the last dump, but not too often.
  void DumpAfterFaults();
  absl::StatusOr<std::string> Write(bool whole_job);
  absl::Status MakeDefaultFolder() const;
  // Size of the value; negative: it has none. Adds it to `sizes`. Does not wait for an update.
  double BytesOf(Variable& variable, std::map<const Variable*, double>* sizes) const;
  int64_t GlobalStep() const;  // -1: it is not here
  std::string PeerName(const std::string& address) const;
  // "worker 1", for a task that a resource has named, or for a worker that it knows by its number.
  std::string WorkerName(const std::string& reported) const;
  // Looks how many processes the kernel has killed for lack of memory, and returns their number since the task began.
  double NoteOomKills() const;
  double SecondsSinceOomKill() const;  // -1: there was none
  void FillSynchronization(const ResourceReport& report, TaskStatus* status) const;
  void FillTraffic(TaskStatus* status) const;
  void FillResources(TaskStatus* status) const;
  double LastLearningRate() const;  // NaN: no variable was updated here

  const TaskReporterOptions options_;
  std::map<std::string, std::string> names_;  // peers by address

  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t sampled_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<const Traffic*, int>, int64_t> bytes_ ABSL_GUARDED_BY(mutex_);  // at the last sample, by path
  std::map<std::pair<const Traffic*, int>, double> rates_ ABSL_GUARDED_BY(mutex_);
  int dumps_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::map<const Variable*, double> sizes_ ABSL_GUARDED_BY(mutex_);  // when they were last looked at
  const double oom_kills_;                                                   // of the machine, before this task
  mutable double known_oom_kills_ ABSL_GUARDED_BY(mutex_);                   // at the last look
  mutable int64_t oom_kill_nanos_ ABSL_GUARDED_BY(mutex_) = 0;               // when their number last grew
  // Only for thread_.
  std::map<int64_t, ResourceReport::Member> members_;  // as of the last sample
  int64_t dumped_faults_ = 0;
  int64_t dumped_nanos_ = 0;
  int64_t dump_pause_nanos_ = 0;
  CheckpointCheck checkpoint_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace thalweg
