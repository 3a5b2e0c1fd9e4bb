// SPDX-License-Identifier: Apache-2.0
// The kernels of a session that keep state between steps. All signatures share them, so
// that a random op continues its sequence and a variable is the same in all of them.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// Thread-safe.
class StatefulKernels {
 public:
  // Returns the kernel for a node: the existing one if the op is stateful, otherwise a
  // new one.
  absl::StatusOr<std::shared_ptr<Kernel>> Make(const Node& node, Device& device);
  void Clear();

 private:
  // Op, node name, device, input and output types. The name alone is not enough: inlined
  // nodes of different signatures may have the same name. Kernels rely on the types.
  using Key = std::tuple<std::string, std::string, std::string, std::vector<DType>, std::vector<DType>>;

  Mutex mutex_;
  absl::flat_hash_map<Key, std::shared_ptr<Kernel>> kernels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
