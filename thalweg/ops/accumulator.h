// Accumulator: gradients of several workers, until enough are there for their
// mean or sum to be taken. Those computed from values older than the step the
// accumulator is at are stale, and dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/ops/wait_list.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct AccumulatorOptions {
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

  explicit Accumulator(AccumulatorOptions options) : options_(std::move(options)) {}

  const AccumulatorOptions& options() const { return options_; }

  // Keeps a gradient computed at `local_step`, or drops it if that is stale.
  // INVALID_ARGUMENT if it does not fit.
  absl::Status Apply(int64_t local_step, AccumulatedGradient gradient);

  // Waits until there are `required` and takes all there are; the step goes up
  // by one.
  void Take(int64_t required, const WaitingCaller& caller, TakeDone done);

  // Smaller than it is: a warning in the log.
  void SetGlobalStep(int64_t step);

  int64_t num_accumulated() const;
  // Since it was made. Nothing is dropped without being counted.
  int64_t accepted() const;
  int64_t stale() const;

  std::string Describe() const override;

 private:
  absl::Status Check(const AccumulatedGradient& gradient) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AccumulatorOptions options_;
  mutable Mutex mutex_;
  Gradients gradients_ ABSL_GUARDED_BY(mutex_);
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t global_step_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t stale_ ABSL_GUARDED_BY(mutex_) = 0;
  WaitList takes_{/*in_order=*/true};  // guarded by mutex_
};

// Adds gradients up, in the order they came; `mean`: over those that have the
// row or, dense, over all. `context`, which may be nullptr, shares the work with
// other threads. REQUIRES: at least one; they fit together.
absl::StatusOr<AccumulatedGradient> SumGradients(const Accumulator::Gradients& gradients, bool mean,
                                                 KernelContext* context);

}  // namespace thalweg
