// TaskObserver: a resource that other tasks share, and that must know when one of
// them has left for good.
#pragma once

#include <string>

#include "thalweg/kernel/resource.h"

namespace thalweg {

class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  // The program of `task` ("/job:worker/replica:0/task:1") has said that its work
  // is done. It may come back if it is started again.
  virtual void TaskLeft(const std::string& task) = 0;
};

// Tells those among the resources that observe tasks.
inline void TellTaskLeft(const ResourceManager& resources, const std::string& task) {
  for (const auto& resource : resources.All()) {
    if (auto* const observer = dynamic_cast<TaskObserver*>(resource.get())) observer->TaskLeft(task);
  }
}

}  // namespace thalweg
