// UpdateGate: holds back the steps of a master that change variables, so that a
// checkpoint can take the values of one moment.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"

namespace thalweg {

// One for all sessions of a master. Thread-safe.
//
// Whoever saves pauses the gates of all masters, waits until none of their steps
// is between its first and its last update, takes the values, and lets them go
// on. A pause has a lease: should the one who asked for it die, steps go on when
// the lease is over.
class UpdateGate {
 public:
  UpdateGate() = default;
  ~UpdateGate() { Open(); }
  UpdateGate(const UpdateGate&) = delete;
  UpdateGate& operator=(const UpdateGate&) = delete;

  // Runs `start` here or, during a pause, at its end on another thread. Leave()
  // follows once the step has ended.
  void Enter(absl::AnyInvocable<void()> start);
  void Leave();

  // Begins a pause, or joins that of the same id. `done` runs when no step is
  // left inside, or with DEADLINE_EXCEEDED at the end of the lease.
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  void Pause(uint64_t id, absl::Duration lease, Done done);
  void Resume(uint64_t id);
  // Ends all pauses, and begins none any more: the server ends.
  void Open();

 private:
  struct PauseState {
    Timer::AlarmId lease;
    std::vector<Done> waiting;  // until nobody is inside
  };
  void End(uint64_t id, const absl::Status& why);

  Timer timer_;
  Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;  // for good
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, PauseState> pauses_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
