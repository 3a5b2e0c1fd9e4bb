// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/peer_health.h"

#include <utility>

#include "thalweg/base/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {

PeerHealth::PeerHealth(absl::Duration timeout) : timeout_(timeout) {
  thread_ = std::make_unique<Thread>("health", [this] { Run(); });
}

PeerHealth::~PeerHealth() { Stop(); }

void PeerHealth::Stop() {
  closed_.Cancel(Cancelled("The server ends"));
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
    while (questions_ > 0) changed_.Wait(&mutex_);
  }
  thread_.reset();
}

int64_t PeerHealth::Watch(Peers peers, std::shared_ptr<Cancellation> step) {
  MutexLock lock(&mutex_);
  const int64_t id = next_id_++;
  // now_ may be a beat old.
  watched_.emplace(id, Watched{now_ + kHeartbeat, std::move(peers), std::move(step)});
  return id;
}

void PeerHealth::Unwatch(int64_t id) {
  Watched ended;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto it = watched_.find(id);
  if (it == watched_.end()) return;
  ended = std::move(it->second);
  watched_.erase(it);
}

void PeerHealth::Run() {
  int64_t last = NowNanos();
  while (true) {
    std::vector<Peer> ask;
    std::vector<Dead> dead;
    {
      MutexLock lock(&mutex_);
      if (!closing_) changed_.WaitWithTimeout(&mutex_, kHeartbeat);
      if (closing_) return;
      const int64_t nanos = NowNanos();
      // If this thread was woken late, this process or machine is short of CPU time, and answers wait just as long for
      // the threads that receive them. So a late beat counts as one that was on time.
      now_ += std::min(absl::Nanoseconds(nanos - last), kHeartbeat);
      last = nanos;
      Beat(&ask, &dead);
    }
    for (const Peer& peer : ask) Ask(peer);
    for (const Dead& d : dead) d.step->Cancel(d.why);
  }
}

void PeerHealth::Beat(std::vector<Peer>* ask, std::vector<Dead>* dead) {
  absl::flat_hash_map<Worker*, Pulse> pulses;
  for (const auto& [id, watched] : watched_) {
    if (watched.since > now_) continue;
    for (const Peer& peer : *watched.peers) {
      const auto known = pulses_.find(peer.worker);
      Pulse& pulse = pulses.try_emplace(peer.worker, known == pulses_.end() ? Pulse() : known->second).first->second;
      if (!std::exchange(pulse.asked, true)) ask->push_back(peer);
      if (now_ - std::max(watched.since, pulse.answered) < timeout_) continue;
      dead->push_back({watched.step, Unavailable("Task ", peer.task, " has not answered for ",
                                                 absl::FormatDuration(timeout_), ": it hangs, or is cut off")});
    }
  }
  for (const auto& [worker, pulse] : pulses_) {
    if (pulse.asked) pulses.try_emplace(worker, pulse);
  }
  pulses_ = std::move(pulses);
  questions_ += static_cast<int>(ask->size());
}

void PeerHealth::Ask(const Peer& peer) {
  auto response = std::make_shared<tensorflow::GetStatusResponse>();
  peer.worker->GetStatus({.timeout = timeout_, .cancellation = &closed_, .apart = true}, response.get(),
                         [this, peer, response](const absl::Status& status) { Answered(peer, status); });
}

void PeerHealth::Answered(const Peer& peer, const absl::Status& status) {
  std::vector<Dead> dead;
  {
    MutexLock lock(&mutex_);
    if (absl::IsUnavailable(status)) {
      for (const auto& [id, watched] : watched_) {
        for (const Peer& p : *watched.peers) {
          if (p.worker == peer.worker && watched.since <= now_) dead.push_back({watched.step, status});
        }
      }
    }
    Pulse& pulse = pulses_[peer.worker];
    pulse.asked = false;
    if (status.ok() || absl::IsUnimplemented(status)) pulse.answered = now_;
  }
  for (const Dead& d : dead) d.step->Cancel(d.why);
  MutexLock lock(&mutex_);
  if (--questions_ == 0 && closing_) changed_.SignalAll();
}

WatchedCalls::WatchedCalls(PeerHealth* health, std::vector<Peer> peers, Cancellation* outside)
    : health_(health), outside_(outside) {
  if (outside_ != nullptr) {
    outside_id_ = outside_->Register([c = cancellation_](const absl::Status& why) { c->Cancel(why); });
    if (!outside_id_.has_value()) cancellation_->Cancel(outside_->status());
  }
  if (health_ != nullptr && !peers.empty()) {
    watch_ = health_->Watch(std::make_shared<const std::vector<Peer>>(std::move(peers)), cancellation_);
  }
}

WatchedCalls::~WatchedCalls() {
  if (watch_.has_value()) health_->Unwatch(*watch_);
  if (outside_id_.has_value()) outside_->TryDeregister(*outside_id_);
}

absl::Status WatchedCalls::Explain(const absl::Status& status) const {
  return !status.ok() && cancellation_->cancelled() ? cancellation_->status() : status;
}

}  // namespace thalweg
