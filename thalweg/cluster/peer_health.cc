#include "thalweg/cluster/peer_health.h"

#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {

PeerHealth::PeerHealth(absl::Duration timeout) : timeout_(timeout) {
  thread_ = std::make_unique<Thread>("health", [this] { Run(); });
}

PeerHealth::~PeerHealth() {
  closed_.Cancel(Cancelled("The server ends"));
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
    while (!asked_.empty()) changed_.Wait(&mutex_);
  }
  thread_.reset();
}

int64_t PeerHealth::Watch(std::shared_ptr<const std::vector<Peer>> peers, std::shared_ptr<Cancellation> step) {
  MutexLock lock(&mutex_);
  const int64_t id = next_id_++;
  watched_.emplace(id, Watched{absl::Now(), std::move(peers), std::move(step)});
  return id;
}

void PeerHealth::Unwatch(int64_t id) {
  MutexLock lock(&mutex_);
  watched_.erase(id);
}

void PeerHealth::Run() {
  MutexLock lock(&mutex_);
  while (!closing_) {
    changed_.WaitWithTimeout(&mutex_, timeout_ / 4);
    if (closing_) break;
    const absl::Time old = absl::Now() - timeout_ / 2;
    std::vector<Peer> ask;
    for (const auto& [id, watched] : watched_) {
      if (watched.since > old) continue;
      for (const Peer& peer : *watched.peers) {
        if (asked_.insert(peer.worker).second) ask.push_back(peer);
      }
    }
    mutex_.Unlock();
    for (const Peer& peer : ask) Ask(peer);
    mutex_.Lock();
  }
}

void PeerHealth::Ask(const Peer& peer) {
  auto response = std::make_shared<tensorflow::GetStatusResponse>();
  peer.worker->GetStatus({.timeout = timeout_, .cancellation = &closed_}, response.get(),
                         [this, peer, response](const absl::Status& status) { Answered(peer, status); });
}

void PeerHealth::Answered(const Peer& peer, const absl::Status& status) {
  std::vector<std::shared_ptr<Cancellation>> steps;
  if (absl::IsDeadlineExceeded(status)) {
    MutexLock lock(&mutex_);
    for (const auto& [id, watched] : watched_) {
      for (const Peer& p : *watched.peers) {
        if (p.worker == peer.worker) steps.push_back(watched.step);
      }
    }
  }
  for (const auto& step : steps) {
    step->Cancel(Unavailable("Task ", peer.task, " has not answered for ", absl::FormatDuration(timeout_),
                             ": it hangs, or is cut off"));
  }
  MutexLock lock(&mutex_);
  asked_.erase(peer.worker);
  if (closing_) changed_.SignalAll();
}

}  // namespace thalweg
