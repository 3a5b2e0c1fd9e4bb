// SPDX-License-Identifier: Apache-2.0
// Who is in a cluster: jobs, their tasks, and where each of them listens.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorflow {
class ClusterDef;
}

namespace thalweg {

// One task of a job.
struct TaskId {
  std::string job;
  int index = 0;

  std::string ToString() const;  // "/job:ps/replica:0/task:1": the prefix of its devices
  friend bool operator==(const TaskId&, const TaskId&) = default;
  friend auto operator<=>(const TaskId&, const TaskId&) = default;
};

// A value. Indices of tasks need not be dense.
class ClusterSpec {
 public:
  ClusterSpec() = default;

  // "ps|host:2222;host:2223,worker|0=host:2224;3=host:2225": tasks are numbered
  // in order where no index is given.
  static absl::StatusOr<ClusterSpec> Parse(absl::string_view text);

  // INVALID_ARGUMENT, naming the job or task, for a job without a name, a task that is
  // there already, a negative index or an address that is not "host:port".
  absl::Status AddTask(const TaskId& task, absl::string_view address);

  bool empty() const { return jobs_.empty(); }
  std::vector<std::string> jobs() const;
  std::vector<TaskId> tasks() const;  // by job, then index
  int num_tasks(const std::string& job) const;
  // INVALID_ARGUMENT, saying what there is, if there is no such task.
  absl::StatusOr<std::string> Address(const TaskId& task) const;

  /// @cond INTERNAL
  // INVALID_ARGUMENT as for AddTask, and for a job that is given twice.
  static absl::StatusOr<ClusterSpec> FromProto(const tensorflow::ClusterDef& def);
  tensorflow::ClusterDef ToProto() const;
  /// @endcond

 private:
  std::map<std::string, std::map<int, std::string>> jobs_;
};

// The two parts of "host:port" (or "[::1]:port"). INVALID_ARGUMENT, with the
// text, if it has no port or one that is no number up to 65535.
struct HostPort {
  std::string host;
  int port = 0;
  static absl::StatusOr<HostPort> Parse(absl::string_view address);
};

}  // namespace thalweg
