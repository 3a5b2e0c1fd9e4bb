// SPDX-License-Identifier: Apache-2.0
// Collects the gradients of several workers until enough have arrived to take their mean or sum.
// A gradient computed from variables older than the accumulator's step is stale and is dropped.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/kernel/resource_report.h"
#include "thalweg/ops/support/wait_list.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct AccumulatorConfig {
  DType dtype = kFloat;
  PartialShape shape;
  bool sparse = false;
  bool mean = true;  // false: the sum
};

// A gradient or a sum of gradients: dense, or rows with their indices.
struct AccumulatedGradient {
  Tensor values;
  Tensor indices;               // sparse only
  std::vector<int32_t> counts;  // sparse only: number of gradients in each row; empty: one each
  int64_t count = 1;            // number of gradients in the sum
};

// Thread-safe. Keeps references to the gradients, and adds them up in one pass on the thread of the
// step that takes them.
class Accumulator : public Resource, public ReportedResource, public std::enable_shared_from_this<Accumulator> {
 public:
  static constexpr char kTypeName[] = "N10tensorflow26ConditionalAccumulatorBaseE";
  using Gradients = std::vector<AccumulatedGradient>;
  using TakeDone = absl::AnyInvocable<void(const absl::Status&, Gradients)>;

  explicit Accumulator(AccumulatorConfig options) : options_(std::move(options)) {}

  const AccumulatorConfig& options() const { return options_; }

  // What became of the gradients of a worker.
  struct Entry {
    int64_t accepted = 0;
    int64_t stale = 0;     // refused: too old
    int64_t repeated = 0;  // refused: from a step that was run again
    int64_t dropped = 0;   // accepted, but the variables got other values before they were taken
    int64_t held = 0;      // accepted and not yet taken
    int64_t last_step = -1;
    int64_t round = -1;  // the round that takes the last gradient or, if it was too old, the one that came before it
    int64_t refused() const { return stale + repeated; }
  };
  using Ledger = std::map<int64_t, Entry>;
  static constexpr int64_t kUnknownWorker = -1;

  // Adds a gradient computed at `local_step`, or drops it if it is stale. With `once`, each worker
  // counts once per step: a second gradient before the next Take() comes from a repeated step and
  // is dropped, too. `source` is the task that computed the gradient, if the worker is unknown.
  // INVALID_ARGUMENT if type or shape do not fit.
  absl::Status Apply(int64_t local_step, AccumulatedGradient gradient, int64_t worker = kUnknownWorker,
                     bool once = false, const std::string& source = "");

  // Waits for `required` gradients, or for as many as the remaining workers can contribute. Then
  // takes all gradients and increments the step.
  void Take(int64_t required, const WaitingCaller& caller, TakeDone done);

  // Rounds: takes that can be repeated. The one who takes numbers its takes, and learns of a take whose answer was
  // lost by repeating it. The next take has the number `round() + 1`. ABORTED for all other rounds.
  //
  // Calls `done` when the gradients of the round can be taken or have been taken. Forgets those of earlier rounds. The
  // gradients come from the workers 0 to `total` - 1; 0: it is not known from whom.
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  void AwaitRound(int64_t required, int64_t total, int64_t round, const WaitingCaller& caller, Done done);
  // Takes all gradients and increments the step, or returns the gradients that the round has taken before.
  absl::StatusOr<Gradients> TakeRound(int64_t round);
  // The variables have got new values, which belong to `step`. Drops all gradients; the next round is `round + 1`.
  void Reset(int64_t step, int64_t round);

  // If `step` is smaller than the current step, logs a warning and drops the collected gradients.
  void SetGlobalStep(int64_t step);

  // One of `total` workers has left, or has come back (-1: all have).
  void Leave(int64_t worker, int64_t total);
  void Join(int64_t worker);

  int64_t num_accumulated() const;
  // Totals since its creation. Every refused gradient is counted.
  int64_t accepted() const;
  int64_t refused() const;
  Ledger ledger() const;
  // The round after which the worker can go on: it takes the worker's last gradient, or has done without. -1: it has
  // sent none.
  int64_t RoundOf(int64_t worker) const;

  std::string Describe() const override;
  void Report(ResourceReport* report) const override;

 private:
  absl::Status Check(const AccumulatedGradient& gradient) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRound(int64_t round) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t NumWanted(int64_t required) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there are enough gradients. Otherwise notes that a call waits for them since `*since_nanos`, which it sets
  // when it is 0.
  bool HasEnough(int64_t required, int64_t total, int64_t* since_nanos) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Gradients TakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes and returns all gradients, which will be used or dropped.
  Gradients Empty(bool dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportWait(ResourceReport* report) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AccumulatorConfig options_;
  mutable Mutex mutex_;
  Gradients gradients_ ABSL_GUARDED_BY(mutex_);
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t global_step_ ABSL_GUARDED_BY(mutex_) = 0;
  Ledger ledger_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Entry> sources_ ABSL_GUARDED_BY(mutex_);  // what ledger_ has of kUnknownWorker, by task
  std::array<int64_t, ResourceReport::kAges> staleness_ ABSL_GUARDED_BY(mutex_){};  // gradients by age in steps
  std::set<int64_t> left_ ABSL_GUARDED_BY(mutex_);
  int64_t total_ ABSL_GUARDED_BY(mutex_) = 0;  // number of workers; set when one leaves
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 0;  // the last round that has taken gradients
  Gradients taken_ ABSL_GUARDED_BY(mutex_);    // the gradients of that round, until the next one begins
  WaitList takes_{/*in_order=*/true};          // guarded by mutex_
  // What the first call of takes_ waits for, if there is one.
  struct {
    int64_t required = 0, total = 0, since_nanos = 0;
  } wait_ ABSL_GUARDED_BY(mutex_);
};

// Adds up gradients in their order of arrival. With `mean`, divides each sparse row by the number of
// gradients that contain it, and a dense sum by the number of gradients. `context` provides threads
// and may be nullptr. REQUIRES: at least one gradient; all have the same type and shape.
absl::StatusOr<AccumulatedGradient> SumGradients(const Accumulator::Gradients& gradients, bool mean,
                                                 KernelContext* context);

}  // namespace thalweg
