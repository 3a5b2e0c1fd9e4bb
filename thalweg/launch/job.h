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
  using Environment = std::map<std::string, std::string>;  // variables by name

  ClusterSpec cluster;  // all tasks; empty: this process trains alone
  TaskId task;          // this task
  std::string source;   // where the description came from: "flags", "TF_CONFIG", ...; "" without a cluster
  // Injects the faults that THALWEG_FAULTS asks for (docs/reliability.md) as long as a
  // copy of this Job exists. nullptr: none.
  std::shared_ptr<FaultInjector> faults;

  // True for the task that initializes, saves and restores: the "chief" or "master" of
  // the cluster or, without one, the first worker.
  bool is_chief() const;
  // The number of tasks that train: the workers, and a "chief" or "master", which counts
  // as the last of them. Use it to shard data and for SyncReplicas.
  int num_workers() const;
  // The index of this task among them; -1 if it does not train.
  int worker_index() const;

  // Reads the job from --job_name, --task_index, --ps_hosts and similar flags, or from
  // TF_CONFIG or a batch scheduler's variables. INVALID_ARGUMENT, with the flag or
  // variable, its value and what was expected, if the description is wrong or incomplete.
  static absl::StatusOr<Job> FromFlagsOrEnvironment(int argc, char** argv);
  // The same from given arguments (without the program's name) and variables.
  static absl::StatusOr<Job> From(const std::vector<std::string>& args, const Environment& environment);
};

// The exit code of main(): 0 for OK. Otherwise prints the error to stderr and returns
// the number of its code, plus 128 if another try may succeed: UNAVAILABLE (142) and
// ABORTED (138), when tasks were lost, and DEADLINE_EXCEEDED (132), as from a parameter
// server without workers.
int ExitCode(const absl::Status& status);
// True for errors after which another try may succeed.
bool IsWorthRetry(const absl::Status& status);

}  // namespace thalweg
