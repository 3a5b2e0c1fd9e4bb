// SPDX-License-Identifier: Apache-2.0
// Exchanges parts between all members: part i of each member goes to member i, which puts the parts of all in the order
// of their ranks. n members send n - 1 messages each. The keys are TensorFlow's, since other members may be TensorFlow
// tasks.
#pragma once

#include <memory>
#include <string>

#include "thalweg/cluster/collectives/links.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct AllToAllCall {
  std::string key;  // prefix of the keys of all transfers
  int rank = 0;     // rank of this member
  int members = 0;
  Tensor parts;   // what this member sends: `members` parts of the same size, by rank
  Tensor values;  // memory for the parts that it receives
};

// Runs this member's part.
void RunAllToAll(const AllToAllCall& call, std::shared_ptr<Links> links, Links::Done done);

}  // namespace thalweg
