// SPDX-License-Identifier: Apache-2.0
// thalweg run: starts a whole job on this host.
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"
#include "thalweg/launch/host_launcher.h"
#include "thalweg/train/session/progress.h"

ABSL_FLAG(int, ps, 1, "number of parameter servers");
ABSL_FLAG(int, workers, 1, "number of workers; worker 0 is the chief");
ABSL_FLAG(std::string, restart, "never",
          "\"never\", or \"on-failure\": restart a task that a signal ended, or that exited with code 1 (a Python "
          "exception) or with code 128 or more");
ABSL_FLAG(int, max_restarts, 3, "with --restart on-failure: maximum number of restarts per task");
ABSL_FLAG(int, max_lost_workers, 0,
          "number of workers, other than worker 0, that may fail for good without ending the job, for programs whose "
          "workers go on without them, as AllReduce with LostWorker::kGoOn does");
ABSL_FLAG(absl::Duration, ps_grace, absl::Seconds(3),
          "how long to wait for parameter servers to exit after the workers have, before sending SIGTERM");
ABSL_FLAG(bool, progress, true, "on a terminal: show a table of the tasks' progress instead of their step lines");
ABSL_FLAG(std::string, faults, "",
          "faults to inject, to test a job: \"seed=7,kill=ps:0@step:120,stop=worker:1@5s+3s,drop=2%,delay=5ms\"; "
          "docs/reliability.md has the grammar");
ABSL_DECLARE_FLAG(int, base_port);  // defined in launch/job.cc

namespace thalweg::cli {
namespace {

absl::StatusOr<int> RunCluster(std::ostream& out, const std::vector<std::string>& rest) {
  const std::string restart = absl::GetFlag(FLAGS_restart);
  if (restart != "never" && restart != "on-failure") {
    return InvalidArgument("--restart=", restart, ": expected never or on-failure");
  }
  FaultPlan faults;
  if (const std::string text = absl::GetFlag(FLAGS_faults); !text.empty()) {
    ASSIGN_OR_RETURN(faults, FaultPlan::Parse(text));
  }
  return RunHostJob({.ps = absl::GetFlag(FLAGS_ps),
                     .workers = absl::GetFlag(FLAGS_workers),
                     .command = rest,
                     .base_port = absl::GetFlag(FLAGS_base_port),
                     .max_restarts = restart == "never" ? 0 : absl::GetFlag(FLAGS_max_restarts),
                     .max_lost_workers = absl::GetFlag(FLAGS_max_lost_workers),
                     .ps_grace = absl::GetFlag(FLAGS_ps_grace),
                     .faults = std::move(faults),
                     .terminal = absl::GetFlag(FLAGS_progress) && IsTerminal(stdout),
                     .out = &out,
                     .err = &std::cerr});
}

}  // namespace

Command RunCommand() {
  return {.name = "run",
          .summary = "Runs a job on this host: starts a program once per task and shows their progress.",
          .details =
              "Every task gets its own TF_CONFIG. In its arguments, {ps_hosts}, {worker_hosts}, {job_name} and\n"
              "{task_index} are replaced by the values of the task. The job ends when all workers have exited with\n"
              "code 0, or when a task fails that --restart and --max_lost_workers do not allow for; the exit code is\n"
              "then that of the task.\n"
              "\n"
              "  thalweg run --ps 2 --workers 2 -- ./distributed_mnist --is_sync\n"
              "  thalweg run --workers 2 -- thalweg python train.py --ps_hosts={ps_hosts} \\\n"
              "      --worker_hosts={worker_hosts} --job_name={job_name} --task_index={task_index}",
          .usage = "[--ps N] [--workers N] [--restart on-failure] [--faults F] [--] PROGRAM [ARGS...]",
          .flags = {"ps", "workers", "restart", "max_restarts", "max_lost_workers", "base_port", "ps_grace", "progress",
                    "faults"},
          .run_for_code = RunCluster};
}

}  // namespace thalweg::cli
