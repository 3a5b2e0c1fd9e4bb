// SPDX-License-Identifier: Apache-2.0
// Delays the steps of a master that update variables, so that a checkpoint can read a
// consistent cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
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
//
// A numbered step that fails because a task was lost may have made some of its updates.
// Its client repeats it, and it stays inside until then, or for kRepeatTimeout.
class UpdateGate {
 public:
  UpdateGate() = default;
  ~UpdateGate() { Open(); }
  UpdateGate(const UpdateGate&) = delete;
  UpdateGate& operator=(const UpdateGate&) = delete;

  // A client that lives repeats its step within this time, also if it waits for a task that is cut off: it notices that
  // after --peer_timeout, and a new session waits for 5 s.
  static constexpr absl::Duration kRepeatTimeout = absl::Seconds(15);
  // The lease of a pause that is relayed to a new master.
  static constexpr absl::Duration kRelayedLease = absl::Seconds(3);

  // Runs `start` now or, during a pause, on another thread when the pause ends. Call
  // Leave() with the same client when the step has ended. `client` is that of a numbered
  // step, or 0.
  void Enter(absl::AnyInvocable<void()> start, uint64_t client = 0);
  void Leave(uint64_t client = 0, const absl::Status& status = absl::OkStatus());

  // Begins a pause, or joins the pause with the same id and renews its lease. Calls `done`
  // when no step is left inside, or with DEADLINE_EXCEEDED when the lease expires. A pause
  // whose step overwrites all variables does not wait for steps to be repeated. CANCELLED
  // if the pause has been resumed: the message came late, or twice. ABORTED if its lease has
  // expired: steps have run since.
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  void Pause(uint64_t id, absl::Duration lease, Done done, bool overwrites = false);
  // Ends a pause. ABORTED if its lease has expired before: steps have run since.
  absl::Status Resume(uint64_t id);
  std::vector<uint64_t> pauses() const;  // the ids of those that last

  // Calls `held` once all these tasks have said that they hold the values that the step of a
  // pause saves. That the files are still being written need not concern those that update.
  void AwaitHeld(uint64_t id, std::set<std::string> tasks, absl::AnyInvocable<void()> held);
  void Held(uint64_t id, const std::string& task);
  // The step has ended: nobody waits for its values any more.
  void ForgetHeld(uint64_t id);
  // Ends all pauses and prevents new ones, because the server ends.
  void Open();

 private:
  struct PauseState {
    Timer::AlarmId lease;
    bool has_lease = false;
    std::vector<Done> waiting;  // called when no step is left inside
  };
  struct Holding {
    std::set<std::string> tasks;  // that have not said so yet
    absl::AnyInvocable<void()> held;
  };
  void End(uint64_t id, const absl::Status& why);
  void RunOut(uint64_t id, absl::Duration lease);
  // The client has not repeated its step in time.
  void GiveUp(uint64_t client);
  // Takes `count` steps out; returns the callbacks that waited for that.
  std::vector<Done> TakeOut(int count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The ids of the last pauses that ended in a certain way.
  class EndedPauses {
   public:
    void Add(uint64_t id);
    bool Has(uint64_t id) const { return std::find(ids_.begin(), ids_.end(), id) != ids_.end(); }

   private:
    static constexpr size_t kMax = 64;
    std::deque<uint64_t> ids_;
  };

  Timer timer_;
  mutable Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;  // set by Open(), for good
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, PauseState> pauses_ ABSL_GUARDED_BY(mutex_);
  EndedPauses resumed_ ABSL_GUARDED_BY(mutex_), expired_ ABSL_GUARDED_BY(mutex_);
  // By client: a step that has failed and is still inside, until it is repeated.
  std::map<uint64_t, Timer::AlarmId> to_repeat_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Holding> holding_ ABSL_GUARDED_BY(mutex_);  // by pause
};

}  // namespace thalweg
