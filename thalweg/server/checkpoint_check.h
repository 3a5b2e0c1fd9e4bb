// SPDX-License-Identifier: Apache-2.0
// Looks at the checkpoints that a task's program has saved, for the status of the task.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "thalweg/base/file_system.h"
#include "thalweg/base/thread.h"
#include "thalweg/monitor/task_monitor.h"

namespace thalweg {

// The size of the files of checkpoint `prefix`; 0 if there are none.
double CheckpointBytes(FileSystem& files, const std::string& prefix);

// Measures each new checkpoint, and reads one back now and then: sizes and checksums of all
// tensors. Reading happens on a thread of its own. Used by one thread.
class CheckpointCheck {
 public:
  // All are borrowed.
  CheckpointCheck(TaskMonitor* monitor, FileSystem* files) : monitor_(monitor), files_(files) {}
  ~CheckpointCheck() { closing_ = true; }

  // Call it about once a second.
  void Look();

 private:
  void Read(const std::string& prefix);

  TaskMonitor* const monitor_;
  FileSystem* const files_;
  std::string measured_;  // the last checkpoint whose size is known
  std::string read_;      // the last checkpoint that was read back
  int64_t read_nanos_ = 0;
  std::atomic<bool> closing_{false};
  std::atomic<bool> reading_{false};
  std::unique_ptr<Thread> reader_;  // last: it ends before the rest goes
};

}  // namespace thalweg
