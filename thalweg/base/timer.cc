#include "thalweg/base/timer.h"

namespace thalweg {

Timer::~Timer() {
  std::unique_ptr<Thread> thread;
  {
    MutexLock lock(&mu_);
    closing_ = true;
    changed_.SignalAll();
    thread = std::move(thread_);
  }
}

Timer::AlarmId Timer::Set(absl::Time when, absl::AnyInvocable<void()> closure) {
  MutexLock lock(&mu_);
  const uint64_t id = next_id_++;
  const bool is_first = alarms_.empty() || when < alarms_.begin()->first.first;
  alarms_.emplace(std::pair(when, id), std::move(closure));
  times_.emplace(id, when);
  if (thread_ == nullptr) thread_ = std::make_unique<Thread>("timer", [this] { RunAlarms(); });
  if (is_first) changed_.SignalAll();
  return AlarmId{id};
}

bool Timer::Unset(AlarmId alarm) {
  const uint64_t id = static_cast<uint64_t>(alarm);
  absl::AnyInvocable<void()> dropped;  // destroyed after the lock is gone
  MutexLock lock(&mu_);
  const auto it = times_.find(id);
  if (it == times_.end()) {
    if (runner_ == std::this_thread::get_id()) return false;
    while (running_ == id) changed_.Wait(&mu_);
    return false;
  }
  const auto entry = alarms_.find(std::pair(it->second, id));
  dropped = std::move(entry->second);
  alarms_.erase(entry);
  times_.erase(it);
  return true;
}

void Timer::RunAlarms() {
  mu_.Lock();
  runner_ = std::this_thread::get_id();
  while (!closing_) {
    if (alarms_.empty()) {
      changed_.Wait(&mu_);
      continue;
    }
    const auto first = alarms_.begin();
    if (first->first.first > absl::Now()) {
      changed_.WaitWithDeadline(&mu_, first->first.first);
      continue;
    }
    absl::AnyInvocable<void()> closure = std::move(first->second);
    running_ = first->first.second;
    times_.erase(running_);
    alarms_.erase(first);
    mu_.Unlock();
    closure();
    mu_.Lock();
    running_ = 0;
    changed_.SignalAll();
  }
  mu_.Unlock();
}

}  // namespace thalweg
