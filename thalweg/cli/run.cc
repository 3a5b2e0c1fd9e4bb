// thalweg run: a whole job on this host.
#include <iostream>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"
#include "thalweg/launch/host_launcher.h"
#include "thalweg/train/session/progress.h"

ABSL_FLAG(int, ps, 1, "how many parameter servers");
ABSL_FLAG(int, workers, 1, "how many workers; the first is the chief");
ABSL_FLAG(std::string, restart, "never",
          "\"on-failure\": a task that ended by a signal or with a code of 128 or more is started again; \"never\"");
ABSL_FLAG(int, max_restarts, 3, "how often one task is started again");
ABSL_FLAG(absl::Duration, ps_grace, absl::Seconds(3),
          "how long parameter servers may take to leave when the workers have ended");
ABSL_FLAG(bool, board, true, "on a terminal: a table of the tasks instead of lines that tell steps");
ABSL_DECLARE_FLAG(int, base_port);  // of launch/job.cc

namespace thalweg::cli {
namespace {

absl::StatusOr<int> RunCluster(std::ostream& out, const std::vector<std::string>& rest) {
  const std::string restart = absl::GetFlag(FLAGS_restart);
  if (restart != "never" && restart != "on-failure") {
    return InvalidArgument("--restart=", restart, ": expected never or on-failure");
  }
  return RunLocalJob({.ps = absl::GetFlag(FLAGS_ps),
                      .workers = absl::GetFlag(FLAGS_workers),
                      .command = rest,
                      .base_port = absl::GetFlag(FLAGS_base_port),
                      .max_restarts = restart == "never" ? 0 : absl::GetFlag(FLAGS_max_restarts),
                      .ps_grace = absl::GetFlag(FLAGS_ps_grace),
                      .terminal = absl::GetFlag(FLAGS_board) && IsTerminal(stdout),
                      .out = &out,
                      .err = &std::cerr});
}

}  // namespace

Command RunCommand() {
  return {.name = "run",
          .summary =
              "Runs a job on this host: starts a program once for every task, and shows how they get on.\n"
              "\n"
              "Every task gets its TF_CONFIG; {ps_hosts}, {worker_hosts}, {job_name} and {task_index} in its\n"
              "arguments stand for its own. The job is over when all workers have ended with code 0, or with\n"
              "the code of the first task that failed.\n"
              "\n"
              "  thalweg run --ps 2 --workers 2 -- ./distributed_mnist --is_sync\n"
              "  thalweg run --workers 2 -- thalweg python train.py --ps_hosts={ps_hosts} \\\n"
              "      --worker_hosts={worker_hosts} --job_name={job_name} --task_index={task_index}",
          .usage = "[--ps N] [--workers N] [--restart on-failure] [--] PROGRAM [ARGS...]",
          .flags = {"ps", "workers", "restart", "max_restarts", "base_port", "ps_grace", "board"},
          .run_for_code = RunCluster};
}

}  // namespace thalweg::cli
