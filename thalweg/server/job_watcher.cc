// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/job_watcher.h"

#include <utility>

#include "absl/time/time.h"
#include "thalweg/server/job_monitor.h"

namespace thalweg {

class JobWatcher::Asker {
 public:
  explicit Asker(const ClusterSpec& cluster) : monitor_(cluster, TaskId(), &client_, nullptr) {}
  JobStatus Ask() { return monitor_.Ask(GetMonitorRequest()); }
  void Stop() { monitor_.Stop(); }

 private:
  RpcClient client_;
  JobMonitor monitor_;
};

JobWatcher::JobWatcher(const ClusterSpec& cluster) : asker_(std::make_unique<Asker>(cluster)) {
  thread_ = std::make_unique<Thread>("job-watcher", [this] { Run(); });
}

JobWatcher::~JobWatcher() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  asker_->Stop();
  thread_.reset();
}

JobStatus JobWatcher::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

void JobWatcher::Run() {
  constexpr absl::Duration kEvery = absl::Seconds(1);
  while (true) {
    JobStatus status = asker_->Ask();
    MutexLock lock(&mutex_);
    status_ = std::move(status);
    if (!closing_) changed_.WaitWithTimeout(&mutex_, kEvery);
    if (closing_) return;
  }
}

}  // namespace thalweg
