// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/job.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "thalweg/base/status.h"
#include "thalweg/launch/fault_schedule.h"
#include "thalweg/launch/job_sources.h"

// Job reads these flags from the arguments directly, so that a program need not parse its flags
// with absl. They are declared for programs that do.
ABSL_FLAG(std::string, ps_hosts, "", "addresses of the parameter servers: host:port,host:port");
ABSL_FLAG(std::string, worker_hosts, "", "addresses of the workers: host:port,host:port");
ABSL_FLAG(std::string, chief_hosts, "", "address of the chief, if it is not one of the workers");
ABSL_FLAG(std::string, job_name, "", "job of this task: ps, worker, chief or evaluator");
ABSL_FLAG(int, task_index, 0, "index of this task in its job");
ABSL_FLAG(int, num_ps, 1, "under Slurm or MPI: number of tasks that are parameter servers; the first ones are");
ABSL_FLAG(int, base_port, 0,
          "port of a host's first task, the next task gets the port above it; 0: chosen by the launcher");
ABSL_FLAG(std::string, hosts, "",
          "under MPI on several hosts: number of tasks per host in the order of the ranks, as node1:2,node2:2");

extern char** environ;

namespace thalweg {
namespace {

constexpr std::array kFlags = {"ps_hosts",   "worker_hosts", "chief_hosts", "job_name",
                               "task_index", "num_ps",       "base_port",   "hosts"};

// The flags of this file that are among the arguments. Empty is as not given:
// scripts pass on what they were not given themselves.
absl::StatusOr<std::map<std::string, std::string>> ReadFlags(const std::vector<std::string>& args) {
  std::map<std::string, std::string> flags;
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    absl::string_view rest = args[i];
    if (!absl::ConsumePrefix(&rest, "-")) continue;
    absl::ConsumePrefix(&rest, "-");
    const size_t equals = rest.find('=');
    const std::string name(rest.substr(0, equals));
    if (std::find(kFlags.begin(), kFlags.end(), name) == kFlags.end()) continue;
    if (equals != absl::string_view::npos) {
      flags[name] = std::string(rest.substr(equals + 1));
    } else if (i + 1 < args.size()) {
      flags[name] = args[++i];
    } else {
      return InvalidArgument("--", name, " needs a value");
    }
    if (flags[name].empty()) flags.erase(name);
  }
  return flags;
}

Setting Flag(const std::map<std::string, std::string>& flags, const std::string& name) {
  const auto it = flags.find(name);
  return {absl::StrCat("--", name), it == flags.end() ? "" : it->second};
}

absl::Status AddHosts(const Setting& hosts, const std::string& job, ClusterSpec& cluster) {
  int index = 0;
  for (const absl::string_view address : absl::StrSplit(hosts.value, ',', absl::SkipWhitespace())) {
    const absl::Status added = cluster.AddTask({job, index++}, absl::StripAsciiWhitespace(address));
    if (!added.ok()) return Prepend(added, absl::StrCat(hosts.name, "=", hosts.value, ": "));
  }
  return absl::OkStatus();
}

absl::StatusOr<Job> JobFromFlags(const std::map<std::string, std::string>& flags) {
  Job job{.source = "flags"};
  RETURN_IF_ERROR(AddHosts(Flag(flags, "ps_hosts"), "ps", job.cluster));
  RETURN_IF_ERROR(AddHosts(Flag(flags, "worker_hosts"), "worker", job.cluster));
  RETURN_IF_ERROR(AddHosts(Flag(flags, "chief_hosts"), "chief", job.cluster));
  if (job.cluster.num_tasks("worker") + job.cluster.num_tasks("chief") == 0) {
    return InvalidArgument("--worker_hosts is missing: expected host:port,host:port beside ",
                           absl::StrJoin(flags, " ", [](std::string* out, const auto& flag) {
                             absl::StrAppend(out, "--", flag.first, "=", flag.second);
                           }));
  }
  if (const int chiefs = job.cluster.num_tasks("chief"); chiefs > 1) {
    return InvalidArgument("--chief_hosts=", Flag(flags, "chief_hosts").value, ": expected one address, got ", chiefs);
  }
  job.task.job = Flag(flags, "job_name").value;
  if (job.task.job.empty()) {
    return InvalidArgument("--job_name is missing: expected one of ", absl::StrJoin(job.cluster.jobs(), ", "));
  }
  // A task that is alone in its job needs no number.
  if (const Setting index = Flag(flags, "task_index"); !index.value.empty()) {
    ASSIGN_OR_RETURN(job.task.index, Number(index));
  } else if (const int tasks = job.cluster.num_tasks(job.task.job); tasks > 1) {
    return InvalidArgument("--task_index is missing: expected 0 to ", tasks - 1, ", as job \"", job.task.job, "\" has ",
                           tasks, " tasks");
  }
  RETURN_IF_ERROR(CheckTask(job, absl::StrCat("--job_name=", job.task.job, " --task_index=", job.task.index)));
  return job;
}

// The flag or, if it is not given, the variable.
Setting FlagOrVariable(const std::map<std::string, std::string>& flags, const Job::Environment& environment,
                       const std::string& flag, const std::string& variable) {
  if (Setting setting = Flag(flags, flag); !setting.value.empty()) return setting;
  return Variable(environment, variable).value_or(Setting{variable, ""});
}

absl::StatusOr<Job> Find(const std::map<std::string, std::string>& flags, const Job::Environment& environment) {
  for (const char* name : {"ps_hosts", "worker_hosts", "chief_hosts", "job_name", "task_index"}) {
    if (flags.contains(name)) return JobFromFlags(flags);
  }
  if (const auto tf_config = Variable(environment, "TF_CONFIG")) return JobFromTfConfig(*tf_config);
  if (const auto spec = Variable(environment, "CLUSTER_SPEC")) return JobFromTony(*spec, environment);
  const Roles roles{.num_ps = FlagOrVariable(flags, environment, "num_ps", "THALWEG_NUM_PS"),
                    .base_port = FlagOrVariable(flags, environment, "base_port", "THALWEG_BASE_PORT"),
                    .hosts = FlagOrVariable(flags, environment, "hosts", "THALWEG_HOSTS")};
  // Inside a Slurm job mpirun starts its own daemons with srun: what it starts
  // inherits their SLURM_PROCID, and means nothing by it.
  if (Variable(environment, "SLURM_PROCID") && !Variable(environment, "OMPI_COMM_WORLD_RANK")) {
    return JobFromSlurm(environment, roles);
  }
  if (const auto rank = FirstVariable(environment, {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})) {
    return JobFromMpi(*rank, environment, roles);
  }
  Job alone{.task = {"worker", 0}};
  RETURN_IF_ERROR(alone.cluster.AddTask(alone.task, "localhost:0"));
  return alone;
}

}  // namespace

std::optional<Setting> Variable(const Job::Environment& environment, const std::string& name) {
  const auto it = environment.find(name);
  if (it == environment.end() || it->second.empty()) return std::nullopt;
  return Setting{name, it->second};
}

std::optional<Setting> FirstVariable(const Job::Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto found = Variable(environment, name)) return found;
  }
  return std::nullopt;
}

absl::StatusOr<int> Number(const Setting& setting) {
  int value = 0;
  if (!absl::SimpleAtoi(setting.value, &value) || value < 0) {
    return InvalidArgument(setting.name, "=", setting.value, ": expected a number that is not negative");
  }
  return value;
}

absl::Status CheckTask(const Job& job, const std::string& where) {
  if (job.task.job == "evaluator") return absl::OkStatus();
  return Prepend(job.cluster.Address(job.task).status(), absl::StrCat(where, ": "));
}

bool Job::is_chief() const {
  if (task.job == "chief" || task.job == "master") return true;
  if (cluster.num_tasks("chief") + cluster.num_tasks("master") > 0) return false;
  return task.job == "worker" && task.index == 0;
}

int Job::num_workers() const {
  return cluster.num_tasks("worker") + cluster.num_tasks("chief") + cluster.num_tasks("master");
}

int Job::worker_index() const {
  if (task.job == "worker") return task.index;
  return is_chief() ? num_workers() - 1 : -1;
}

absl::StatusOr<Job> Job::From(const std::vector<std::string>& args, const Environment& environment) {
  ASSIGN_OR_RETURN(const auto flags, ReadFlags(args));
  return Find(flags, environment);
}

absl::StatusOr<Job> Job::FromFlagsOrEnvironment(int argc, char** argv) {
  Environment environment;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    environment.insert(std::pair<std::string, std::string>(absl::StrSplit(*variable, absl::MaxSplits('=', 1))));
  }
  std::vector<std::string> args;
  if (argc > 1) args.assign(argv + 1, argv + argc);
  absl::StatusOr<Job> job = From(args, environment);
  // Launchers collect what tasks print through pipes: lines come when they are
  // printed.
  if (job.ok() && !job->source.empty()) std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (!job.ok()) return job;
  ASSIGN_OR_RETURN(job->faults, StartFaults(environment[kFaultsVariable], job->cluster, job->task));
  return job;
}

bool IsWorthRetry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", status.ToString(absl::StatusToStringMode::kWithNoExtraData).c_str());
  return static_cast<int>(status.code()) + (IsWorthRetry(status) ? 128 : 0);
}

}  // namespace thalweg
