// SPDX-License-Identifier: Apache-2.0
// Chooses the addresses that a server listens on.
#pragma once

#include <string>
#include <vector>

#include "thalweg/cluster/cluster_spec.h"

namespace thalweg {

// The hosts on which the task's port is opened. If `bind` is given, only that. Otherwise as
// few as possible, because servers have no authentication:
// - loopback only, if all addresses of the cluster are loopback addresses;
// - otherwise the address that the cluster gives the task, and loopback for programs on the
//   same machine;
// - all ("0.0.0.0") if that address does not belong to this machine, as behind a proxy or in
//   a container with published ports.
// REQUIRES: the cluster has the task.
std::vector<std::string> ListenHosts(const ClusterSpec& cluster, const TaskId& task, const std::string& bind);

// The host with which programs on this machine can reach a server that listens on `hosts`.
std::string TargetHost(const std::vector<std::string>& hosts);

}  // namespace thalweg
