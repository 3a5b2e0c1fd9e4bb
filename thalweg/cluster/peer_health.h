// Watches the tasks that calls wait for. A connection that breaks ends its calls
// by itself; a task that hangs or is cut off is found by asking it.
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
// While something waits for a peer, the peer is asked for its status every
// kHeartbeat. It is dead if it cannot be reached, or if it has not answered for
// `timeout`, counted from the last answer or, if that is later, from the
// beginning of the wait: every wait grants the whole timeout. Time counts only
// while this process runs: one that was stopped itself has heard nobody, which
// says nothing about the others. A peer that answers is alive, however long its
// kernels take.
class PeerHealth {
 public:
  static constexpr absl::Duration kHeartbeat = absl::Milliseconds(200);

  explicit PeerHealth(absl::Duration timeout);
  ~PeerHealth();  // Stop()
  PeerHealth(const PeerHealth&) = delete;
  PeerHealth& operator=(const PeerHealth&) = delete;

  absl::Duration timeout() const { return timeout_; }
  // A peer that is heard so soon is certainly not dead yet.
  absl::Duration earliest_death() const { return std::max(timeout_ - 2 * kHeartbeat, timeout_ / 2); }

  // Until Unwatch(), `step` is cancelled, with UNAVAILABLE and the task's name,
  // when a peer is dead.
  int64_t Watch(Peers peers, std::shared_ptr<Cancellation> step);
  void Unwatch(int64_t id);

  // Asks nobody any more, and waits for the questions under way.
  void Stop();

 private:
  struct Watched {
    absl::Duration since;
    Peers peers;
    std::shared_ptr<Cancellation> step;
  };
  // What is known of a peer.
  struct Pulse {
    absl::Duration answered = -absl::InfiniteDuration();
    bool asked = false;  // without an answer yet
  };
  struct Dead {
    std::shared_ptr<Cancellation> step;
    absl::Status why;
  };

  void Run();
  // Peers to ask, and waits that are over, at this beat.
  void Beat(std::vector<Peer>* ask, std::vector<Dead>* dead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ask(const Peer& peer);
  void Answered(const Peer& peer, const absl::Status& status);

  const absl::Duration timeout_;
  Cancellation closed_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_);  // for how long this process has been seen running
  absl::flat_hash_map<int64_t, Watched> watched_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Worker*, Pulse> pulses_ ABSL_GUARDED_BY(mutex_);
  int questions_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  std::unique_ptr<Thread> thread_;
};

// Calls to peers that are watched while this lives: ended by `outside`, which may
// be nullptr, or by the death of a peer. Without a `health` only the former.
class WatchedCalls {
 public:
  WatchedCalls(PeerHealth* health, std::vector<Peer> peers, Cancellation* outside);
  ~WatchedCalls();
  WatchedCalls(const WatchedCalls&) = delete;
  WatchedCalls& operator=(const WatchedCalls&) = delete;

  // For the calls. They may outlive this object if they hold the pointer.
  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }
  // Why a call that returned `status` has failed: what cancelled it says more than
  // that it was cancelled.
  absl::Status Explain(const absl::Status& status) const;

 private:
  PeerHealth* const health_;
  Cancellation* const outside_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  std::optional<Cancellation::CallbackId> outside_id_;
  std::optional<int64_t> watch_;
};

}  // namespace thalweg
