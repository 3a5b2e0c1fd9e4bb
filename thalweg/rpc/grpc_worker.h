// SPDX-License-Identifier: Apache-2.0
// Stubs of workers in other processes.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {

// The stub of one task. Errors name the task and the address.
std::unique_ptr<Worker> MakeGrpcWorker(std::string task, std::string address, std::shared_ptr<RpcChannel> channel);

// The workers of a cluster: this task's own, and the others over gRPC.
// `client` and `self_worker` are borrowed.
absl::StatusOr<std::shared_ptr<Workers>> MakeGrpcWorkers(const ClusterSpec& cluster, const TaskId& self,
                                                         Worker* self_worker, RpcClient* client);

}  // namespace thalweg
