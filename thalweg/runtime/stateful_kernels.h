// The kernels of a session that keep state between steps: a random op goes on
// with its sequence, and a variable is the same one, whichever signature they
// are in.
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
  // A kernel for a node: the one that it had before if the node keeps state, else
  // a new one.
  absl::StatusOr<std::shared_ptr<Kernel>> Make(const Node& node, Device& device);
  void Clear();

 private:
  // Op, name and device: a node of a function's body may have the name of another
  // in another signature. With their types, since a kernel relies on them.
  using Key = std::tuple<std::string, std::string, std::string, std::vector<DType>, std::vector<DType>>;

  Mutex mutex_;
  absl::flat_hash_map<Key, std::shared_ptr<Kernel>> kernels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
