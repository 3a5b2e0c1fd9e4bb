// SPDX-License-Identifier: Apache-2.0
// Describes what a waiting node waits for.
#pragma once

#include "absl/strings/string_view.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

struct WaitReason {
  enum class Phase { kWait, kInput };
  Phase phase = Phase::kWait;
  const char* kind = "";  // see StepWait in proto/monitor.proto
  // The task for "tensor". Otherwise the queue, or what the node synchronizes with. Valid
  // as long as the node.
  absl::string_view on;
};

WaitReason WaitReasonOf(const Node& node);

}  // namespace thalweg
