// SPDX-License-Identifier: Apache-2.0
// FaultSchedule: the part of a FaultPlan that a launcher carries out, and the part
// that it hands on to the tasks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "thalweg/base/faults/fault_injector.h"
#include "thalweg/base/faults/fault_plan.h"
#include "thalweg/cluster/cluster_spec.h"

namespace thalweg {

// The variable by which tasks hear of their faults.
inline constexpr char kFaultsVariable[] = "THALWEG_FAULTS";

// Not thread-safe.
class FaultSchedule {
 public:
  struct Action {
    enum class Kind { kKill, kTerminate, kStop, kContinue, kClock };
    Kind kind;
    std::string task;     // "ps:0"
    absl::Duration jump;  // jump of the clock
    std::string text;     // the fault that it belongs to
  };

  // Times count from `start`.
  FaultSchedule(FaultPlan plan, absl::Time start);

  absl::Time next() const { return actions_.empty() ? absl::InfiniteFuture() : actions_.begin()->first; }
  std::vector<Action> Take(absl::Time now);
  // The plan for a task that is started now, as FaultPlan::Parse() takes it; "" if
  // there is nothing to tell. Faults that have struck a task before it was started
  // again are not repeated.
  std::string ForTask(const std::string& task, bool again, absl::Time now) const;

 private:
  const FaultPlan plan_;
  const absl::Time start_;
  std::multimap<absl::Time, Action> actions_;
};

// "ps:0" to "host:port", for FaultInjector.
std::map<std::string, std::string> FaultAddresses(const ClusterSpec& cluster);
// Starts the faults that --faults or THALWEG_FAULTS gives a task; nullptr if `text` is
// empty.
absl::StatusOr<std::unique_ptr<FaultInjector>> StartFaults(absl::string_view text, const ClusterSpec& cluster,
                                                           const TaskId& task);

}  // namespace thalweg
