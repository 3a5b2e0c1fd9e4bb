// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/cluster_def.h"

#include <string>

#include "thalweg/base/status.h"

namespace thalweg {

absl::StatusOr<ClusterSpec> ClusterSpecFromProto(const tensorflow::ClusterDef& def) {
  ClusterSpec spec;
  for (const auto& job : def.job()) {
    RETURN_IF_ERROR(spec.AddJob(job.name()));
    for (const auto& [index, address] : job.tasks()) RETURN_IF_ERROR(spec.AddTask({job.name(), index}, address));
  }
  return spec;
}

tensorflow::ClusterDef ClusterSpecToProto(const ClusterSpec& spec) {
  tensorflow::ClusterDef def;
  for (const std::string& name : spec.jobs()) {
    auto* const job = def.add_job();
    job->set_name(name);
    for (const auto& [index, address] : spec.addresses(name)) (*job->mutable_tasks())[index] = address;
  }
  return def;
}

}  // namespace thalweg
