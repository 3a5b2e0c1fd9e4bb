// SPDX-License-Identifier: Apache-2.0
// Follows the status of a job from outside of it.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/proto/monitor.pb.h"

namespace thalweg {

// Asks all tasks of a cluster every second, on a thread of its own. Thread-safe.
class JobWatcher {
 public:
  explicit JobWatcher(const ClusterSpec& cluster);
  ~JobWatcher();
  JobWatcher(const JobWatcher&) = delete;
  JobWatcher& operator=(const JobWatcher&) = delete;

  // The last answers; no tasks before the first.
  JobStatus status() const;

 private:
  class Asker;
  void Run();

  const std::unique_ptr<Asker> asker_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  JobStatus status_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Thread> thread_;
};

}  // namespace thalweg
