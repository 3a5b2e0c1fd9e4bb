// SPDX-License-Identifier: Apache-2.0
// For resources that several tasks use and that must know when one of them has left,
// such as the token queue of synchronous training.
#pragma once

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "thalweg/kernel/resource.h"

namespace thalweg {

// How a task was lost before its program was done.
struct TaskFailure {
  absl::Time when;
  bool unreachable = false;  // it stopped answering; false: it announced that its program ended with an error

  // "ended with an error 12s ago", "has not answered for 12s"
  std::string Describe(absl::Time now) const {
    const std::string ago = absl::FormatDuration(absl::Trunc(now - when, absl::Seconds(1)));
    return unreachable ? absl::StrCat("has not answered for ", ago) : absl::StrCat("ended with an error ", ago, " ago");
  }
};

class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  // The program of `task` ("/job:worker/replica:0/task:1") has announced that it is
  // done. It may come back if it is restarted.
  virtual void TaskLeft(const std::string& task) = 0;
  // These tasks were lost and have not been restarted. Called about every second while that is
  // so. Waits that only these tasks can end should fail when they have lasted for `limit`.
  virtual void TasksFailed(const std::map<std::string, TaskFailure>& failed, absl::Duration limit) = 0;
};

// Notifies the resources that are TaskObservers.
inline void TellTaskLeft(const ResourceManager& resources, const std::string& task) {
  for (const auto& resource : resources.All()) {
    if (auto* const observer = dynamic_cast<TaskObserver*>(resource.get())) observer->TaskLeft(task);
  }
}

inline void TellTasksFailed(const ResourceManager& resources, const std::map<std::string, TaskFailure>& failed,
                            absl::Duration limit) {
  for (const auto& resource : resources.All()) {
    if (auto* const observer = dynamic_cast<TaskObserver*>(resource.get())) observer->TasksFailed(failed, limit);
  }
}

}  // namespace thalweg
