// SPDX-License-Identifier: Apache-2.0
// FaultInjector: carries out a FaultPlan in this process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/faults/fault_plan.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"

namespace thalweg {

struct FaultInjectorOptions {
  std::string task;                              // the task of this process: "ps:0"
  std::map<std::string, std::string> addresses;  // addresses of all tasks: "ps:0" to "host:port"
};

// While it lives, the faults of the plan that are this task's happen: it sets the
// handler of fail points and the network of the process, of which there is one.
// Logs every fault when it strikes. Thread-safe.
class FaultInjector {
 public:
  // INVALID_ARGUMENT if the plan names a task that is not among the addresses, or
  // has a fault that only `thalweg run` can bring about.
  static absl::StatusOr<std::unique_ptr<FaultInjector>> Start(const FaultPlan& plan,
                                                              const FaultInjectorOptions& options);
  ~FaultInjector();
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

 private:
  struct Armed {
    Fault fault;
    int64_t passed = 0;      // how often the task has passed the point
    int64_t struck_at = -1;  // when it began, -1 before
  };
  FaultInjector(const FaultPlan& plan, const FaultInjectorOptions& options);
  absl::Status Pass(absl::string_view point, absl::string_view task);
  // Whether it strikes now that its point is passed once more.
  bool Strikes(Armed& armed, int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string task_;       // "ps:0"
  const std::string task_name_;  // "/job:ps/replica:0/task:0"
  const int64_t start_nanos_;
  Mutex mutex_;
  std::vector<Armed> armed_ ABSL_GUARDED_BY(mutex_);
  Timer timer_;  // starts faults that have a time; destroyed first
};

// Stops this process, all its threads, for `lasts`; for good if that is infinite.
void StopThisProcess(absl::Duration lasts);

}  // namespace thalweg
