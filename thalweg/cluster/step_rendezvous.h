// Where the part of a step that runs in this task meets the parts in others:
// what is made here waits here to be fetched; what is made elsewhere is fetched
// from there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/worker.h"
#include "thalweg/kernel/rendezvous.h"

namespace thalweg {

// Thread-safe. Shared by the step, by the peers that ask for its tensors, and
// by the fetches under way.
class StepRendezvous : public Rendezvous, public std::enable_shared_from_this<StepRendezvous> {
 public:
  explicit StepRendezvous(int64_t step_id) : step_id_(step_id) {}

  // Who this task is, and the others, for what the step receives. A peer may
  // ask before the step has come here; then this is called later.
  void SetCluster(std::string task, std::shared_ptr<Workers> workers);

  absl::Status Send(const std::string& key, Value value) override { return local_.Send(key, std::move(value)); }
  // REQUIRES: SetCluster() was called.
  void RecvAsync(const std::string& key, RecvDone done) override;
  // What was made here, for a peer.
  void RecvLocalAsync(const std::string& key, RecvDone done) { local_.RecvAsync(key, std::move(done)); }
  void Abort(const absl::Status& status) override;

 private:
  const int64_t step_id_;
  std::string task_;  // set once, before the step runs
  std::shared_ptr<Workers> workers_;
  LocalRendezvous local_;
  Cancellation fetches_;  // ends what is under way to other tasks
};

// The rendezvous of the steps that this task has heard of. Thread-safe.
class StepTable {
 public:
  std::shared_ptr<StepRendezvous> FindOrCreate(int64_t step_id);
  // The step is over; whoever still waits for something of it gets `why`.
  void Remove(int64_t step_id, const absl::Status& why);
  void AbortAll(const absl::Status& why);

 private:
  Mutex mutex_;
  absl::flat_hash_map<int64_t, std::shared_ptr<StepRendezvous>> steps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
