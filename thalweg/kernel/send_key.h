// SPDX-License-Identifier: Apache-2.0
// The rendezvous key in the attributes of _Send and _Recv nodes.
#pragma once

#include "absl/status/statusor.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {

// The key of a _Send or _Recv outside of loops.
absl::StatusOr<RendezvousKey> SendKeyOf(const tensorflow::NodeDef& def);

}  // namespace thalweg
