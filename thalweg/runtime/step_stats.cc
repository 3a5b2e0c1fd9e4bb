// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/step_stats.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/clock.h"

namespace thalweg {
namespace {

// The op type that a client expects of a node: what it feeds and fetches crosses by
// receives and sends in TensorFlow, where a worker here has arguments and results.
absl::string_view ShownAs(const Node& node) {
  if (node.op() == "_Arg" && absl::StartsWith(node.name(), "_recv_")) return "_Recv";
  if (node.op() == "_Retval" && absl::StartsWith(node.name(), "_send_")) return "_Send";
  return node.op();
}

}  // namespace

StepStatsCollector::StepStatsCollector() : wall_minus_monotonic_nanos_(absl::GetCurrentTimeNanos() - NowNanos()) {}

void StepStatsCollector::Add(const Node& node, const Device* device, int64_t start_nanos, int64_t end_nanos,
                             const Slot* outputs) {
  Entry entry{.node = &node,
              .device = device,
              .start_nanos = start_nanos,
              .end_nanos = end_nanos,
              .thread_id = static_cast<uint32_t>(syscall(SYS_gettid))};
  for (int i = 0; outputs != nullptr && i < node.num_outputs(); ++i) {
    const Tensor& t = outputs[i].tensor;
    entry.outputs.emplace_back(t.dtype(), t.shape());
    entry.output_bytes.push_back(t.has_value() && ElementSize(t.dtype()) > 0
                                     ? t.num_elements() * static_cast<int64_t>(ElementSize(t.dtype()))
                                     : 0);
  }
  MutexLock lock(&mutex_);
  entries_.push_back(std::move(entry));
}

void StepStatsCollector::AddResident(const Graph& graph) {
  MutexLock lock(&mutex_);
  absl::flat_hash_set<const Node*> seen;
  for (const Entry& entry : entries_) seen.insert(entry.node);
  const int64_t now = NowNanos();
  for (const auto& node : graph.nodes()) {
    const bool costs_nothing = node->op() == "Const" || node->op() == "Identity" || ShownAs(*node) != node->op();
    if (!costs_nothing || seen.contains(node.get())) continue;
    entries_.push_back({.node = node.get(), .device = nullptr, .start_nanos = now, .end_nanos = now, .thread_id = 0});
  }
}

void StepStatsCollector::Fill(tensorflow::StepStats* stats) const {
  MutexLock lock(&mutex_);
  std::map<std::string, tensorflow::DeviceStepStats*> by_device;
  for (const Entry& entry : entries_) {
    const std::string name = entry.device != nullptr ? entry.device->name() : entry.node->device();
    tensorflow::DeviceStepStats*& device = by_device[name];
    if (device == nullptr) {
      device = stats->add_dev_stats();
      device->set_device(name);
    }
    tensorflow::NodeExecStats* node = device->add_node_stats();
    node->set_node_name(entry.node->name());
    const int64_t start = entry.start_nanos + wall_minus_monotonic_nanos_;
    const int64_t length = entry.end_nanos - entry.start_nanos;
    node->set_all_start_micros(start / 1000);
    node->set_all_start_nanos(start);
    node->set_op_end_rel_micros(length / 1000);
    node->set_op_end_rel_nanos(length);
    node->set_all_end_rel_micros(length / 1000);
    node->set_all_end_rel_nanos(length);
    node->set_thread_id(entry.thread_id);
    const auto input_name = [](const Output& o) { return o.node->name(); };
    std::vector<std::string> inputs;
    for (const Output& o : entry.node->inputs()) inputs.push_back(input_name(o));
    node->set_timeline_label(
        absl::StrCat(entry.node->name(), " = ", ShownAs(*entry.node), "(", absl::StrJoin(inputs, ", "), ")"));
    for (size_t i = 0; i < entry.outputs.size(); ++i) {
      if (entry.outputs[i].first == kInvalid) continue;
      tensorflow::NodeOutput* output = node->add_output();
      output->set_slot(static_cast<int32_t>(i));
      auto* description = output->mutable_tensor_description();
      description->set_dtype(static_cast<tensorflow::DataType>(entry.outputs[i].first));
      entry.outputs[i].second.ToProto(description->mutable_shape());
      auto* allocation = description->mutable_allocation_description();
      allocation->set_requested_bytes(entry.output_bytes[i]);
      allocation->set_allocator_name("cpu");
    }
  }
}

}  // namespace thalweg
