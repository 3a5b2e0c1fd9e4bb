// Which masters the sessions of a worker belong to, and whether those masters live.
//
// A master ends its sessions itself, unless it dies. One that comes back under the same
// name is another incarnation, and the sessions of the one before are of no use to
// anybody. One that stays away is asked now and then: if it does not answer for as long
// as a lease, its sessions go too. A master whose clients are idle answers.
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
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/worker/worker.h"

namespace thalweg {

// Thread-safe.
class SessionLeases {
 public:
  struct Master {
    std::string task;                  // as its cluster calls it; empty if it did not say
    std::string cluster;               // differs for clusters in which the same name is another task
    int64_t incarnation = 0;           // 0 if it did not say
    std::shared_ptr<Workers> workers;  // finds it
  };
  using Drop = std::function<void(const std::vector<std::string>& handles, const std::string& why)>;

  // `drop` is called for sessions that nobody will use again, with no lock held.
  SessionLeases(absl::Duration lease, Drop drop) : lease_(lease), drop_(std::move(drop)) {}
  ~SessionLeases() { Stop(); }
  SessionLeases(const SessionLeases&) = delete;
  SessionLeases& operator=(const SessionLeases&) = delete;

  // A master has made a session. Drops those of its earlier incarnations.
  void Add(const std::string& handle, Master master);
  // The session has ended.
  void Remove(const std::string& handle);
  // Asks nobody any more, and waits for the questions under way.
  void Stop();

 private:
  struct Entry {
    Master master;
    absl::Time heard;  // when its master was last known to live
  };

  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskMasters();
  void Answered(const Master& master, const absl::Status& status, const tensorflow::GetStatusResponse& response);
  // Takes the sessions for which `is_dead` out of the table.
  template <typename IsDead>
  std::vector<std::string> Take(IsDead is_dead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration lease_;
  const Drop drop_;
  Cancellation closed_;
  Mutex mutex_;
  CondVar answered_;
  std::map<std::string, Entry> sessions_ ABSL_GUARDED_BY(mutex_);  // by handle
  int questions_ ABSL_GUARDED_BY(mutex_) = 0;                      // under way
  bool alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  Timer timer_;  // ends first
};

}  // namespace thalweg
