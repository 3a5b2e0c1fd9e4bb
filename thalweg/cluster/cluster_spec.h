// SPDX-License-Identifier: Apache-2.0
// The tasks of a cluster by job, and the address of each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// One task of a job.
struct TaskId {
  std::string job;  // "ps", "worker", "chief", ...
  int index = 0;    // within the job

  std::string ToString() const;  // "/job:ps/replica:0/task:1": the prefix of its devices
  friend bool operator==(const TaskId&, const TaskId&) = default;
  friend auto operator<=>(const TaskId&, const TaskId&) = default;  // NOLINT: clang-tidy 14 sees a null
};

// The addresses of all tasks of a cluster, by job. A value. Task indices need not be dense.
class ClusterSpec {
 public:
  ClusterSpec() = default;

  // Parses "ps|host:2222;host:2223,worker|0=host:2224;3=host:2225". Tasks without an
  // index are numbered in order. INVALID_ARGUMENT if it cannot be parsed.
  static absl::StatusOr<ClusterSpec> Parse(absl::string_view text);

  // Adds a job without tasks. INVALID_ARGUMENT if it has no name or exists already.
  absl::Status AddJob(const std::string& name);
  // Adds a task. INVALID_ARGUMENT, naming the job or task, for a job without a name, a
  // duplicate task, a negative index or an address that is not "host:port".
  absl::Status AddTask(const TaskId& task, absl::string_view address);

  bool empty() const { return jobs_.empty(); }  // true if there are no tasks
  std::vector<std::string> jobs() const;        // the names of the jobs, sorted
  std::vector<TaskId> tasks() const;            // by job, then index
  int num_tasks(const std::string& job) const;  // 0 if there is no such job
  // The "host:port" of a task. INVALID_ARGUMENT, listing the tasks that exist, if there is no such task.
  absl::StatusOr<std::string> Address(const TaskId& task) const;
  // The addresses of a job's tasks, by index; empty if there is no such job.
  const std::map<int, std::string>& addresses(const std::string& job) const;

 private:
  std::map<std::string, std::map<int, std::string>> jobs_;
};

// The two parts of "host:port" or "[::1]:port".
struct HostPort {
  std::string host;  // without brackets
  int port = 0;      // 0 to 65535
  // INVALID_ARGUMENT, quoting the text, if the port is missing or out of range.
  static absl::StatusOr<HostPort> Parse(absl::string_view address);
};

}  // namespace thalweg
