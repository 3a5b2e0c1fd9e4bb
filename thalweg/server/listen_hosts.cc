// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/listen_hosts.h"

#include <algorithm>
#include <set>

#include "thalweg/base/logging.h"
#include "thalweg/base/own_addresses.h"

namespace thalweg {
namespace {

std::string HostOf(const ClusterSpec& cluster, const TaskId& task) {
  const absl::StatusOr<std::string> address = cluster.Address(task);
  const absl::StatusOr<HostPort> parsed = address.ok() ? HostPort::Parse(*address) : address.status();
  return parsed.ok() ? parsed->host : "";
}

}  // namespace

std::vector<std::string> ListenHosts(const ClusterSpec& cluster, const TaskId& task, const std::string& bind) {
  if (!bind.empty()) return {bind};
  const std::vector<TaskId> tasks = cluster.tasks();
  const bool all_loopback =
      std::all_of(tasks.begin(), tasks.end(), [&](const TaskId& other) { return IsLoopback(HostOf(cluster, other)); });
  const std::string own = HostOf(cluster, task);
  // "localhost" is 127.0.0.1 and, where there is one, [::1].
  if (all_loopback) {
    if (own == "localhost" || own == "127.0.0.1" || own == "[::1]") return {"localhost"};
    return {"localhost", own};
  }
  const std::vector<std::string> of_machine = OwnAddresses();
  std::vector<std::string> hosts;
  for (std::string& address : ResolveHost(own)) {
    const bool is_own = std::find(of_machine.begin(), of_machine.end(), address) != of_machine.end();
    const bool is_new = std::find(hosts.begin(), hosts.end(), address) == hosts.end();
    if (is_own && is_new && !IsLoopback(address)) hosts.push_back(std::move(address));
  }
  if (!hosts.empty()) {
    hosts.emplace_back("localhost");
    return hosts;
  }
  LOG(INFO) << task.ToString() << " listens on all addresses: its address in the cluster, " << own
            << ", does not belong to this machine; use --bind to choose another";
  return {"0.0.0.0"};
}

std::string TargetHost(const std::vector<std::string>& hosts) {
  const bool local = std::any_of(hosts.begin(), hosts.end(), [](const std::string& host) {
    return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == "0.0.0.0" || host == "[::]";
  });
  return local ? "localhost" : hosts[0];
}

}  // namespace thalweg
