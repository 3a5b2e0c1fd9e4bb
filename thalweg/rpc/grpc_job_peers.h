// The end of a job, told to tasks in other processes.
#pragma once

#include <memory>

#include "thalweg/cluster/job_completion.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {

// The tasks of a cluster. `client` is borrowed. Connections are made when they
// are first needed.
std::unique_ptr<JobPeers> MakeGrpcJobPeers(ClusterSpec cluster, RpcClient* client);

// A client tells its master that its work is done.
void CallAnnounceDone(RpcChannel& master, const CallOptions& options, AnnounceDoneResponse* response,
                      Worker::Done done);

}  // namespace thalweg
