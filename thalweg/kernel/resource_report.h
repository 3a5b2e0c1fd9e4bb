// SPDX-License-Identifier: Apache-2.0
// Reports of resources for the status of a task.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace thalweg {

struct ResourceReport {
  struct Queue {
    std::string name;
    int64_t size = 0;
    int64_t capacity = -1;  // negative: no limit
  };
  struct Gradients {
    int64_t accepted = 0;
    int64_t stale = 0;
  };
  static constexpr size_t kAges = 16;

  std::vector<Queue> queues;
  // By "worker 1" or by the task that computed them, "/job:worker/replica:0/task:1"; "": not known.
  std::map<std::string, Gradients> gradients;
  std::array<int64_t, kAges> staleness{};  // gradients by age in steps; the last is "or more"
  int64_t accumulators = 0;                // that have counted these gradients
  std::map<int64_t, bool> members;         // workers of synchronous steps: whether they take part now
};

class ReportedResource {
 public:
  virtual ~ReportedResource() = default;
  // Adds to the report. Thread-safe.
  virtual void Report(ResourceReport* report) const = 0;
};

}  // namespace thalweg
