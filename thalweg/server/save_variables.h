// The variables of a task into a checkpoint, without a graph or a session: for
// a task whose workers are gone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"
#include "thalweg/kernel/device.h"

namespace thalweg {

// Writes every variable of these devices that has a value, of types that outlive
// the process, into the checkpoint `prefix`, each under its own name: those of
// parts, too ("table/part_0"). Returns how many there are; no checkpoint is made
// of none.
absl::StatusOr<int> SaveVariables(FileSystem& files, const std::vector<std::shared_ptr<Device>>& devices,
                                  const std::string& prefix);

}  // namespace thalweg
