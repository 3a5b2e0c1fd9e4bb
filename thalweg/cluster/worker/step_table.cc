// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/step_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "thalweg/base/machine_memory.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// The number of removed steps that are remembered.
constexpr size_t kMaxRemoved = 4096;
constexpr absl::Duration kSweepEvery = absl::Minutes(1);

StepTableOptions WithDefaults(StepTableOptions options) {
  if (options.max_early_bytes == 0) {
    options.max_early_bytes = std::max<int64_t>(int64_t{1} << 30, static_cast<int64_t>(MachineMemoryBytes() / 8));
  }
  return options;
}

std::shared_ptr<StepRendezvous> Aborted(int64_t step_id, const absl::Status& why) {
  auto step = std::make_shared<StepRendezvous>(step_id);
  step->Abort(why);
  return step;
}

}  // namespace

StepTable::StepTable(const StepTableOptions& options, Clock& clock) : options_(WithDefaults(options)), clock_(clock) {}

// Phases: a step is early from the first message about it, running from Begin() to End(), and ended until its master
// cleans it up. Limits apply only to early steps: no master has announced them to this task.
StepTable::Entry& StepTable::FindOrAdd(int64_t step_id) {
  Entry& entry = steps_[step_id];
  if (entry.step != nullptr) return entry;
  entry.step = std::make_shared<StepRendezvous>(step_id, options_.health);
  entry.since_nanos = clock_.MonotonicNanos();
  ++early_steps_;
  if (!std::exchange(sweeping_, true)) timer_.Set(absl::Now() + kSweepEvery, [this] { Sweep(); });
  return entry;
}

void StepTable::LeaveEarly(Entry& entry) {
  if (entry.phase != Phase::kEarly) return;
  --early_steps_;
  early_bytes_ -= std::exchange(entry.early_bytes, 0);
}

std::shared_ptr<StepRendezvous> StepTable::Begin(int64_t step_id, std::weak_ptr<const void> owner) {
  absl::Status why;
  {
    MutexLock lock(&mutex_);
    if (removed_.contains(step_id)) {
      why = Cancelled("Step ", step_id, " has ended");
    } else if (Entry& entry = FindOrAdd(step_id); entry.phase != Phase::kEarly) {
      why = thalweg::Aborted("Step ", step_id, " has begun here before: its call was repeated");
    } else {
      LeaveEarly(entry);
      entry.phase = Phase::kRunning;
      entry.owner = std::move(owner);
      return entry.step;
    }
  }
  return Aborted(step_id, why);
}

void StepTable::End(int64_t step_id, const StepRendezvous& step) {
  MutexLock lock(&mutex_);
  const auto it = steps_.find(step_id);
  if (it == steps_.end() || it->second.step.get() != &step) return;
  it->second.phase = Phase::kEnded;
  it->second.since_nanos = clock_.MonotonicNanos();
}

std::shared_ptr<StepRendezvous> StepTable::Find(int64_t step_id) {
  {
    MutexLock lock(&mutex_);
    if (!removed_.contains(step_id)) return FindOrAdd(step_id).step;
  }
  return Aborted(step_id, Cancelled("Step ", step_id, " has ended"));
}

absl::Status StepTable::Admit(int64_t step_id, int64_t bytes) {
  MutexLock lock(&mutex_);
  if (removed_.contains(step_id)) return absl::OkStatus();  // nothing is kept
  const auto it = steps_.find(step_id);
  if (it != steps_.end() && it->second.phase != Phase::kEarly) return absl::OkStatus();
  if (bytes > options_.max_early_bytes - early_bytes_ ||
      (it == steps_.end() && early_steps_ >= options_.max_early_steps)) {
    return ResourceExhausted("Step ", step_id, " has not begun here, and ", early_steps_, " such steps hold ",
                             early_bytes_, " bytes that were sent ahead of them; there is no room for ", bytes,
                             " more (at most ", options_.max_early_bytes, ")");
  }
  Entry& entry = FindOrAdd(step_id);
  entry.since_nanos = clock_.MonotonicNanos();
  entry.early_bytes += bytes;
  early_bytes_ += bytes;
  return absl::OkStatus();
}

// A message that arrives after the step was cleaned up must not create it again.
void StepTable::Remember(int64_t step_id) {
  if (removed_.insert(step_id).second) removed_order_.push_back(step_id);
  if (removed_order_.size() > kMaxRemoved) {
    removed_.erase(removed_order_.front());
    removed_order_.pop_front();
  }
}

void StepTable::Remove(int64_t step_id, const absl::Status& why) {
  std::shared_ptr<StepRendezvous> removed;
  {
    MutexLock lock(&mutex_);
    Remember(step_id);
    const auto it = steps_.find(step_id);
    if (it == steps_.end()) return;
    LeaveEarly(it->second);
    removed = std::move(it->second.step);
    steps_.erase(it);
  }
  removed->Abort(why);
}

void StepTable::Forget(int64_t step_id, const StepRendezvous& step) {
  std::shared_ptr<StepRendezvous> forgotten;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto it = steps_.find(step_id);
  if (it == steps_.end() || it->second.step.get() != &step) return;
  forgotten = std::move(it->second.step);
  steps_.erase(it);
}

void StepTable::AbortAll(const absl::Status& why) {
  absl::flat_hash_map<int64_t, Entry> all;
  {
    MutexLock lock(&mutex_);
    all.swap(steps_);
    early_steps_ = 0;
    early_bytes_ = 0;
  }
  for (const auto& [id, entry] : all) entry.step->Abort(why);
}

// A step is kept as long as a waiting call holds its rendezvous.
bool StepTable::IsStale(const Entry& entry, int64_t now) const {
  if (entry.phase == Phase::kRunning || entry.step.use_count() > 1) return false;
  const absl::Duration age = absl::Nanoseconds(now - entry.since_nanos);
  if (entry.phase == Phase::kEarly) return age >= options_.keep_early;
  return age >= options_.keep_ended || entry.owner.expired();
}

void StepTable::Sweep() {
  std::vector<std::shared_ptr<StepRendezvous>> stale;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const int64_t now = clock_.MonotonicNanos();
  absl::erase_if(steps_, [&](auto& item) {
    mutex_.AssertHeld();
    if (!IsStale(item.second, now)) return false;
    LeaveEarly(item.second);
    Remember(item.first);
    stale.push_back(std::move(item.second.step));
    return true;
  });
  sweeping_ = !steps_.empty();
  if (sweeping_) timer_.Set(absl::Now() + kSweepEvery, [this] { Sweep(); });
}

size_t StepTable::size() const {
  MutexLock lock(&mutex_);
  return steps_.size();
}

}  // namespace thalweg
