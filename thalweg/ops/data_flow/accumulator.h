// Accumulator: gradients of several workers, until enough are there for their
// mean or sum to be taken. Those computed from values older than the step the
// accumulator is at are stale, and dropped.
#pragma once

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
#include "thalweg/ops/support/wait_list.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct AccumulatorConfig {
  DType dtype = kFloat;
  PartialShape shape;
  bool sparse = false;
  bool mean = true;  // else the sum
};

// A gradient, or the sum of some: dense, or rows and where they belong.
struct AccumulatedGradient {
  Tensor values;
  Tensor indices;               // sparse only
  std::vector<int32_t> counts;  // sparse only: how many gradients are in each row; empty: one
  int64_t count = 1;            // gradients that are in it
};

// Thread-safe. It keeps references to the gradients it gets and adds them up in
// one pass when they are taken, on the thread of the step that takes them.
class Accumulator : public Resource, public std::enable_shared_from_this<Accumulator> {
 public:
  static constexpr char kTypeName[] = "N10tensorflow26ConditionalAccumulatorBaseE";
  using Gradients = std::vector<AccumulatedGradient>;
  using TakeDone = absl::AnyInvocable<void(const absl::Status&, Gradients)>;

  explicit Accumulator(AccumulatorConfig options) : options_(std::move(options)) {}

  const AccumulatorConfig& options() const { return options_; }

  // What became of the gradients of a worker.
  struct Entry {
    int64_t accepted = 0;
    int64_t stale = 0;  // refused: too old, or given before
    int64_t last_step = -1;
  };
  using Ledger = std::map<int64_t, Entry>;
  static constexpr int64_t kUnknownWorker = -1;

  // Keeps a gradient computed at `local_step`, or drops it if that is stale.
  // With `once`, the worker counts once per step: a second gradient until the
  // next Take is that of a step that was run again, and is dropped, too.
  // INVALID_ARGUMENT if it does not fit.
  absl::Status Apply(int64_t local_step, AccumulatedGradient gradient, int64_t worker = kUnknownWorker,
                     bool once = false);

  // Waits until there are `required`, or as many as those who have not left can
  // give, and takes all there are; the step goes up by one.
  void Take(int64_t required, const WaitingCaller& caller, TakeDone done);

  // Smaller than it is: a warning in the log, and the gradients that are there
  // are dropped.
  void SetGlobalStep(int64_t step);

  // One of `total` workers has left, or is back (-1: all are).
  void Leave(int64_t worker, int64_t total);
  void Join(int64_t worker);

  int64_t num_accumulated() const;
  // Since it was made. Nothing is dropped without being counted.
  int64_t accepted() const;
  int64_t stale() const;
  Ledger ledger() const;

  std::string Describe() const override;

 private:
  absl::Status Check(const AccumulatedGradient& gradient) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AccumulatorConfig options_;
  mutable Mutex mutex_;
  Gradients gradients_ ABSL_GUARDED_BY(mutex_);
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t global_step_ ABSL_GUARDED_BY(mutex_) = 0;
  Ledger ledger_ ABSL_GUARDED_BY(mutex_);
  std::set<int64_t> given_ ABSL_GUARDED_BY(mutex_);  // workers with a gradient in gradients_
  std::set<int64_t> left_ ABSL_GUARDED_BY(mutex_);
  int64_t total_ ABSL_GUARDED_BY(mutex_) = 0;  // workers, once one has left
  WaitList takes_{/*in_order=*/true};          // guarded by mutex_
};

// Adds gradients up, in the order they came; `mean`: over those that have the
// row or, dense, over all. `context`, which may be nullptr, shares the work with
// other threads. REQUIRES: at least one; they fit together.
absl::StatusOr<AccumulatedGradient> SumGradients(const Accumulator::Gradients& gradients, bool mean,
                                                 KernelContext* context);

}  // namespace thalweg
