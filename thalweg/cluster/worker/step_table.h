// The rendezvous of the steps that this task has heard of.
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
  // For how long tensors are kept for a step that has not begun here: its peers may
  // be a little ahead of it.
  absl::Duration keep_early = absl::Minutes(1);
  // For how long a step that has ended is kept for tasks of TensorFlow, which fetch
  // its tensors, if its master never says that it is over.
  absl::Duration keep_ended = absl::Hours(1);
  // What all steps that have not begun may hold.
  int64_t max_early_bytes = 0;  // 0: an eighth of the machine's memory, at least 1 GB
  int max_early_steps = 1 << 16;
  PeerHealth* health = nullptr;  // borrowed; watches the tasks that steps wait for
};

// A step is known from the first that is heard of it, which may be a tensor that a
// peer pushes or asks for, until its master says that it is over. Steps that nobody
// says that of are let go of when their session is gone, or after some time.
// Thread-safe.
class StepTable {
 public:
  explicit StepTable(const StepTableOptions& options = {}, Clock& clock = RealClock());

  // The step begins here, in a session that `owner` stands for. If it has begun
  // before, or is over, the rendezvous is an aborted one that nobody shares.
  std::shared_ptr<StepRendezvous> Begin(int64_t step_id, std::weak_ptr<const void> owner);
  // It has ended here. Peers may still ask for what it made.
  void End(int64_t step_id, const StepRendezvous& step);

  // For peers, who may come before the step. An aborted one if it is over.
  std::shared_ptr<StepRendezvous> Find(int64_t step_id);
  // Whether so many bytes may be kept for a step. RESOURCE_EXHAUSTED if it has not
  // begun and others that have not hold too much.
  absl::Status Admit(int64_t step_id, int64_t bytes);

  // The step is over; whoever still waits for something of it gets `why`.
  void Remove(int64_t step_id, const absl::Status& why);
  // The step is over, and nobody asks for it any more.
  void Forget(int64_t step_id, const StepRendezvous& step);
  void AbortAll(const absl::Status& why);

  // Lets go of steps that are kept for nobody. Runs by itself once a minute.
  void Sweep();
  size_t size() const;

 private:
  enum class Phase { kEarly, kRunning, kEnded };
  struct Entry {
    std::shared_ptr<StepRendezvous> step;
    Phase phase = Phase::kEarly;
    int64_t since_nanos = 0;  // when it came to this phase, or when the last tensor did
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
  // The last ones that were removed, the oldest first.
  std::deque<int64_t> removed_order_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<int64_t> removed_ ABSL_GUARDED_BY(mutex_);
  Timer timer_;  // ends first
};

}  // namespace thalweg
