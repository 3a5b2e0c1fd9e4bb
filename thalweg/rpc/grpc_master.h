// SPDX-License-Identifier: Apache-2.0
// The stub of a master in another process.
#pragma once

#include <memory>

#include "thalweg/cluster/master/master.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {

std::unique_ptr<Master> MakeGrpcMaster(std::shared_ptr<RpcChannel> channel);

}  // namespace thalweg
