// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/replica_identity.h"

#include "absl/strings/str_cat.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {

ReplicaIdentity IdentifyReplica(const Scope& s, int64_t total) {
  ReplicaIdentity replica;
  replica.anchor = NoOp(s.InScope("").WithoutControlDependencies().WithOpName("replica_anchor"));
  if (!replica.anchor) return replica;
  const absl::StatusOr<DeviceName> device = DeviceName::Parse(replica.anchor.node->device());
  if (!device.ok()) return replica;
  replica.worker = device->task.value_or(0);
  if (device->job == "chief" || device->job == "master") replica.worker = total - 1;
  if (device->job && device->task) replica.task = absl::StrCat("/job:", *device->job, "/task:", *device->task);
  return replica;
}

}  // namespace thalweg
