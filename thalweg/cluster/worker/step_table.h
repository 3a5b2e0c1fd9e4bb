// SPDX-License-Identifier: Apache-2.0
// The rendezvous of the steps that this task knows, by step id.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/worker/step_rendezvous.h"

namespace thalweg {

struct StepTableOptions {
  // How long tensors are kept for a step that has not begun here. Peers may be slightly
  // ahead.
  absl::Duration keep_early = absl::Minutes(1);
  // How long an ended step is kept for TensorFlow tasks, which fetch its tensors, if its
  // master does not clean it up.
  absl::Duration keep_ended = absl::Hours(1);
  // Limits for all steps together that have not begun.
  int64_t max_early_bytes = 0;  // 0: an eighth of the machine's memory, at least 1 GB
  int max_early_steps = 1 << 16;
  PeerHealth* health = nullptr;  // borrowed; watches the tasks that steps wait for
};

// A step enters the table with the first message about it, which may be a tensor that a
// peer pushes or requests. It leaves when its master cleans it up. Steps that are never
// cleaned up are removed when their session is gone, or after some time. Thread-safe.
class StepTable {
 public:
  explicit StepTable(const StepTableOptions& options = {}, Clock& clock = RealClock());

  // Begins a step; `owner` expires with its session. If the step has begun before or is
  // over, returns a new, aborted rendezvous.
  std::shared_ptr<StepRendezvous> Begin(int64_t step_id, std::weak_ptr<const void> owner);
  // The step has ended here. Peers may still request its tensors.
  void End(int64_t step_id, const StepRendezvous& step);

  // For calls of peers, which may arrive before the step. Returns an aborted rendezvous if
  // the step is over.
  std::shared_ptr<StepRendezvous> Find(int64_t step_id);
  // Whether `bytes` may be kept for a step. RESOURCE_EXHAUSTED if the step has not begun
  // and the steps that have not begun would hold too much.
  absl::Status Admit(int64_t step_id, int64_t bytes);

  // The step is over. Waits for its tensors end with `why`.
  void Remove(int64_t step_id, const absl::Status& why);
  // The step is over, and no peer will request its tensors.
  void Forget(int64_t step_id, const StepRendezvous& step);
  void AbortAll(const absl::Status& why);

  // Removes stale steps. Runs automatically once a minute.
  void Sweep();
  size_t size() const;

 private:
  enum class Phase { kEarly, kRunning, kEnded };
  struct Entry {
    std::shared_ptr<StepRendezvous> step;
    Phase phase = Phase::kEarly;
    int64_t since_nanos = 0;  // when it entered this phase, or when its last tensor arrived
    int64_t early_bytes = 0;
    std::weak_ptr<const void> owner;
  };

  Entry& FindOrAdd(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveEarly(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsStale(const Entry& entry, int64_t now) const;
  void Remember(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StepTableOptions options_;
  Clock& clock_;
  mutable Mutex mutex_;
  absl::flat_hash_map<int64_t, Entry> steps_ ABSL_GUARDED_BY(mutex_);
  int early_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t early_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool sweeping_ ABSL_GUARDED_BY(mutex_) = false;  // an alarm is set
  // The steps that were removed last, oldest first, so that late messages do not revive
  // them.
  std::deque<int64_t> removed_order_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<int64_t> removed_ ABSL_GUARDED_BY(mutex_);
  Timer timer_;  // the last member: destroyed first, so that no alarm uses the others
};

}  // namespace thalweg
