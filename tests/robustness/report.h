// SPDX-License-Identifier: Apache-2.0
// The results of a campaign of faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace thalweg {

struct FaultResult {
  std::string where;  // "one process"
  std::string kind;   // "crash"
  std::string point;  // the fail point, or ""
  std::string replication;
  double detection_ms = -1;  // until a task reported the loss of another; -1: it did not have to
  double recovery_ms = 0;    // until every worker had made a step that began after the fault
};

struct Report {
  void Add(FaultResult result) { results.push_back(std::move(result)); }
  int faults() const { return static_cast<int>(results.size()); }
  std::string ToString() const;  // a table by kind
  void Append(const std::string& path) const;

  std::vector<FaultResult> results;
  int64_t not_reached = 0;  // faults that the training did not meet
  int64_t hangs = 0, wrong = 0;
  int64_t steps = 0, steps_lost = 0, checkpoints = 0;
};

}  // namespace thalweg
