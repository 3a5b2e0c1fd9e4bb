// SPDX-License-Identifier: Apache-2.0
// The sources from which a task can learn its role, one function for each.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/launch/job.h"

namespace thalweg {

// A flag or environment variable, with its name for error messages: "--task_index",
// "SLURM_PROCID".
struct Setting {
  std::string name;
  std::string value;
};

// Settings that Slurm and MPI do not provide.
struct Roles {
  Setting num_ps, base_port, hosts;  // empty values: not given
};

// An environment variable; nullopt if it is unset or empty.
std::optional<Setting> Variable(const Job::Environment& environment, const std::string& name);
// The first of these variables that is set.
std::optional<Setting> FirstVariable(const Job::Environment& environment, std::initializer_list<const char*> names);
// Parses a non-negative number. INVALID_ARGUMENT names the setting.
absl::StatusOr<int> Number(const Setting& setting);

// {"cluster": {...}, "task": {"type": "worker", "index": 0}}
absl::StatusOr<Job> JobFromTfConfig(const Setting& tf_config);
// CLUSTER_SPEC: {"ps": ["host:port"], ...}
absl::StatusOr<Job> JobFromTony(const Setting& cluster_spec, const Job::Environment& environment);
absl::StatusOr<Job> JobFromSlurm(const Job::Environment& environment, const Roles& roles);
absl::StatusOr<Job> JobFromMpi(const Setting& rank, const Job::Environment& environment, const Roles& roles);

// Checks that the task is in its cluster, or is an evaluator, which need not be.
absl::Status CheckTask(const Job& job, const std::string& where);

// Expands "node[1-3,07],other" to the names of the hosts.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(const Setting& list);

}  // namespace thalweg
