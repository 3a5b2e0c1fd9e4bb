// SPDX-License-Identifier: Apache-2.0
// Announces the end of a job to tasks in other processes.
#pragma once

#include <memory>

#include "thalweg/cluster/job_completion.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {

// Stubs for the tasks of a cluster. `client` is borrowed. Connections are opened on first
// use.
std::unique_ptr<JobPeers> MakeGrpcJobPeers(ClusterSpec cluster, RpcClient* client);

// Tells a client's master that the client is done, or that it ends with an error.
void CallAnnounceDone(RpcChannel& master, const CallOptions& options, const AnnounceDoneRequest& request,
                      AnnounceDoneResponse* response, Worker::Done done);

}  // namespace thalweg
