// SPDX-License-Identifier: Apache-2.0
// Delays the steps of a master that update variables, so that a checkpoint can read a
// consistent cut.
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
// A save pauses the gates of all masters, waits until no step is between its first and
// its last update, reads the values, and resumes the gates. A pause has a lease: if the
// process that requested it dies, steps continue when the lease expires.
class UpdateGate {
 public:
  UpdateGate() = default;
  ~UpdateGate() { Open(); }
  UpdateGate(const UpdateGate&) = delete;
  UpdateGate& operator=(const UpdateGate&) = delete;

  // Runs `start` now or, during a pause, on another thread when the pause ends. Call
  // Leave() when the step has ended.
  void Enter(absl::AnyInvocable<void()> start);
  void Leave();

  // Begins a pause, or joins the pause with the same id. Calls `done` when no step is
  // left inside, or with DEADLINE_EXCEEDED when the lease expires.
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  void Pause(uint64_t id, absl::Duration lease, Done done);
  void Resume(uint64_t id);
  // Ends all pauses and prevents new ones, because the server ends.
  void Open();

 private:
  struct PauseState {
    Timer::AlarmId lease;
    std::vector<Done> waiting;  // called when no step is left inside
  };
  void End(uint64_t id, const absl::Status& why);

  Timer timer_;
  Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;  // set by Open(), for good
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, PauseState> pauses_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
