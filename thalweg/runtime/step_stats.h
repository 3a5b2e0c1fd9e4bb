// SPDX-License-Identifier: Apache-2.0
// Step statistics: when and where every node ran. Collected only if the step requests
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/proto/step_stats.pb.h"

namespace thalweg {

// Thread-safe.
class StepStatsCollector {
 public:
  StepStatsCollector();

  // Adds a node that ran from `start_nanos` to `end_nanos` (monotonic). `outputs` are its
  // slots; nullptr if they are not known.
  void Add(const Node& node, const Device* device, int64_t start_nanos, int64_t end_nanos, const Slot* outputs);

  // Adds the nodes that have no instruction because their values exist before the step:
  // constants, and aliases of other values.
  void AddResident(const Graph& graph);

  // Writes the statistics by device, in TensorFlow's format.
  void Fill(tensorflow::StepStats* stats) const;

 private:
  struct Entry {
    const Node* node;
    const Device* device;
    int64_t start_nanos;
    int64_t end_nanos;
    uint32_t thread_id;
    std::vector<std::pair<DType, Shape>> outputs;
    std::vector<int64_t> output_bytes;
  };
  const int64_t wall_minus_monotonic_nanos_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
