// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/stateful_kernels.h"

#include <utility>

#include "thalweg/base/status.h"

namespace thalweg {

absl::StatusOr<std::shared_ptr<Kernel>> StatefulKernels::Make(const Node& node, Device& device) {
  if (!node.is_stateful() || node.op() == "_Send" || node.op() == "_Recv") {
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, KernelRegistry::Global().Make(node, device));
    return std::shared_ptr<Kernel>(std::move(kernel));
  }
  const Key key(node.op(), node.name(), device.name(), node.input_types(), node.output_types());
  MutexLock lock(&mutex_);
  if (const auto it = kernels_.find(key); it != kernels_.end()) return it->second;
  ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel, KernelRegistry::Global().Make(node, device));
  kernels_.emplace(key, kernel);
  return kernel;
}

void StatefulKernels::Clear() {
  absl::flat_hash_map<Key, std::shared_ptr<Kernel>> cleared;  // destroyed after the lock is gone
  MutexLock lock(&mutex_);
  kernels_.swap(cleared);
}

}  // namespace thalweg
