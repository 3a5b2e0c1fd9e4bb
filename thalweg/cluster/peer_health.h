// Looks after the tasks that steps wait for. A connection that breaks ends its
// calls by itself; a task that hangs or is cut off is found by asking it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/cluster/worker/worker.h"

namespace thalweg {

struct Peer {
  std::string task;
  Worker* worker = nullptr;
};

// Thread-safe.
class PeerHealth {
 public:
  // The tasks of a step are asked once it has run for half of `timeout`, and
  // again and again from then on. One that takes longer than `timeout` to answer
  // is as good as dead.
  explicit PeerHealth(absl::Duration timeout);
  ~PeerHealth();  // waits for the questions under way
  PeerHealth(const PeerHealth&) = delete;
  PeerHealth& operator=(const PeerHealth&) = delete;

  // Until Unwatch(), `step` is cancelled, with UNAVAILABLE and the task's name,
  // when a peer does not answer. The workers must outlive this.
  int64_t Watch(std::shared_ptr<const std::vector<Peer>> peers, std::shared_ptr<Cancellation> step);
  void Unwatch(int64_t id);

 private:
  struct Watched {
    absl::Time since;
    std::shared_ptr<const std::vector<Peer>> peers;
    std::shared_ptr<Cancellation> step;
  };

  void Run();
  void Ask(const Peer& peer);
  void Answered(const Peer& peer, const absl::Status& status);

  const absl::Duration timeout_;
  Cancellation closed_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<int64_t, Watched> watched_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Worker*> asked_ ABSL_GUARDED_BY(mutex_);  // without an answer yet
  std::unique_ptr<Thread> thread_;
};

}  // namespace thalweg
