// Which tasks a session has, and their devices.
//
// A task that was never seen is waited for: it may not have started yet. One
// that was seen, here or by another task, and does not answer now has left: it
// is not waited for, and steps that need it fail, naming it.
#pragma once

#include <cstdint>
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
    bool takes_pushes = false;  // of tensors that steps send
  };
  std::vector<Task> tasks;
  std::vector<std::string> absent;  // tasks that have left

  uint64_t Incarnation(const std::string& device) const;  // 0 if there is no such device
};

// What this server remembers of the tasks around it. Thread-safe.
class Membership {
 public:
  using DiscoverDone = absl::AnyInvocable<void(absl::StatusOr<ClusterDevices>)>;

  // Asks every task that a filter matches (all, if there are none), and `self`,
  // for its devices, and whom it has seen. Every 10 s it logs whom it still
  // waits for. Fails only if the call is cancelled.
  //
  // No thread waits: `done` runs on this one, or on that of the last answer. This
  // object, the timer and the cancellation must live until then.
  void Discover(const CallOptions& options, Timer& timer, std::shared_ptr<Workers> workers, const std::string& self,
                const std::vector<DeviceName>& filters, DiscoverDone done);

  // Somebody called, or was reached.
  void MarkSeen(const std::string& task);
  std::vector<std::string> SeenTasks() const;
  bool Seen(const std::string& task) const;

 private:
  class Discovery;
  // What the tasks have answered.
  absl::StatusOr<ClusterDevices> Devices(const Discovery& discovery);
  // Logs, now and then, that a task has left.
  void LogAbsent(const std::string& task, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::set<std::string> seen_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Time> logged_absent_ ABSL_GUARDED_BY(mutex_);  // tasks that have left, and when last
};

}  // namespace thalweg
