// SPDX-License-Identifier: Apache-2.0
// Exchanges tensors between the partition of a step in this task and those in other tasks.
//
// Between Thalweg tasks the sender pushes tensors as soon as they are computed; tensors
// for the same task that are ready together share a message. With TensorFlow tasks the
// receiver requests each tensor (RecvTensor), in both directions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/peer_health.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/kernel/variable_rendezvous.h"

namespace thalweg {

// How the tensors of one graph are transferred. The master tells all partitions.
struct TransferRules {
  absl::flat_hash_set<std::string> push_tasks;  // tensors between two of these are pushed
  std::string master_task;
  bool all_pushed = false;  // all partitions of the step are in `push_tasks`
};

// Thread-safe. Shared by the step, by the peers that push or request its tensors, and by
// the calls in flight.
class StepRendezvous : public Rendezvous,
                       public VariableRendezvous,
                       public std::enable_shared_from_this<StepRendezvous> {
 public:
  // If `health` is set, it watches the tasks that this one calls.
  explicit StepRendezvous(int64_t step_id, PeerHealth* health = nullptr) : step_id_(step_id), health_(health) {}

  // Sets this task's name and the other workers. Peers may request or push before the step
  // arrives here; then this is called later. Tensors for the task `hold_for` are kept for
  // TakeHeld(). REQUIRES: called once, by the step.
  void SetCluster(std::string task, std::shared_ptr<Workers> workers,
                  std::shared_ptr<const TransferRules> rules = nullptr, std::string hold_for = "");

  absl::Status Send(const std::string& key, Value value) override;
  absl::Status SendVariable(const std::string& key, std::shared_ptr<const Variable> variable) override;
  // REQUIRES: SetCluster() was called.
  void RecvAsync(const std::string& key, RecvDone done) override;
  void Abort(const absl::Status& status) override;

  // The status of Abort(), if it was called. The step may be over before it begins here.
  absl::Status status() const { return calls_.status(); }

  // Serves a peer that requests a tensor that was computed here.
  void RecvLocalAsync(const std::string& key, RecvDone done);
  // Accepts tensors that a peer has pushed.
  absl::Status Deliver(std::vector<Transfer> tensors);

  // While it lives, small outgoing tensors are collected; its destructor sends them.
  class Batch {
   public:
    explicit Batch(std::shared_ptr<StepRendezvous> step);
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

   private:
    const std::shared_ptr<StepRendezvous> step_;
  };

  // Sends the collected tensors, except those for `hold_for`.
  void Flush();
  // Returns the tensors for `hold_for`. Large ones are pushed instead.
  std::vector<Transfer> TakeHeld();
  // Sends the collected tensors. Calls `done` when all pushes have arrived, or with the
  // first error.
  void FinishPushes(Worker::Done done);

 private:
  struct Outgoing {
    std::vector<Transfer> tensors;
    int64_t bytes = 0;
    int64_t since_nanos = 0;
  };

  bool Pushes(absl::string_view task) const;
  void Push(const std::string& task, std::vector<Transfer> tensors);
  void PushEnded(const absl::Status& status);
  // Watches the task of a call until Unwatch(): if it dies, the calls of this step are
  // cancelled. Returns nothing if there is no `health_`.
  std::optional<int64_t> Watch(const std::string& task, Worker* worker);
  void Unwatch(std::optional<int64_t> watch);

  const int64_t step_id_;
  PeerHealth* const health_;
  // Set once, before the step runs.
  std::string task_;
  std::shared_ptr<Workers> workers_;
  std::shared_ptr<const TransferRules> rules_;

  LocalRendezvous local_;  // also holds the tensors that peers pushed
  Cancellation calls_;     // cancels the calls to other tasks

  Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Variable>> variables_ ABSL_GUARDED_BY(mutex_);  // sent, by key
  std::string hold_for_ ABSL_GUARDED_BY(mutex_);
  int batches_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Outgoing, std::less<>> outgoing_ ABSL_GUARDED_BY(mutex_);
  int pushes_ ABSL_GUARDED_BY(mutex_) = 0;  // in flight
  absl::Status push_status_ ABSL_GUARDED_BY(mutex_);
  Worker::Done pushed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
