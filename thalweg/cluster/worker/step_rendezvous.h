// Where the part of a step that runs in this task meets the parts in others.
//
// Between tasks of ours tensors are pushed, as soon as they are there; those for
// one task that come together go together. With other tasks it is TensorFlow's
// way: what is made here waits to be fetched, what is made there is fetched.
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

// How the tensors of one graph cross, as its master told all of its parts.
struct TransferRules {
  absl::flat_hash_set<std::string> push_tasks;  // what goes from one of these to another is pushed
  std::string master_task;
  bool all_pushed = false;  // every part of the step is in one of `push_tasks`
};

// Thread-safe. Shared by the step, by the peers that bring or ask for its
// tensors, and by the calls under way.
class StepRendezvous : public Rendezvous,
                       public VariableRendezvous,
                       public std::enable_shared_from_this<StepRendezvous> {
 public:
  // With a `health`, the tasks that this one calls are watched.
  explicit StepRendezvous(int64_t step_id, PeerHealth* health = nullptr) : step_id_(step_id), health_(health) {}

  // Who this task is, and the others. A peer may ask or push before the step
  // has come here; then this is called later. What goes to the task `hold_for`
  // is kept for TakeHeld(). REQUIRES: called once, by the step that it is for.
  void SetCluster(std::string task, std::shared_ptr<Workers> workers,
                  std::shared_ptr<const TransferRules> rules = nullptr, std::string hold_for = "");

  absl::Status Send(const std::string& key, Value value) override;
  absl::Status SendVariable(const std::string& key, std::shared_ptr<const Variable> variable) override;
  // REQUIRES: SetCluster() was called.
  void RecvAsync(const std::string& key, RecvDone done) override;
  void Abort(const absl::Status& status) override;

  // The reason of Abort(), if the step was over before it began.
  absl::Status status() const { return calls_.status(); }

  // What was made here, for a peer that fetches it.
  void RecvLocalAsync(const std::string& key, RecvDone done);
  // What a peer has pushed.
  absl::Status Deliver(std::vector<Transfer> tensors);

  // While one lives, small tensors wait to go together; they leave at its end.
  class Batch {
   public:
    explicit Batch(std::shared_ptr<StepRendezvous> step);
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

   private:
    const std::shared_ptr<StepRendezvous> step_;
  };

  // The tensors for `hold_for`, unless they are large: then they are pushed.
  std::vector<Transfer> TakeHeld();
  // Sends what waits; `done` runs when everything that was pushed has arrived,
  // or with the first error.
  void FinishPushes(Worker::Done done);

 private:
  struct Outgoing {
    std::vector<Transfer> tensors;
    int64_t bytes = 0;
    int64_t since_nanos = 0;
  };

  bool Pushes(absl::string_view task) const;
  void Flush();
  void Push(const std::string& task, std::vector<Transfer> tensors);
  void PushEnded(const absl::Status& status);
  // Until the call that it is for has ended, the death of its task ends this step's
  // calls. Nothing if nobody watches.
  std::optional<int64_t> Watch(const std::string& task, Worker* worker);
  void Unwatch(std::optional<int64_t> watch);

  const int64_t step_id_;
  PeerHealth* const health_;
  // Set once, before the step runs.
  std::string task_;
  std::shared_ptr<Workers> workers_;
  std::shared_ptr<const TransferRules> rules_;

  LocalRendezvous local_;  // also has what was pushed here
  Cancellation calls_;     // ends what is under way to other tasks

  Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Variable>> variables_ ABSL_GUARDED_BY(mutex_);  // sent, by key
  std::string hold_for_ ABSL_GUARDED_BY(mutex_);
  int batches_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Outgoing, std::less<>> outgoing_ ABSL_GUARDED_BY(mutex_);
  int pushes_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  absl::Status push_status_ ABSL_GUARDED_BY(mutex_);
  Worker::Done pushed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
