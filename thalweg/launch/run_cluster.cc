// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/run_cluster.h"

#include "thalweg/base/log_format.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/launch/monitoring_environment.h"
#include "thalweg/launch/signals.h"
#include "thalweg/monitor/task_monitor.h"

namespace thalweg {

absl::Status RunTask(const Job& job, const WorkerFunction& worker, const RunClusterOptions& options) {
  SetLogTask(ShortTaskName(job.task.ToString()));
  ASSIGN_OR_RETURN(const auto server,
                   Server::Start(job.cluster, job.task, WithMonitoringOfEnvironment(options.server)));
  const OnDumpSignal dump([&] {
    const absl::StatusOr<std::string> path = server->DumpFlightRecorder();
    LOG(INFO) << job.task.ToString()
              << " was asked for its flight recorder: " << (path.ok() ? *path : std::string(path.status().message()));
  });
  if (options.only_chief ? job.is_chief() : job.task.job != "ps") return worker(job, *server);
  const OnSignal drain([&](int) { server->Drain(); });
  return server->Join();
}

int RunCluster(int argc, char** argv, const WorkerFunction& worker, const RunClusterOptions& options) {
  const absl::StatusOr<Job> job = Job::FromFlagsOrEnvironment(argc, argv);
  return ExitCode(job.ok() ? RunTask(*job, worker, options) : job.status());
}

}  // namespace thalweg
