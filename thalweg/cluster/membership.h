// SPDX-License-Identifier: Apache-2.0
// Finds the tasks of a session and their devices.
//
// A task that was never seen may not have started yet, so sessions wait for it. A task
// that was seen, by this task or another, and does not answer now has left: sessions do
// not wait for it, and steps that need it fail with an error that names it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/proto/device.pb.h"

namespace thalweg {

// The devices of the tasks that a session may use.
struct ClusterDevices {
  struct Task {
    std::string name;
    std::vector<tensorflow::DeviceAttributes> devices;
    bool takes_pushes = false;  // it accepts pushed tensors
  };
  std::vector<Task> tasks;
  std::vector<std::string> absent;     // tasks that have left
  std::vector<std::string> restarted;  // tasks whose process is another one than when they were last asked

  uint64_t Incarnation(const std::string& device) const;  // 0 if there is no such device
};

// This server's knowledge about the other tasks. Thread-safe.
class Membership {
 public:
  using DiscoverDone = absl::AnyInvocable<void(absl::StatusOr<ClusterDevices>)>;

  // Asks `self` and every task that matches a filter (all, if there is no filter) for its
  // devices and for the tasks that it has seen. Logs every 10 s which tasks have not
  // answered. Fails only if the call is cancelled.
  //
  // Does not block: `done` runs on this thread or on the thread of the last answer. This
  // object, the timer and the cancellation must live until then.
  void Discover(const CallOptions& options, Timer& timer, std::shared_ptr<Workers> workers, const std::string& self,
                const std::vector<DeviceName>& filters, DiscoverDone done);

  // Records that a task called or answered. Names can come from anyone: the oldest are
  // forgotten when all of them have more than kMaxSeenBytes.
  void MarkSeen(const std::string& task);
  std::vector<std::string> SeenTasks() const;
  bool Seen(const std::string& task) const;

  // They travel in every answer to GetStatus. Enough for some 30,000 tasks.
  static constexpr size_t kMaxSeenBytes = 1 << 20;

 private:
  class Discovery;
  // The result of a discovery whose tasks have all answered or left.
  absl::StatusOr<ClusterDevices> Devices(const Discovery& discovery);
  // Logs that a task has left, but not too often.
  void LogAbsent(const std::string& task, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void AddSeen(const std::string& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::set<std::string> seen_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::set<std::string>::const_iterator> seen_order_ ABSL_GUARDED_BY(mutex_);  // oldest first
  size_t seen_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> incarnations_ ABSL_GUARDED_BY(mutex_);  // incarnation of each task's first device
  // Tasks that have left, with the time when that was last logged.
  std::map<std::string, absl::Time> logged_absent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
