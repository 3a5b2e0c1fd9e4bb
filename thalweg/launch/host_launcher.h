// SPDX-License-Identifier: Apache-2.0
// Runs a job on this host: starts its tasks, shows their output, restarts failed tasks, and
// ends when the workers have.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/faults/fault_plan.h"

namespace thalweg {

struct HostJobOptions {
  int ps = 1;
  int workers = 1;
  // The program and its arguments. In them {ps_hosts}, {worker_hosts}, {job_name} and
  // {task_index} are replaced by the values of each task.
  std::vector<std::string> command;
  int base_port = 0;  // the first task's port, the others follow; 0: any free ports
  // A task that a signal ended, or that exited with code 1 (a Python exception) or with code 128 or
  // more, is restarted this many times.
  int max_restarts = 0;
  // Workers, other than worker 0, that may fail for good without ending the job, because the others go on without them.
  int max_lost_workers = 0;
  // How long parameter servers may run after the workers have ended, before they get SIGTERM.
  absl::Duration ps_grace = absl::Seconds(3);
  // How long a task may take to exit after SIGTERM, before it gets SIGKILL.
  absl::Duration kill_after = absl::Seconds(15);
  // Faults that strike the tasks, times counted from the start of the job.
  FaultPlan faults;
  bool terminal = false;  // show a table of the tasks' progress instead of their step lines
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
};

// Returns the exit code of the job: 0 if all workers exited with 0, or were lost as max_lost_workers allows; otherwise
// the code of the task that failed first, or 128 + the signal that ended it. If this process gets SIGINT,
// SIGTERM or SIGHUP, it passes the signal on to the workers and returns 128 + the signal.
// Returns an error if the tasks could not be started.
//
// Blocks these signals and SIGCHLD in this thread.
absl::StatusOr<int> RunHostJob(const HostJobOptions& options);

}  // namespace thalweg
