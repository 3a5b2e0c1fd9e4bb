// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cli/job_address.h"

#include <set>

#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/flags.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/server/job_monitor.h"

namespace thalweg::cli {
namespace {

int PortOf(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = HostPort::Parse(address);
  return parsed.ok() ? parsed->port : -1;
}

}  // namespace

absl::StatusOr<std::string> TakeAddress(const std::vector<std::string>& rest, const std::vector<std::string>& flags) {
  if (rest.empty()) return "";
  RETURN_IF_ERROR(SetFlags(absl::MakeConstSpan(rest).subspan(1), flags));
  return std::string(absl::StripPrefix(rest[0], "grpc://"));
}

absl::StatusOr<JobStatus> AskJobAt(std::string* address, const GetMonitorRequest& request) {
  if (!address->empty()) return AskJob(*address, request);
  const std::vector<std::string> servers = FindLocalServers();
  if (servers.empty()) {
    return NotFound("No server of Thalweg runs on this machine; give the address of a task, as in host:2222");
  }
  absl::Status error;
  for (const std::string& server : servers) {
    absl::StatusOr<JobStatus> job = AskJob(server, request, absl::Seconds(2));
    error = job.status();
    if (!job.ok()) continue;  // it may be the one that hangs
    std::set<int> ports;
    for (const TaskStatus& task : job->tasks()) ports.insert(PortOf(task.address()));
    for (const std::string& other : servers) {
      if (other == server || ports.contains(PortOf(other)) || ports.contains(0)) continue;
      return InvalidArgument("Several jobs run on this machine; give the address of a task, one of ",
                             absl::StrJoin(servers, ", "));
    }
    *address = server;
    return job;
  }
  return Prepend(error, "No task of the job on this machine answers: ");
}

}  // namespace thalweg::cli
