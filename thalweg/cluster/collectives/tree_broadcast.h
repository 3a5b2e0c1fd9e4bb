// SPDX-License-Identifier: Apache-2.0
// A value goes from one member to all others, along trees: first to one member
// of every task, then within each task. n members take about 2 log2(n) steps.
// The trees and keys are those of TensorFlow, which may be on the other side.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thalweg/cluster/collectives/links.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct BroadcastCall {
  std::string key;  // that of every transfer begins with it
  int rank = 0;     // this member's
  int source = 0;   // the rank of the member that has the value
  std::vector<int> members_per_task;
  Tensor values;  // the value, or room for it
};

// This member's part.
void RunTreeBroadcast(BroadcastCall call, std::shared_ptr<Links> links, Links::Done done);

}  // namespace thalweg
