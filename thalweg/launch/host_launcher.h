// Runs a job on this host: starts its tasks, shows what they print, restarts
// those that failed, and ends when the workers have.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/faults/fault_plan.h"

namespace thalweg {

struct LocalJobOptions {
  int ps = 1;
  int workers = 1;
  // The program and its arguments, for every task. In them {ps_hosts},
  // {worker_hosts}, {job_name} and {task_index} stand for the task's own.
  std::vector<std::string> command;
  int base_port = 0;  // ports count from here; 0: any that are free
  // A task that ended by a signal or with a code of 128 or more is started again,
  // so many times.
  int max_restarts = 0;
  // Parameter servers may stay so long when the workers have ended, and any task
  // when it was told to end.
  absl::Duration ps_grace = absl::Seconds(3);
  absl::Duration kill_after = absl::Seconds(15);
  // Faults that strike the tasks, times counted from the start of the job.
  FaultPlan faults;
  bool terminal = false;  // a board instead of lines that tell steps
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
};

// Returns the exit code of the job: 0 if all workers ended with 0; else that of
// the task that failed first, 128 and the number of the signal if one ended it;
// the same if this process got SIGINT, SIGTERM or SIGHUP, which it passes on to
// the workers. An error if the tasks could not be started.
//
// Blocks these signals and SIGCHLD, in this thread.
absl::StatusOr<int> RunLocalJob(const LocalJobOptions& options);

}  // namespace thalweg
