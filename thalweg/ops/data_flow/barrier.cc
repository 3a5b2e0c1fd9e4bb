// SPDX-License-Identifier: Apache-2.0
// A barrier collects tuples whose components arrive separately. Each key has one value per component, which
// any step may insert at any time. A key with all components is ready to be taken, in the order in which the
// keys were first inserted.
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/queue.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

struct BarrierOptions {
  std::string name;
  std::vector<DType> types;
  std::vector<PartialShape> shapes;
};

// Thread-safe.
class Barrier final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow7barrier7BarrierE";
  using Done = Queue::Done;

  static absl::StatusOr<std::shared_ptr<Barrier>> Make(BarrierOptions options) {
    QueueConfig ready{.kind = "PriorityQueue", .name = absl::StrCat(options.name, "_queue"), .whole_batches = true};
    ready.types = {kInt64, kString};
    ready.shapes = {PartialShape(Shape()), PartialShape(Shape())};
    for (const DType type : options.types) ready.types.push_back(type);
    // Nothing can be inserted for a component whose shape is not known (see Check).
    for (const PartialShape& shape : options.shapes) {
      ready.shapes.push_back(shape.fully_known() ? shape : PartialShape(Shape()));
    }
    ASSIGN_OR_RETURN(std::shared_ptr<Queue> queue, Queue::Make(std::move(ready), PriorityStore()));
    return std::make_shared<Barrier>(std::move(options), std::move(queue));
  }
  Barrier(BarrierOptions options, std::shared_ptr<Queue> ready)
      : options_(std::move(options)), ready_(std::move(ready)) {}

  const BarrierOptions& options() const { return options_; }

  // REQUIRES: as many rows as keys, of the type and shape of the component.
  void Insert(const Tensor& keys, int component, const Tensor& values, const Queue::Caller& caller, Done done) {
    std::vector<Tuple> complete;
    bool last = false;
    {
      MutexLock lock(&mutex_);
      const absl::Status status = InsertLocked(keys, component, values, &complete);
      if (!status.ok()) return done(status);
      last = closed_ && incomplete_.empty();
    }
    if (complete.empty()) return done(absl::OkStatus());
    absl::StatusOr<Tuple> batch = BatchTuples(complete, ready_->options().types, ready_->options().shapes);
    if (!batch.ok()) return done(batch.status());
    // This never waits, because the queue of ready tuples is unbounded.
    ready_->EnqueueMany(*std::move(batch), caller, std::move(done));
    if (last) ready_->Close(false, {}, [](const absl::Status&) {});
  }

  void Take(int64_t n, bool fewer_at_end, const Queue::Caller& caller, Queue::DequeueDone done) {
    {
      MutexLock lock(&mutex_);
      if (closed_) {
        int64_t available = ready_->size();
        if (fewer_at_end) {
          n = std::min(n, available);
        } else {
          available += static_cast<int64_t>(incomplete_.size());
        }
        if (available < std::max<int64_t>(n, 1)) {
          return done(OutOfRange("Barrier '", options_.name, "' is closed and has insufficient elements (requested ", n,
                                 ", total size ", available, ")"),
                      {});
        }
      }
    }
    ready_->DequeueMany(n, fewer_at_end, caller, std::move(done));
  }

  void Close(bool cancel_pending_enqueues, const Queue::Caller& caller, Done done) {
    bool close_queue = false;
    {
      MutexLock lock(&mutex_);
      if (closed_ && (cancelled_ || !cancel_pending_enqueues)) {
        return done(Cancelled("Barrier '", options_.name, "' is already closed."));
      }
      closed_ = true;
      cancelled_ = cancel_pending_enqueues;
      if (cancelled_) incomplete_.clear();
      close_queue = incomplete_.empty();
    }
    if (!close_queue || ready_->is_closed()) return done(absl::OkStatus());
    ready_->Close(cancel_pending_enqueues, caller, std::move(done));
  }

  int64_t ready_size() const { return ready_->size(); }
  int64_t incomplete_size() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(incomplete_.size());
  }
  std::string Describe() const override { return "a barrier"; }

 private:
  struct Pieces {
    int64_t index = 0;  // when the first one came
    Tuple values;       // one per component; no value: not there yet
    size_t missing = 0;
  };

  absl::Status InsertLocked(const Tensor& keys, int component, const Tensor& values, std::vector<Tuple>* complete)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t n = keys.num_elements();
    if (closed_ && (cancelled_ || (n > 0 && incomplete_.empty()))) {
      return Cancelled("Barrier ", options_.name, " is closed.  Pending enqueues cancelled: ", cancelled_ ? 1 : 0,
                       ".  Number of new insertions: ", n, ".  Number of incomplete keys: ", incomplete_.size(), ".");
    }
    bool any_new = false;
    for (int64_t i = 0; i < n; ++i) {
      const std::string& key = keys.data<std::string>()[i];
      auto it = incomplete_.find(key);
      if (it == incomplete_.end()) {
        if (closed_) {
          return Cancelled("Barrier ", options_.name, " is closed, but attempted to insert a brand new key: ", key,
                           ".  Pending enqueues cancelled: ", cancelled_ ? 1 : 0, ".  Insertion index: ", i,
                           ".  Number of incomplete keys: ", incomplete_.size(), ".");
        }
        any_new = true;
        it = incomplete_.emplace(key, Pieces{next_index_, Tuple(options_.types.size()), options_.types.size()}).first;
      }
      Pieces& pieces = it->second;
      if (pieces.values[component].has_value()) {
        return InvalidArgument("Key ", key, " already has a value for component ", component, " in barrier ",
                               options_.name);
      }
      ASSIGN_OR_RETURN(pieces.values[component], CopyRow(values, i));
      if (--pieces.missing > 0) continue;
      Tuple tuple{Tensor::Scalar(pieces.index), Tensor::Scalar(key)};
      tuple.insert(tuple.end(), pieces.values.begin(), pieces.values.end());
      complete->push_back(std::move(tuple));
      incomplete_.erase(it);
    }
    if (any_new) ++next_index_;
    return absl::OkStatus();
  }

  const BarrierOptions options_;
  const std::shared_ptr<Queue> ready_;  // (index, key, values...)
  mutable Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_index_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::min();
  absl::flat_hash_map<std::string, Pieces> incomplete_ ABSL_GUARDED_BY(mutex_);
};

class BarrierKernel final : public ResourceKernel<Barrier> {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(ResourceKernel::Init(init));
    options_.name = name_.name;
    ASSIGN_OR_RETURN(options_.types, init.Attr<std::vector<DType>>("component_types"));
    ASSIGN_OR_RETURN(options_.shapes, init.Attr<std::vector<PartialShape>>("shapes"));
    if (options_.shapes.size() != options_.types.size()) {
      return InvalidArgument("All of the component shapes must be specified");
    }
    ASSIGN_OR_RETURN(const int64_t capacity, init.Attr<int64_t>("capacity"));
    if (capacity == -1) return absl::OkStatus();
    return InvalidArgument(
        "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to enforce a limited "
        "capacity.");
  }

 private:
  absl::StatusOr<std::shared_ptr<Barrier>> Make(const std::string&) override { return Barrier::Make(options_); }
  absl::Status Verify(const Barrier& found) override {
    if (found.options().types != options_.types) {
      return InvalidArgument("Shared barrier '", name_.name, "' has component types ", ListTypes(found.options().types),
                             " but requested component types were ", ListTypes(options_.types));
    }
    if (found.options().shapes != options_.shapes) {
      return InvalidArgument("Shared barrier '", name_.name, "' has other component shapes than requested");
    }
    return absl::OkStatus();
  }

  BarrierOptions options_;
};

Queue::Caller CallerOf(KernelContext& c) { return {.cancellation = c.step().cancellation, .pool = c.step().pool}; }

class InsertKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(component_, init.Attr<int64_t>("component_index"));
    return absl::OkStatus();
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Barrier>> barrier = FindResource<Barrier>(c, 0);
    if (!barrier.ok()) return done(barrier.status());
    if (const absl::Status status = Check((*barrier)->options(), c.input(1), c.input(2)); !status.ok()) {
      return done(status);
    }
    (*barrier)->Insert(
        c.input(1), static_cast<int>(component_), c.input(2), CallerOf(c),
        [barrier = *barrier, done = std::move(done)](const absl::Status& status) mutable { done(status); });
  }

 private:
  absl::Status Check(const BarrierOptions& options, const Tensor& keys, const Tensor& values) const {
    const auto n = static_cast<int64_t>(options.types.size());
    if (component_ < 0 || component_ >= n) {
      return InvalidArgument("The component ID is out of range ", component_, " > num_components (= ", n, ")");
    }
    if (values.dtype() != options.types[component_]) {
      return InvalidArgument("Type mismatch in component ", component_, ". Expected ", options.types[component_],
                             ", got ", values.dtype());
    }
    if (keys.num_elements() > 0 && values.num_elements() == 0) {
      return InvalidArgument("Tensors with no elements are not supported ", options.name, ": received shape ",
                             values.shape());
    }
    if (!keys.shape().is_vector() || values.rank() == 0 || values.dim(0) != keys.dim(0)) {
      return InvalidArgument("expected a vector of keys and a row of values for each, got ", keys.shape(), " and ",
                             values.shape());
    }
    Shape row = values.shape();
    row.RemoveDim(0);
    if (!options.shapes[component_].fully_known()) {
      return InvalidArgument("Component ", component_, " of barrier ", options.name, " has the shape ",
                             options.shapes[component_], ". Give the barrier fully defined shapes.");
    }
    if (keys.dim(0) == 0 || options.shapes[component_].Accepts(row)) return absl::OkStatus();
    return InvalidArgument("Shape mismatch in tuple component ", component_ + 2, ". Expected ",
                           options.shapes[component_], ", got ", row);
  }

  int64_t component_ = 0;
};

class BarrierTakeKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(fewer_at_end_, init.Attr<bool>("allow_small_batch"));
    ASSIGN_OR_RETURN(const int64_t timeout, init.Attr<int64_t>("timeout_ms"));
    return timeout == -1 ? absl::OkStatus() : InvalidArgument("Timeout not supported yet.");
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Barrier>> barrier = FindResource<Barrier>(c, 0);
    if (!barrier.ok()) return done(barrier.status());
    std::vector<DType> types{kInt64, kString};
    for (const DType type : (*barrier)->options().types) types.push_back(type);
    if (types != c.node().output_types()) {
      return done(InvalidArgument("Signature mismatch, have: ", ListTypes(c.node().output_types()),
                                  " expected: ", ListTypes(types)));
    }
    if (!c.input(1).shape().is_scalar()) return done(InvalidArgument("num_elements must be a scalar."));
    const int32_t n = c.input(1).scalar<int32_t>();
    if (n < 0) return done(InvalidArgument("BarrierTakeMany requested ", n, " < 0 elements"));
    (*barrier)->Take(n, fewer_at_end_, CallerOf(c),
                     [&c, barrier = *barrier, done = std::move(done)](const absl::Status& status, Tuple tuple) mutable {
                       for (size_t i = 0; i < tuple.size(); ++i) c.set_output(static_cast<int>(i), std::move(tuple[i]));
                       done(status);
                     });
  }

 private:
  bool fewer_at_end_ = false;
};

class BarrierCloseKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(cancel_, init.Attr<bool>("cancel_pending_enqueues"));
    return absl::OkStatus();
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Barrier>> barrier = FindResource<Barrier>(c, 0);
    if (!barrier.ok()) return done(barrier.status());
    (*barrier)->Close(cancel_, CallerOf(c), std::move(done));
  }

 private:
  bool cancel_ = false;
};

absl::Status SetSize(KernelContext& c, int64_t size) {
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int32_t>() = static_cast<int32_t>(size);
  return absl::OkStatus();
}
absl::Status ReadySize(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Barrier> barrier, FindResource<Barrier>(c, 0));
  return SetSize(c, barrier->ready_size());
}
absl::Status BarrierIncompleteSize(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Barrier> barrier, FindResource<Barrier>(c, 0));
  return SetSize(c, barrier->incomplete_size());
}

const OpRegistration kBarrierOps[] = {
    Op("Barrier")
        .Output("handle: Ref(string)")
        .Attr("component_types: list(type) >= 1")
        .Attr("shapes: list(shape) >= 0 = []")
        .Attr("capacity: int = -1")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Stateful()
        .Shape(HandleShape)
        .Kernel<BarrierKernel>()
        .NotDifferentiable(),
    Op("BarrierInsertMany")
        .Input("handle: Ref(string)")
        .Input("keys: string")
        .Input("values: T")
        .Attr("T: type")
        .Attr("component_index: int")
        .Shape(shapes::NoOutputs)
        .Kernel<InsertKernel>()
        .NotDifferentiable(),
    Op("BarrierTakeMany")
        .Input("handle: Ref(string)")
        .Input("num_elements: int32")
        .Output("indices: int64")
        .Output("keys: string")
        .Output("values: component_types")
        .Attr("component_types: list(type) >= 1")
        .Attr("allow_small_batch: bool = false")
        .Attr("wait_for_incomplete: bool = false")
        .Attr("timeout_ms: int = -1")
        .Shape(shapes::Unknown)
        .Kernel<BarrierTakeKernel>()
        .NotDifferentiable(),
    Op("BarrierClose")
        .Input("handle: Ref(string)")
        .Attr("cancel_pending_enqueues: bool = false")
        .Shape(shapes::NoOutputs)
        .Kernel<BarrierCloseKernel>()
        .NotDifferentiable(),
    Op("BarrierReadySize")
        .Input("handle: Ref(string)")
        .Output("size: int32")
        .Shape(shapes::Scalar)
        .Compute(ReadySize)
        .NotDifferentiable(),
    Op("BarrierIncompleteSize")
        .Input("handle: Ref(string)")
        .Output("size: int32")
        .Shape(shapes::Scalar)
        .Compute(BarrierIncompleteSize)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
