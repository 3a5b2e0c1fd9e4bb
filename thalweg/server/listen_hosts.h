// Where a server listens.
#pragma once

#include <string>
#include <vector>

#include "thalweg/cluster/cluster_spec.h"

namespace thalweg {

// The hosts at which the task's port is opened. With `bind` it is that one. Without,
// nobody reaches the server who need not:
// - in a cluster whose addresses are all of this machine's loopback, only that;
// - otherwise the address that the cluster gives the task, and loopback, which its own
//   programs use;
// - all ("0.0.0.0") if that address is none of this machine's, as behind a proxy or in
//   a container whose ports are published by another host.
// REQUIRES: the cluster has the task.
std::vector<std::string> ListenHosts(const ClusterSpec& cluster, const TaskId& task, const std::string& bind);

// The host by which programs of this machine call a server that listens there.
std::string TargetHost(const std::vector<std::string>& hosts);

}  // namespace thalweg
