// SPDX-License-Identifier: Apache-2.0
// RunCluster: the main() of a program that runs as every task of a cluster.
//
//   absl::Status RunWorker(const Job& job, const Server& server) { ... }
//
//   int main(int argc, char** argv) {
//     absl::ParseCommandLine(argc, argv);
//     return RunCluster(argc, argv, RunWorker);
//   }
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "thalweg/launch/job.h"
#include "thalweg/server/server.h"

namespace thalweg {

// The program of a task that computes: a worker, or a chief or master beside the workers.
using WorkerFunction = std::function<absl::Status(const Job& job, const Server& server)>;

// Which workers run the program's function, and how the servers of all tasks run.
struct RunClusterOptions {
  // Only the chief runs the function: one graph for all tasks. The other workers serve, as
  // parameter servers do, until the chief is done.
  bool only_chief = false;
  ServerOptions server;  // options of every task's server
};

// Finds out which task this process is (Job::FromFlagsOrEnvironment) and starts its server.
// A parameter server serves until the job is over; SIGTERM and SIGINT let it end well
// (Server::Drain). Every other task runs `worker`. SIGUSR1 writes the flight recorder
// (docs/observing.md). THALWEG_HTTP, THALWEG_HTTP_TOKEN, THALWEG_FLIGHT_FOLDER and
// THALWEG_RECORDER in the environment set the server's options of that name. Returns the code for main() to return:
// 0, or that of the error (ExitCode), which it prints.
int RunCluster(int argc, char** argv, const WorkerFunction& worker, const RunClusterOptions& options = {});

// The same for a job that is known already.
absl::Status RunTask(const Job& job, const WorkerFunction& worker, const RunClusterOptions& options = {});

}  // namespace thalweg
