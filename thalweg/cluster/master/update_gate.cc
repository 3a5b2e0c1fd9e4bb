// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/update_gate.h"

#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

absl::Status HasRunOut() { return Aborted("The pause has run out, and steps have changed variables since"); }

}  // namespace

void UpdateGate::EndedPauses::Add(uint64_t id) {
  ids_.push_back(id);
  if (ids_.size() > kMax) ids_.pop_front();
}

void UpdateGate::Open() {
  std::vector<uint64_t> ids;
  std::map<uint64_t, Timer::AlarmId> to_repeat;
  {
    MutexLock lock(&mutex_);
    open_ = true;
    for (const auto& [id, pause] : pauses_) ids.push_back(id);
    to_repeat.swap(to_repeat_);
    inside_ -= static_cast<int>(to_repeat.size());
  }
  for (const auto& [client, alarm] : to_repeat) timer_.Unset(alarm);
  for (const uint64_t id : ids) End(id, Unavailable("The server ends"));
}

void UpdateGate::Enter(absl::AnyInvocable<void()> start, uint64_t client) {
  Timer::AlarmId alarm{};
  bool repeats = false;
  {
    MutexLock lock(&mutex_);
    if (const auto it = to_repeat_.find(client); it != to_repeat_.end()) {
      // It is inside already, so that a pause that waits for it does not hold it back.
      repeats = true;
      alarm = it->second;
      to_repeat_.erase(it);
    } else if (!pauses_.empty()) {
      held_.push_back(std::move(start));
      return;
    } else {
      ++inside_;
    }
  }
  if (repeats) timer_.Unset(alarm);
  start();
}

std::vector<UpdateGate::Done> UpdateGate::TakeOut(int count) {
  std::vector<Done> quiet;
  inside_ -= count;
  if (inside_ > 0) return quiet;
  for (auto& [id, pause] : pauses_) {
    for (Done& done : pause.waiting) quiet.push_back(std::move(done));
    pause.waiting.clear();
  }
  return quiet;
}

void UpdateGate::Leave(uint64_t client, const absl::Status& status) {
  const bool may_be_repeated = client != 0 && (absl::IsUnavailable(status) || absl::IsAborted(status));
  std::vector<Done> quiet;
  {
    MutexLock lock(&mutex_);
    if (may_be_repeated && !open_ && !to_repeat_.contains(client)) {
      to_repeat_[client] = timer_.Set(absl::Now() + kRepeatTimeout, [this, client] { GiveUp(client); });
      return;
    }
    quiet = TakeOut(1);
  }
  for (Done& done : quiet) done(absl::OkStatus());
}

void UpdateGate::GiveUp(uint64_t client) {
  std::vector<Done> quiet;
  {
    MutexLock lock(&mutex_);
    if (to_repeat_.erase(client) == 0) return;
    quiet = TakeOut(1);
  }
  if (!quiet.empty()) {
    LOG(WARNING) << "A training client has not repeated its failed step within " << absl::FormatDuration(kRepeatTimeout)
                 << ": the checkpoint that is being taken may have some of its updates and not others";
  }
  for (Done& done : quiet) done(absl::OkStatus());
}

void UpdateGate::Pause(uint64_t id, absl::Duration lease, Done done, bool overwrites) {
  absl::Status status;
  std::vector<Done> quiet;
  std::vector<Timer::AlarmId> alarms;
  {
    MutexLock lock(&mutex_);
    if (open_) status = Unavailable("The server ends");
    if (resumed_.Has(id)) status = Cancelled("The pause has ended");
    if (expired_.Has(id)) status = HasRunOut();
    if (status.ok()) {
      PauseState& pause = pauses_[id];
      if (pause.has_lease) alarms.push_back(pause.lease);
      pause.has_lease = true;
      pause.lease = timer_.Set(absl::Now() + lease, [this, id, lease] { RunOut(id, lease); });
      if (overwrites) {
        const int given_up = static_cast<int>(to_repeat_.size());
        for (const auto& [client, alarm] : to_repeat_) alarms.push_back(alarm);
        to_repeat_.clear();
        if (given_up > 0) quiet = TakeOut(given_up);
      }
      if (inside_ > 0) {
        pause.waiting.push_back(std::move(done));
        done = nullptr;
      }
    }
  }
  for (const Timer::AlarmId alarm : alarms) timer_.Unset(alarm);
  for (Done& waited : quiet) waited(absl::OkStatus());
  if (done != nullptr) done(status);
}

std::vector<uint64_t> UpdateGate::pauses() const {
  std::vector<uint64_t> ids;
  MutexLock lock(&mutex_);
  for (const auto& [id, pause] : pauses_) ids.push_back(id);
  return ids;
}

void UpdateGate::AwaitHeld(uint64_t id, std::set<std::string> tasks, absl::AnyInvocable<void()> held) {
  MutexLock lock(&mutex_);
  holding_[id] = {std::move(tasks), std::move(held)};
}

void UpdateGate::Held(uint64_t id, const std::string& task) {
  absl::AnyInvocable<void()> held;
  {
    MutexLock lock(&mutex_);
    const auto it = holding_.find(id);
    if (it == holding_.end() || it->second.tasks.erase(task) == 0 || !it->second.tasks.empty()) return;
    held = std::move(it->second.held);
    holding_.erase(it);
  }
  held();
}

void UpdateGate::ForgetHeld(uint64_t id) {
  Holding forgotten;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto it = holding_.find(id);
  if (it == holding_.end()) return;
  forgotten = std::move(it->second);
  holding_.erase(it);
}

absl::Status UpdateGate::Resume(uint64_t id) {
  bool expired = false;
  {
    MutexLock lock(&mutex_);
    resumed_.Add(id);
    expired = expired_.Has(id);
  }
  End(id, Cancelled("The pause was ended"));
  return expired ? HasRunOut() : absl::OkStatus();
}

// The id is remembered before steps go on, so that no renewal takes them for paused.
void UpdateGate::RunOut(uint64_t id, absl::Duration lease) {
  {
    MutexLock lock(&mutex_);
    if (!pauses_.contains(id)) return;
    expired_.Add(id);
  }
  End(id, DeadlineExceeded("steps that change variables have not ended within ", absl::FormatDuration(lease)));
}

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
