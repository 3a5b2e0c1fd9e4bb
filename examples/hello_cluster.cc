// SPDX-License-Identifier: Apache-2.0
// hello_cluster.cc - the smallest cluster program. Every task runs it: a parameter
// server computes a greeting, and every worker fetches and prints it. Without a
// cluster it runs as a single worker.
//
//   thalweg run --ps 1 --workers 3 -- hello_cluster
//   mpirun -n 4 hello_cluster
//   srun -n 4 hello_cluster
#include <cstdio>
#include <string>

#include "absl/flags/parse.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

absl::Status RunWorker(const tw::Job& job, const tw::Server& server) {
  tw::Graph graph;
  const bool has_ps = job.cluster.num_tasks("ps") > 0;
  const auto s = has_ps ? graph.root().WithDevice("/job:ps/task:0") : graph.root();
  const auto greeting = tw::Const(s, "Hello, Thalweg!");
  // With this filter the session ignores the other workers: it does not wait for one that has not started or has left.
  ASSIGN_OR_RETURN(auto session,
                   tw::Session::Create(graph, {.target = server.target(), .device_filters = {"/job:ps"}}));
  ASSIGN_OR_RETURN(const auto out, session->Run({greeting}));
  std::printf("%s %d of %d%s got \"%s\" from %s\n", job.task.job.c_str(), job.task.index,
              job.cluster.num_tasks(job.task.job), job.is_chief() ? ", the chief," : "",
              out[0].scalar<std::string>().c_str(), has_ps ? "ps 0" : "itself");
  RETURN_IF_ERROR(session->Close());
  return tw::AnnounceDone(server.target());  // once all workers have announced this, Join() returns on the servers
}

// RunCluster, which the other examples use, is these lines in one call.
absl::Status RunTask(const tw::Job& job) {
  ASSIGN_OR_RETURN(auto server, tw::Server::Start(job.cluster, job.task));
  if (job.task.job != "ps") return RunWorker(job, *server);
  const tw::OnSignal drain([&](int) { server->Drain(); });
  RETURN_IF_ERROR(server->Join());
  std::printf("ps %d is no longer needed\n", job.task.index);
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const auto job = tw::Job::FromFlagsOrEnvironment(argc, argv);
  return tw::ExitCode(job.ok() ? RunTask(*job) : job.status());
}
