// SPDX-License-Identifier: Apache-2.0
// Job: which task of which cluster this process is.
//
//   const auto job = tw::Job::FromFlagsOrEnvironment(argc, argv);
//   if (!job.ok()) return tw::ExitCode(job.status());
//   ASSIGN_OR_RETURN(auto server, tw::Server::Start(job->cluster, job->task));
//
// The first of these that is there is taken; nothing is mixed:
//   flags      --ps_hosts --worker_hosts --chief_hosts --job_name --task_index
//   TF_CONFIG  lists of addresses, or maps from index to address
//   TonY       CLUSTER_SPEC, JOB_NAME, TASK_INDEX
//   Slurm      SLURM_PROCID and what goes with it
//   MPI, PMIx  OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK and what goes with them
//   nothing    one worker, alone: the same program runs without a cluster
//
// Slurm and MPI number their tasks but give them no roles: the first
// --num_ps (THALWEG_NUM_PS; 1) are parameter servers, the rest workers. Their
// ports count from --base_port (THALWEG_BASE_PORT), which otherwise follows from
// the number of the job. MPI does not tell on which hosts the tasks are; if they
// are on several, --hosts (THALWEG_HOSTS) does: "node1:2,node2:2", in the order
// of the ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/cluster/cluster_spec.h"

namespace thalweg {

class FaultInjector;

// A task, and the cluster that it belongs to. A value.
struct Job {
  using Environment = std::map<std::string, std::string>;

  ClusterSpec cluster;
  TaskId task;
  std::string source;  // where it is from: "flags", "TF_CONFIG", ..., "" if there is no cluster
  // The faults that THALWEG_FAULTS asks for (docs/reliability.md), while a copy of
  // this lives; nullptr: none.
  std::shared_ptr<FaultInjector> faults;

  // The task that initializes, saves and restores: "chief" or "master" if the
  // cluster has one, else the first worker.
  bool is_chief() const;
  // Tasks that train: workers, and a "chief" or "master" beside them, which is
  // the last. For shares of data, seeds and SyncReplicas.
  int num_workers() const;
  int worker_index() const;  // this one's number among them; -1 if it is none

  // INVALID_ARGUMENT, naming the flag or variable, its value and what was
  // expected, if the description is wrong or not complete.
  static absl::StatusOr<Job> FromFlagsOrEnvironment(int argc, char** argv);
  // The same of arguments (without the program's name) and variables.
  static absl::StatusOr<Job> From(const std::vector<std::string>& args, const Environment& environment);
};

// What main() returns: 0 for OK; else prints the error to stderr and returns
// the number of its code, plus 128 if another try may succeed: UNAVAILABLE (142)
// and ABORTED (138), when tasks went away, and DEADLINE_EXCEEDED (132), as of a
// parameter server that no worker needs any more.
int ExitCode(const absl::Status& status);
// True for errors after which another try may succeed.
bool IsWorthRetry(const absl::Status& status);

}  // namespace thalweg
