// SPDX-License-Identifier: Apache-2.0
// Asks another task for its status.
#pragma once

#include <memory>

#include "thalweg/cluster/worker/worker.h"
#include "thalweg/proto/monitor.pb.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {

// `done` runs exactly once; `response` is filled in if the call succeeded. TensorFlow's
// servers answer UNIMPLEMENTED.
void CallGetStatus(RpcChannel& channel, const CallOptions& options, const GetMonitorRequest& request,
                   std::shared_ptr<JobStatus> response, Worker::Done done);

}  // namespace thalweg
