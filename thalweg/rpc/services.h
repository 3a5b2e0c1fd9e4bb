// A master, a worker and the end of a job as methods of a server.
#pragma once

#include <vector>

#include "thalweg/cluster/job_completion.h"
#include "thalweg/cluster/master/master.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {

// /tensorflow.MasterService/... `master` is borrowed.
std::vector<RpcMethod> MasterService(Master& master);
// /tensorflow.WorkerService/... and /thalweg.TransferService/... `worker` is borrowed.
std::vector<RpcMethod> WorkerService(Worker& worker);
// /thalweg.JobService/... `watch` is borrowed.
std::vector<RpcMethod> JobService(JobCompletion& watch);

}  // namespace thalweg
