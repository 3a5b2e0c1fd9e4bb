// SPDX-License-Identifier: Apache-2.0
// A cluster for tests. Its tasks are real servers, each on its own port, either all in this
// process or each in a process of its own.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/client/session.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/server/server.h"

namespace thalweg {

inline const TaskId kPs0{"ps", 0}, kPs1{"ps", 1}, kWorker0{"worker", 0}, kWorker1{"worker", 1};

inline Output Scalar(const Scope& s, float value) { return Const(s, value); }

enum class TasksIn {
  kThisProcess,
  kProcesses,
  kProcessesOverGrpc,  // without same-host links, as on several machines
  kProcessesOverTcp,   // with TCP links only
};

class TestCluster {
 public:
  // `jobs` gives the number of tasks per job. Starts all tasks except those in `later`. With `tasks_per_host`,
  // collectives see so many tasks of a job on each host, and the others on hosts of their own; only in this process.
  explicit TestCluster(const std::map<std::string, int>& jobs, const std::vector<TaskId>& later = {},
                       TasksIn tasks_in = TasksIn::kThisProcess, const ServerOptions& options = {},
                       int tasks_per_host = 0);
  ~TestCluster();

  // The server listens when it returns. `faults` (--faults) strike it if it is in a
  // process of its own.
  void Start(const TaskId& task, const std::string& faults = "");
  // Kills the task's process or, if it runs in this process, stops its server.
  void Stop(const TaskId& task);
  void Signal(const TaskId& task, int signal);  // REQUIRES: it is in a process of its own
  // Whether its process runs; takes note of its end. REQUIRES: as above
  bool Runs(const TaskId& task);
  pid_t process(const TaskId& task) const { return processes_.at(task); }
  std::string target(const TaskId& task) const;
  Server& server(const TaskId& task) { return *servers_.at(task); }  // REQUIRES: it is in this process
  const ClusterSpec& spec() const { return spec_; }

 private:
  const TasksIn tasks_in_;
  const int tasks_per_host_;
  ServerOptions options_;
  ClusterSpec spec_;
  std::map<TaskId, std::unique_ptr<Server>> servers_;
  std::map<TaskId, pid_t> processes_;
};

}  // namespace thalweg
