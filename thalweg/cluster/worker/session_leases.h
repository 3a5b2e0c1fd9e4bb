// SPDX-License-Identifier: Apache-2.0
// Removes the sessions of masters that have died.
//
// A master deletes its worker sessions itself, unless it dies. If it restarts under the
// same name, it has another incarnation, and nobody can use the sessions of the former one.
// If it does not come back, it does not answer when it is asked for its status; after the
// time of a lease, its sessions are removed. A master whose clients are idle answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/worker/worker.h"

namespace thalweg {

// Thread-safe.
class SessionLeases {
 public:
  struct Master {
    std::string task;                  // its name in its cluster; empty if unknown
    std::string cluster;               // identifies the cluster, because names are unique only in one cluster
    int64_t incarnation = 0;           // 0 if unknown
    std::shared_ptr<Workers> workers;  // used to call it
  };
  using Drop = std::function<void(const std::vector<std::string>& handles, const std::string& why)>;

  // `drop` is called, without a lock held, for sessions that nobody will use again. The clock,
  // which is borrowed, measures the leases.
  SessionLeases(absl::Duration lease, Drop drop, Clock& clock = RealClock())
      : lease_(lease), drop_(std::move(drop)), clock_(clock) {}
  ~SessionLeases() { Stop(); }
  SessionLeases(const SessionLeases&) = delete;
  SessionLeases& operator=(const SessionLeases&) = delete;

  // Adds a session that a master has created. Drops those of its earlier incarnations.
  void Add(const std::string& handle, Master master);
  // The session has ended.
  void Remove(const std::string& handle);
  // Stops asking masters and waits for the calls in flight.
  void Stop();

 private:
  struct Entry {
    Master master;
    int64_t heard_nanos = 0;  // when its master was last known to be alive, by MonotonicNanos()
  };

  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskMasters();
  void Answered(const Master& master, const absl::Status& status, const tensorflow::GetStatusResponse& response);
  // Removes the sessions for which `is_dead` holds, and returns their handles.
  template <typename IsDead>
  std::vector<std::string> Take(IsDead is_dead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration lease_;
  const Drop drop_;
  Clock& clock_;
  Cancellation closed_;
  Mutex mutex_;
  CondVar answered_;
  std::map<std::string, Entry> sessions_ ABSL_GUARDED_BY(mutex_);  // by handle
  int questions_ ABSL_GUARDED_BY(mutex_) = 0;                      // status calls in flight
  bool alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  Timer timer_;  // the last member: destroyed first, so that no alarm uses the others
};

}  // namespace thalweg
