// SPDX-License-Identifier: Apache-2.0
// Reports of resources for the status of a task.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
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
    int64_t stale = 0;    // refused: too old
    int64_t dropped = 0;  // refused as repetitions, or accepted and not used
  };
  // A worker of synchronous or bounded-staleness training.
  struct Member {
    bool present = true;
    bool expelled = false;   // the others go on without it, because it held them up
    int64_t left_nanos = 0;  // when it left or was expelled, by NowNanos()
    auto operator<=>(const Member&) const = default;
  };
  // The gradients that the next update waits for.
  struct GradientWait {
    int64_t have = 0, wanted = 0;
    int64_t since_nanos = 0;        // by NowNanos()
    std::set<std::string> missing;  // workers that have sent none, named as in `gradients`
  };
  static constexpr size_t kAges = 16;

  std::vector<Queue> queues;
  // By "worker 1" or by the task that computed them, "/job:worker/replica:0/task:1"; "": not known.
  std::map<std::string, Gradients> gradients;
  std::array<int64_t, kAges> staleness{};  // gradients by age in steps; the last is "or more"
  int64_t accumulators = 0;                // that have counted these gradients
  std::map<int64_t, Member> members;       // by number of the worker
  // By step. The accumulators of a training wait together.
  std::map<int64_t, GradientWait> gradient_waits;
};

class ReportedResource {
 public:
  virtual ~ReportedResource() = default;
  // Adds to the report. Thread-safe.
  virtual void Report(ResourceReport* report) const = 0;
};

}  // namespace thalweg
