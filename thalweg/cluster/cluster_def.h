// SPDX-License-Identifier: Apache-2.0
// A cluster from and to TensorFlow's message.
#pragma once

#include "absl/status/statusor.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/proto/config.pb.h"

namespace thalweg {

// INVALID_ARGUMENT as for ClusterSpec::AddJob and AddTask.
absl::StatusOr<ClusterSpec> ClusterSpecFromProto(const tensorflow::ClusterDef& def);
tensorflow::ClusterDef ClusterSpecToProto(const ClusterSpec& spec);

}  // namespace thalweg
