// SPDX-License-Identifier: Apache-2.0
// Broadcasts a value from one member to all others along trees: first to one member of every
// task, then within each task. n members take about 2 log2(n) steps. The trees and keys are
// TensorFlow's, since other members may be TensorFlow tasks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thalweg/cluster/collectives/links.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct BroadcastCall {
  std::string key;  // prefix of the keys of all transfers
  int rank = 0;     // rank of this member
  int source = 0;   // rank of the member that has the value
  std::vector<int> members_per_task;
  Tensor values;  // the value at the source; elsewhere the memory to receive it
};

// Runs this member's part.
void RunTreeBroadcast(BroadcastCall call, std::shared_ptr<Links> links, Links::Done done);

}  // namespace thalweg
