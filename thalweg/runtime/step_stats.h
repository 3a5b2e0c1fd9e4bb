// Step statistics: when every node ran, and where. Collected only when a step
// asks for it.
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

  // A node that ran from `start_nanos` to `end_nanos` (monotonic). `outputs`
  // are its slots; nullptr if they are not known.
  void Add(const Node& node, const Device* device, int64_t start_nanos, int64_t end_nanos, const Slot* outputs);

  // For nodes of the graph that need no instruction, since their values are
  // there before the step: constants, and names for other values.
  void AddResident(const Graph& graph);

  // By device, in TensorFlow's form.
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
