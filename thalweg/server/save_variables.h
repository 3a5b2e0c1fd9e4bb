// SPDX-License-Identifier: Apache-2.0
// Saves the variables of a task without a graph or a session, for a parameter server whose
// workers are gone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"
#include "thalweg/kernel/device.h"

namespace thalweg {

// Writes all initialized variables of the devices, except those of types that cannot leave
// the process, into the checkpoint `prefix`. Each is stored under its own name, partitions
// too ("table/part_0"). Returns the number of variables. If there are none, no checkpoint is
// written.
absl::StatusOr<int> SaveVariables(FileSystem& files, const std::vector<std::shared_ptr<Device>>& devices,
                                  const std::string& prefix);

}  // namespace thalweg
