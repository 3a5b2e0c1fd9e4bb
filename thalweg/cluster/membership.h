// Which tasks a session has, and their devices.
//
// A task that was never seen is waited for: it may not have started yet. One
// that was seen, here or by another task, and does not answer now has left: it
// is not waited for, and steps that need it fail, naming it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
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
  // Asks every task that a filter matches (all, if there are none), and `self`,
  // for its devices, and whom it has seen. Every 10 s it logs whom it still
  // waits for. Fails only if the call is cancelled.
  absl::StatusOr<ClusterDevices> Discover(const CallOptions& options, Workers& workers, const std::string& self,
                                          const std::vector<DeviceName>& filters);

  // Somebody called, or was reached.
  void MarkSeen(const std::string& task);
  std::vector<std::string> SeenTasks() const;
  bool Seen(const std::string& task) const;

 private:
  mutable Mutex mutex_;
  std::set<std::string> seen_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Time> told_left_ ABSL_GUARDED_BY(mutex_);  // when it was last logged that it is away
};

}  // namespace thalweg
