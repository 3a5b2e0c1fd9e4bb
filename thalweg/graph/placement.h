// SPDX-License-Identifier: Apache-2.0
// Where the nodes of a graph run, and why; see Session::ExplainPlacement.
#pragma once

#include <string>
#include <vector>

namespace thalweg {

// The placer's decision about one node.
struct Placed {
  std::string node;    // its name
  std::string op;      // its op type
  std::string device;  // "/job:worker/replica:0/task:0/device:CPU:0"
  std::string reason;  // "asked for /cpu:0", "with variable 'w'", "default"
};

// "name: (Op): /job:.../device:CPU:0 (reason)", as log_device_placement logs it.
std::string DescribePlacement(const Placed& placed);
// A line per node.
std::string DescribePlacement(const std::vector<Placed>& placement);

}  // namespace thalweg
