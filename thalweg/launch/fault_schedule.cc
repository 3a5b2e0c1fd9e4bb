// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/fault_schedule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using Kind = Fault::Kind;
using ActionKind = FaultSchedule::Action::Kind;

// The text that tells a task about a fault whose time began `elapsed` ago.
Fault Later(Fault fault, absl::Duration elapsed) {
  if (!fault.point.empty()) return fault;
  const absl::Duration begun = elapsed - fault.time;
  if (begun > absl::ZeroDuration()) fault.lasts -= begun;
  fault.time = std::max(fault.time - elapsed, absl::ZeroDuration());
  return fault;
}

}  // namespace

FaultSchedule::FaultSchedule(FaultPlan plan, absl::Time start) : plan_(std::move(plan)), start_(start) {
  for (const Fault& fault : plan_.faults) {
    if (!fault.is_of_launcher()) continue;
    Action action{.task = fault.task, .jump = fault.delay, .text = fault.ToString()};
    action.kind = fault.kind == Kind::kKill        ? ActionKind::kKill
                  : fault.kind == Kind::kTerminate ? ActionKind::kTerminate
                  : fault.kind == Kind::kStop      ? ActionKind::kStop
                                                   : ActionKind::kClock;
    actions_.emplace(start_ + fault.time, action);
    if (fault.kind != Kind::kStop || fault.lasts == absl::InfiniteDuration()) continue;
    action.kind = ActionKind::kContinue;
    actions_.emplace(start_ + fault.time + fault.lasts, std::move(action));
  }
}

std::vector<FaultSchedule::Action> FaultSchedule::Take(absl::Time now) {
  std::vector<Action> due;
  while (!actions_.empty() && actions_.begin()->first <= now) {
    due.push_back(std::move(actions_.begin()->second));
    actions_.erase(actions_.begin());
  }
  return due;
}

std::string FaultSchedule::ForTask(const std::string& task, bool again, absl::Time now) const {
  FaultPlan told{.seed = plan_.seed};
  for (const Fault& fault : plan_.faults) {
    if (fault.is_of_launcher() || (!fault.task.empty() && fault.task != task)) continue;
    if (again && fault.kind <= Kind::kFail) continue;
    Fault left = Later(fault, now - start_);
    if (left.lasts > absl::ZeroDuration()) told.faults.push_back(std::move(left));
  }
  return told.faults.empty() ? "" : told.ToString();
}

std::map<std::string, std::string> FaultAddresses(const ClusterSpec& cluster) {
  std::map<std::string, std::string> addresses;
  for (const TaskId& task : cluster.tasks()) {
    addresses[absl::StrCat(task.job, ":", task.index)] = *cluster.Address(task);
  }
  return addresses;
}

absl::StatusOr<std::unique_ptr<FaultInjector>> StartFaults(absl::string_view text, const ClusterSpec& cluster,
                                                           const TaskId& task) {
  if (text.empty()) return nullptr;
  ASSIGN_OR_RETURN(const FaultPlan plan, FaultPlan::Parse(text));
  LOG(WARNING) << task.ToString() << " runs with injected faults: " << plan.ToString();
  return FaultInjector::Start(plan,
                              {.task = absl::StrCat(task.job, ":", task.index), .addresses = FaultAddresses(cluster)});
}

}  // namespace thalweg
