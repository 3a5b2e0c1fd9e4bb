// SPDX-License-Identifier: Apache-2.0
// Compiles a graph into an Executable.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/device.h"
#include "thalweg/runtime/plan.h"

namespace thalweg {

// Creates the kernel for a node, or returns the one that the session already has.
using KernelSource = std::function<absl::StatusOr<std::shared_ptr<Kernel>>(const Node& node, Device& device)>;
// Finds a device by its full name; nullptr if there is none.
using DeviceFinder = std::function<Device*(const std::string& name)>;

// REQUIRES: every node is placed on a device that `find_device` knows, and arguments and
// results are _Arg and _Retval nodes, numbered from 0.
absl::StatusOr<std::unique_ptr<Executable>> Compile(Graph graph, const DeviceFinder& find_device,
                                                    const KernelSource& make_kernel);

}  // namespace thalweg
