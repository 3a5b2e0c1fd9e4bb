// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/update_gate.h"

#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {

void UpdateGate::Open() {
  std::vector<uint64_t> ids;
  {
    MutexLock lock(&mutex_);
    open_ = true;
    for (const auto& [id, pause] : pauses_) ids.push_back(id);
  }
  for (const uint64_t id : ids) End(id, Cancelled("The server ends"));
}

void UpdateGate::Enter(absl::AnyInvocable<void()> start) {
  {
    MutexLock lock(&mutex_);
    if (!pauses_.empty()) {
      held_.push_back(std::move(start));
      return;
    }
    ++inside_;
  }
  start();
}

void UpdateGate::Leave() {
  std::vector<Done> quiet;
  {
    MutexLock lock(&mutex_);
    if (--inside_ > 0) return;
    for (auto& [id, pause] : pauses_) {
      for (Done& done : pause.waiting) quiet.push_back(std::move(done));
      pause.waiting.clear();
    }
  }
  for (Done& done : quiet) done(absl::OkStatus());
}

void UpdateGate::Pause(uint64_t id, absl::Duration lease, Done done) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    if (open_) status = Cancelled("The server ends");
    const bool is_new = status.ok() && pauses_.try_emplace(id).second;
    if (is_new) {
      pauses_[id].lease = timer_.Set(absl::Now() + lease, [this, id, lease] {
        End(id, DeadlineExceeded("steps that change variables have not ended within ", absl::FormatDuration(lease)));
      });
    }
    if (status.ok() && inside_ > 0) {
      pauses_[id].waiting.push_back(std::move(done));
      return;
    }
  }
  done(status);
}

void UpdateGate::Resume(uint64_t id) { End(id, Cancelled("The pause was ended")); }

void UpdateGate::End(uint64_t id, const absl::Status& why) {
  PauseState ended;
  std::vector<absl::AnyInvocable<void()>> go_on;
  {
    MutexLock lock(&mutex_);
    const auto it = pauses_.find(id);
    if (it == pauses_.end()) return;
    ended = std::move(it->second);
    pauses_.erase(it);
    if (pauses_.empty()) go_on = std::exchange(held_, {});
    inside_ += static_cast<int>(go_on.size());
  }
  timer_.Unset(ended.lease);
  for (Done& done : ended.waiting) done(why);
  for (auto& start : go_on) start();
}

}  // namespace thalweg
