// SPDX-License-Identifier: Apache-2.0
// Failure detector for the tasks that calls wait for. A broken connection ends its calls
// by itself. A task that hangs or is cut off is detected with heartbeats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/cluster/worker/worker.h"

namespace thalweg {

struct Peer {
  std::string task;
  Worker* worker = nullptr;
  std::shared_ptr<Workers> workers;  // owns `worker`
};
using Peers = std::shared_ptr<const std::vector<Peer>>;

// Thread-safe.
//
// While a call waits for a peer, the peer is asked for its status every kHeartbeat. It is
// dead if it cannot be reached, or if it has not answered for `timeout`. The timeout
// counts from the last answer or, if that is later, from the beginning of the wait, so
// every wait grants the whole timeout. Only time during which this process runs counts:
// a process that was stopped itself, or gets no CPU time, has heard nobody, which says nothing
// about its peers. Heartbeats have a connection of their own.
// A peer that answers is alive, however long its kernels take.
class PeerHealth {
 public:
  static constexpr absl::Duration kHeartbeat = absl::Milliseconds(200);

  explicit PeerHealth(absl::Duration timeout);
  ~PeerHealth();  // Stop()
  PeerHealth(const PeerHealth&) = delete;
  PeerHealth& operator=(const PeerHealth&) = delete;

  absl::Duration timeout() const { return timeout_; }
  // A peer that answers within this time is never declared dead.
  absl::Duration earliest_death() const { return std::max(timeout_ - 2 * kHeartbeat, timeout_ / 2); }

  // Cancels `step` with UNAVAILABLE, naming the task, if a peer dies before Unwatch().
  int64_t Watch(Peers peers, std::shared_ptr<Cancellation> step);
  void Unwatch(int64_t id);

  // Stops the heartbeats and waits for those in flight.
  void Stop();

 private:
  struct Watched {
    absl::Duration since;
    Peers peers;
    std::shared_ptr<Cancellation> step;
  };
  // The state of a peer.
  struct Pulse {
    absl::Duration answered = -absl::InfiniteDuration();
    bool asked = false;  // a heartbeat is in flight
  };
  struct Dead {
    std::shared_ptr<Cancellation> step;
    absl::Status why;
  };

  void Run();
  // Finds the peers to ask and the waits to end at this heartbeat.
  void Beat(std::vector<Peer>* ask, std::vector<Dead>* dead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ask(const Peer& peer);
  void Answered(const Peer& peer, const absl::Status& status);

  const absl::Duration timeout_;
  Cancellation closed_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_);  // the time during which this process was running
  absl::flat_hash_map<int64_t, Watched> watched_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Worker*, Pulse> pulses_ ABSL_GUARDED_BY(mutex_);
  int questions_ ABSL_GUARDED_BY(mutex_) = 0;  // heartbeats in flight
  std::unique_ptr<Thread> thread_;
};

// Watches calls to peers while it lives. Their cancellation is triggered by `outside`,
// which may be nullptr, or by the death of a peer. If `health` is nullptr, only by the
// former.
class WatchedCalls {
 public:
  WatchedCalls(PeerHealth* health, std::vector<Peer> peers, Cancellation* outside);
  ~WatchedCalls();
  WatchedCalls(const WatchedCalls&) = delete;
  WatchedCalls& operator=(const WatchedCalls&) = delete;

  // The cancellation to pass to the calls. They may outlive this object if they hold the
  // pointer.
  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }
  // The reason why a call that returned `status` failed. If it was cancelled, this is the
  // reason of the cancellation.
  absl::Status Explain(const absl::Status& status) const;

 private:
  PeerHealth* const health_;
  Cancellation* const outside_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  std::optional<Cancellation::CallbackId> outside_id_;
  std::optional<int64_t> watch_;
};

}  // namespace thalweg
