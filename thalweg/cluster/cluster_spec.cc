// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/cluster_spec.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/status.h"

namespace thalweg {

std::string TaskId::ToString() const { return absl::StrCat("/job:", job, "/replica:0/task:", index); }

absl::StatusOr<HostPort> HostPort::Parse(absl::string_view address) {
  const size_t colon = address.rfind(':');
  HostPort result;
  if (colon == absl::string_view::npos || colon == 0 || address.find_first_of("|,;= \t\n/") != address.npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &result.port) || result.port < 0 || result.port > 65535) {
    return InvalidArgument("Could not interpret \"", address, "\" as a host-port pair: expected host:port.");
  }
  result.host = std::string(address.substr(0, colon));
  return result;
}

absl::Status ClusterSpec::AddJob(const std::string& name) {
  if (name.empty()) return InvalidArgument("A job of the cluster has no name");
  if (!jobs_.try_emplace(name).second) return InvalidArgument("Job \"", name, "\" is given twice");
  return absl::OkStatus();
}

absl::Status ClusterSpec::AddTask(const TaskId& task, absl::string_view address) {
  if (task.job.empty()) return InvalidArgument("A job of the cluster has no name");
  if (task.index < 0) return InvalidArgument("Job \"", task.job, "\": task ", task.index, " is negative");
  const absl::StatusOr<HostPort> parsed = HostPort::Parse(address);
  if (!parsed.ok()) return Append(parsed.status(), absl::StrCat(" (", task.ToString(), ")"));
  if (!jobs_[task.job].emplace(task.index, address).second) {
    return InvalidArgument("Job \"", task.job, "\": task ", task.index, " is given twice");
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterSpec> ClusterSpec::Parse(absl::string_view text) {
  ClusterSpec spec;
  for (const absl::string_view job_text : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(job_text, absl::MaxSplits('|', 1));
    const std::string job(absl::StripAsciiWhitespace(parts.first));
    if (job.empty() || parts.second.empty()) {
      return InvalidArgument("\"", job_text, "\" is not a valid job: expected job|host:port;host:port");
    }
    RETURN_IF_ERROR(spec.AddJob(job));
    int index = 0;
    for (const absl::string_view task_text : absl::StrSplit(parts.second, ';', absl::SkipWhitespace())) {
      absl::string_view address = task_text;
      if (const size_t equals = task_text.find('='); equals != absl::string_view::npos) {
        if (!absl::SimpleAtoi(task_text.substr(0, equals), &index)) {
          return InvalidArgument("\"", task_text, "\" of job \"", job, "\": expected index=host:port");
        }
        address = task_text.substr(equals + 1);
      }
      RETURN_IF_ERROR(spec.AddTask({job, index++}, absl::StripAsciiWhitespace(address)));
    }
  }
  return spec;
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [name, tasks] : jobs_) names.push_back(name);
  return names;
}

const std::map<int, std::string>& ClusterSpec::addresses(const std::string& job) const {
  static const std::map<int, std::string>* const kNone = new std::map<int, std::string>;
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? *kNone : it->second;
}

std::vector<TaskId> ClusterSpec::tasks() const {
  std::vector<TaskId> all;
  for (const auto& [name, tasks] : jobs_) {
    for (const auto& [index, address] : tasks) all.push_back({name, index});
  }
  return all;
}

int ClusterSpec::num_tasks(const std::string& job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? 0 : static_cast<int>(it->second.size());
}

absl::StatusOr<std::string> ClusterSpec::Address(const TaskId& task) const {
  const auto job = jobs_.find(task.job);
  if (job == jobs_.end()) {
    return InvalidArgument("Job \"", task.job, "\" was not defined in the cluster; it has jobs: ",
                           jobs_.empty() ? "none" : absl::StrJoin(jobs(), ", "));
  }
  const auto it = job->second.find(task.index);
  if (it == job->second.end()) {
    std::vector<int> indices;
    for (const auto& [index, address] : job->second) indices.push_back(index);
    return InvalidArgument("Task ", task.index, " was not defined in job \"", task.job,
                           "\"; it has tasks: ", indices.empty() ? "none" : absl::StrJoin(indices, ", "));
  }
  return it->second;
}

}  // namespace thalweg
