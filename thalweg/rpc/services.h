// A master and a worker as methods of a server.
#pragma once

#include <vector>

#include "thalweg/cluster/master.h"
#include "thalweg/cluster/worker.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {

// /tensorflow.MasterService/... `master` is borrowed.
std::vector<RpcMethod> MasterService(Master& master);
// /tensorflow.WorkerService/... and /thalweg.TransferService/... `worker` is borrowed.
std::vector<RpcMethod> WorkerService(Worker& worker);

}  // namespace thalweg
