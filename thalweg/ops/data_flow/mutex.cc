// SPDX-License-Identifier: Apache-2.0
// MutexV2, MutexLock, ConsumeMutexLock: a lock that steps take, one at a time. The
// lock is a value: when the last copy of it dies, the next step takes the mutex.
#include <memory>
#include <string>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/ops/support/wait_list.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

// Thread-safe.
class StepMutex final : public Resource, public std::enable_shared_from_this<StepMutex> {
 public:
  static constexpr char kTypeName[] = "N10tensorflow5MutexE";

  // `end` runs when the mutex is taken, or with an error when the step is cancelled.
  void Lock(const WaitingCaller& caller, WaitList::EndFn end) {
    const auto take = [this](absl::Status*) ABSL_NO_THREAD_SAFETY_ANALYSIS { return !std::exchange(taken_, true); };
    waiting_.Start(shared_from_this(), &mutex_, "MutexLock", caller, take, std::move(end),
                   [this](WaitList::Ended* ended) ABSL_NO_THREAD_SAFETY_ANALYSIS { waiting_.Flush(ended); });
  }

  void Unlock() {
    WaitList::Ended ended;
    {
      MutexLock lock(&mutex_);
      taken_ = false;
      waiting_.Flush(&ended);
    }
    WaitList::End(std::move(ended));
  }

  std::string Describe() const override { return "a mutex"; }

 private:
  Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  WaitList waiting_{/*in_order=*/true};
};

// The value that stands for the lock.
class HeldLock final : public VariantValue {
 public:
  explicit HeldLock(std::shared_ptr<StepMutex> mutex) : mutex_(std::move(mutex)) {}
  ~HeldLock() override { mutex_->Unlock(); }
  std::string TypeName() const override { return "tensorflow::Mutex::SharedLockReleaser"; }
  std::string ToString() const override { return "a lock"; }
  bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }

 private:
  const std::shared_ptr<StepMutex> mutex_;
};

class MutexKernel final : public ResourceKernel<StepMutex> {
  absl::StatusOr<std::shared_ptr<StepMutex>> Make(const std::string&) override { return std::make_shared<StepMutex>(); }
};

class MutexLockKernel final : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<StepMutex>> mutex = FindResource<StepMutex>(c, 0);
    if (!mutex.ok()) return done(mutex.status());
    StepMutex& found = **mutex;
    found.Lock({c.step().cancellation, c.step().pool},
               [&c, mutex = *std::move(mutex), done = std::move(done)](const absl::Status& status) mutable {
                 if (!status.ok()) return done(status);
                 Tensor lock(kVariant, Shape());
                 *lock.mutable_data<Variant>() = Variant(std::make_shared<HeldLock>(std::move(mutex)));
                 c.set_output(0, std::move(lock));
                 done(absl::OkStatus());
               });
  }
};

// Takes the lock, which dies with the step's other copies of it.
absl::Status Consume(KernelContext& c) {
  const Tensor lock = c.TakeInput(0);
  if (lock.rank() == 0 && lock.scalar<Variant>().As<HeldLock>() != nullptr) return absl::OkStatus();
  return InvalidArgument("Expected input to be a lock of a mutex");
}

const OpRegistration kMutexOps[] = {
    Op("MutexV2")
        .Output("resource: resource")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Stateful()
        .Shape(shapes::Scalar)
        .Kernel<MutexKernel>()
        .NotDifferentiable(),
    Op("MutexLock")
        .Input("mutex: resource")
        .Output("mutex_lock: variant")
        .Stateful()
        .Shape(shapes::Scalar)
        .Kernel<MutexLockKernel>()
        .NotDifferentiable(),
    Op("ConsumeMutexLock")
        .Input("mutex_lock: variant")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Compute(Consume)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
