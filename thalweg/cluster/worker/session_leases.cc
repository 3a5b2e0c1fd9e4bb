// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/session_leases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

bool SameTask(const SessionLeases::Master& a, const SessionLeases::Master& b) {
  return a.task == b.task && a.cluster == b.cluster;
}

}  // namespace

template <typename IsDead>
std::vector<std::string> SessionLeases::Take(IsDead is_dead) {
  std::vector<std::string> handles;
  std::erase_if(sessions_, [&](const auto& session) {
    if (!is_dead(session.second)) return false;
    handles.push_back(session.first);
    return true;
  });
  return handles;
}

void SessionLeases::Add(const std::string& handle, Master master) {
  if (master.task.empty()) return;
  std::vector<std::string> old;
  const std::string task = master.task;
  {
    MutexLock lock(&mutex_);
    if (master.incarnation != 0) {
      old = Take([&](const Entry& entry) {
        return SameTask(entry.master, master) && entry.master.incarnation != 0 &&
               entry.master.incarnation != master.incarnation;
      });
    }
    sessions_[handle] = {std::move(master), clock_.MonotonicNanos()};
    SetAlarm();
  }
  if (!old.empty()) drop_(old, absl::StrCat("their master, ", task, ", has restarted"));
}

void SessionLeases::Remove(const std::string& handle) {
  Entry removed;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto it = sessions_.find(handle);
  if (it == sessions_.end()) return;
  removed = std::move(it->second);
  sessions_.erase(it);
}

void SessionLeases::Stop() {
  closed_.Cancel(Cancelled("The worker ends"));
  std::map<std::string, Entry> sessions;  // destroyed without the lock
  MutexLock lock(&mutex_);
  sessions.swap(sessions_);
  while (questions_ > 0) answered_.Wait(&mutex_);
}

void SessionLeases::SetAlarm() {
  if (lease_ == absl::InfiniteDuration() || closed_.cancelled() || std::exchange(alarm_set_, true)) return;
  timer_.Set(absl::Now() + lease_ / 8, [this] { AskMasters(); });
}

void SessionLeases::AskMasters() {
  std::vector<Master> masters;
  {
    MutexLock lock(&mutex_);
    alarm_set_ = false;
    if (closed_.cancelled() || sessions_.empty()) return;
    for (const auto& [handle, entry] : sessions_) {
      const auto same = [&, &master = entry.master](const Master& other) {
        return SameTask(other, master) && other.incarnation == master.incarnation;
      };
      const bool known = std::any_of(masters.begin(), masters.end(), same);
      if (!known && entry.master.workers != nullptr && entry.master.workers->Find(entry.master.task) != nullptr) {
        masters.push_back(entry.master);
      }
    }
    questions_ += static_cast<int>(masters.size());
    SetAlarm();
  }
  for (const Master& master : masters) {
    auto response = std::make_shared<tensorflow::GetStatusResponse>();
    master.workers->Find(master.task)
        ->GetStatus({.timeout = lease_ / 8, .cancellation = &closed_}, response.get(),
                    [this, master, response](const absl::Status& status) { Answered(master, status, *response); });
  }
}

void SessionLeases::Answered(const Master& master, const absl::Status& status,
                             const tensorflow::GetStatusResponse& response) {
  const auto& devices = response.device_attributes();
  const bool restarted =
      status.ok() && master.incarnation != 0 && std::none_of(devices.begin(), devices.end(), [&](const auto& device) {
        return static_cast<int64_t>(device.incarnation()) == master.incarnation;
      });
  const int64_t now = clock_.MonotonicNanos();
  std::vector<std::string> dead;
  {
    MutexLock lock(&mutex_);
    const auto is_its = [&](const Entry& entry) {
      return SameTask(entry.master, master) && entry.master.incarnation == master.incarnation;
    };
    if (status.ok() && !restarted) {
      for (auto& [handle, entry] : sessions_) {
        if (is_its(entry)) entry.heard_nanos = now;
      }
    }
    if (!closed_.cancelled()) {
      dead = Take([&](const Entry& entry) {
        return is_its(entry) && (restarted || absl::Nanoseconds(now - entry.heard_nanos) >= lease_);
      });
    }
  }
  if (!dead.empty()) {
    drop_(dead, restarted ? absl::StrCat("their master, ", master.task, ", has restarted")
                          : absl::StrCat("their master, ", master.task, ", has not answered for ",
                                         absl::FormatDuration(lease_), ": ", status.message()));
  }
  MutexLock lock(&mutex_);
  if (--questions_ == 0) answered_.SignalAll();
}

}  // namespace thalweg
