// The places where a task can learn who it is, one function for each.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/launch/job.h"

namespace thalweg {

// A text of the description, and what it is called in errors: "--task_index",
// "SLURM_PROCID".
struct Setting {
  std::string name;
  std::string value;
};

// What the launchers below do not know.
struct Roles {
  Setting num_ps, base_port, hosts;  // empty values: not given
};

// The variable; nullopt if it is not there or empty.
std::optional<Setting> Variable(const Job::Environment& environment, const std::string& name);
// The first of them that is there.
std::optional<Setting> FirstVariable(const Job::Environment& environment, std::initializer_list<const char*> names);
// A number that is not negative. INVALID_ARGUMENT names the setting.
absl::StatusOr<int> Number(const Setting& setting);

// {"cluster": {...}, "task": {"type": "worker", "index": 0}}
absl::StatusOr<Job> JobFromTfConfig(const Setting& tf_config);
// CLUSTER_SPEC: {"ps": ["host:port"], ...}
absl::StatusOr<Job> JobFromTony(const Setting& cluster_spec, const Job::Environment& environment);
absl::StatusOr<Job> JobFromSlurm(const Job::Environment& environment, const Roles& roles);
absl::StatusOr<Job> JobFromMpi(const Setting& rank, const Job::Environment& environment, const Roles& roles);

// The task is in its cluster, or is an evaluator, which needs no place in it.
absl::Status CheckTask(const Job& job, const std::string& where);

// "node[1-3,07],other" as the names of hosts.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(const Setting& list);

}  // namespace thalweg
