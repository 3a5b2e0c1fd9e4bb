// SPDX-License-Identifier: Apache-2.0
// The methods through which a server exposes its master, its worker and the end of its job.
#pragma once

#include <functional>
#include <vector>

#include "thalweg/cluster/job_completion.h"
#include "thalweg/cluster/master/master.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/proto/monitor.pb.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {

// /tensorflow.MasterService/... `master` is borrowed.
std::vector<RpcMethod> MasterService(Master& master);
// /tensorflow.WorkerService/... and /thalweg.TransferService/... `worker` is borrowed.
std::vector<RpcMethod> WorkerService(Worker& worker);
// /thalweg.JobService/... `watch` is borrowed.
std::vector<RpcMethod> JobService(JobCompletion& watch);

// /thalweg.MonitorService/GetStatus. `answer` may block for about a second.
RpcMethod MonitorMethod(std::function<JobStatus(const GetMonitorRequest&)> answer);

}  // namespace thalweg
