// SPDX-License-Identifier: Apache-2.0
// Ops that run one computation for the rows of several steps.
//
//   Batch(x): the rows of all steps of a batch go to one of them, the others get none. batch_index has a line
//     (id, first row, end) for every step of the batch
//   Unbatch(y, batch_index, id): the rows of y that belong to the step with this id, whichever step has them
//   UnbatchGrad(x, batch_index, dy, id): the gradient of Unbatch, for the step that has the batch
//   BatchFunction(x): f(rows of all steps of a batch), the rows of this step
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/function_compiler.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/batch_queue.h"
#include "thalweg/ops/dataset/dataset_function.h"

namespace thalweg {
namespace {

using Done = AsyncKernel::Done;

constexpr int64_t kMaxBatchThreads = 64;

// The state that steps share: a resource of the device, named by the program or after the node.
template <typename T>
class BatchState {
 public:
  absl::Status Init(const KernelInit& init) {
    ASSIGN_OR_RETURN(container_, init.Attr<std::string>("container"));
    if (container_.empty()) container_ = init.device().resources().default_container();
    ASSIGN_OR_RETURN(name_, init.Attr<std::string>("shared_name"));
    if (name_.empty()) name_ = init.node().name();
    return absl::OkStatus();
  }
  // Steps share a state only if they have the same key. Clients give many nodes the same name.
  void AddToKey(absl::string_view key) { absl::StrAppend(&name_, "/", key); }

  absl::StatusOr<std::shared_ptr<T>> Get(KernelContext& c, absl::FunctionRef<std::shared_ptr<T>()> make) const {
    return c.device().resources().FindOrCreate<T>(container_, name_,
                                                  [&]() -> absl::StatusOr<std::shared_ptr<T>> { return make(); });
  }

 private:
  std::string container_, name_;
};

// Shared by Batch and BatchFunction.
class BatchingKernel : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(state_.Init(init));
    ASSIGN_OR_RETURN(const std::string queue, init.Attr<std::string>("batching_queue"));
    state_.AddToKey(queue);
    ASSIGN_OR_RETURN(options_.threads, init.Attr<int64_t>("num_batch_threads"));
    options_.threads = std::clamp<int64_t>(options_.threads, 1, kMaxBatchThreads);
    ASSIGN_OR_RETURN(max_rows_, init.Attr<int64_t>("max_batch_size"));
    if (max_rows_ <= 0) return InvalidArgument("max_batch_size must be positive; was ", max_rows_);
    options_.max_rows = max_rows_;
    ASSIGN_OR_RETURN(options_.max_batches, init.Attr<int64_t>("max_enqueued_batches"));
    if (options_.max_batches <= 0) {
      return InvalidArgument("max_enqueued_batches must be positive; was ", options_.max_batches);
    }
    ASSIGN_OR_RETURN(const int64_t micros, init.Attr<int64_t>("batch_timeout_micros"));
    if (micros < 0) return InvalidArgument("batch_timeout_micros must be non-negative; was ", micros);
    options_.timeout = absl::Microseconds(micros);
    ASSIGN_OR_RETURN(options_.allowed_rows, init.Attr<std::vector<int64_t>>("allowed_batch_sizes"));
    for (size_t i = 1; i < options_.allowed_rows.size(); ++i) {
      if (options_.allowed_rows[i] <= options_.allowed_rows[i - 1]) {
        return InvalidArgument("allowed_batch_sizes entries must be monotonically increasing");
      }
    }
    state_.AddToKey(absl::StrCat(options_.threads, ",", max_rows_, ",", options_.max_batches, ",", micros, ",",
                                 absl::StrJoin(options_.allowed_rows, ",")));
    return absl::OkStatus();
  }

 protected:
  // Checks inputs [0, n), and adds their rows to the queue in pieces that fit into a batch.
  void Add(KernelContext& c, int n, const RunBatch& run,
           absl::AnyInvocable<void(const absl::Status&, const std::vector<BatchTaskPtr>&)> end) {
    const absl::StatusOr<std::vector<BatchTaskPtr>> tasks = Tasks(c, n);
    if (!tasks.ok()) return end(tasks.status(), {});
    const absl::StatusOr<std::shared_ptr<BatchQueue>> queue =
        state_.Get(c, [&] { return std::make_shared<BatchQueue>(options_, c.step().pool); });
    if (!queue.ok()) return end(queue.status(), {});
    (*queue)->Add(*tasks, run, {c.step().cancellation, c.step().pool},
                  [all = *tasks, end = std::move(end)](const absl::Status& status) mutable { end(status, all); });
  }

  BatchState<BatchQueue> state_;
  BatchQueue::Options options_;
  int64_t max_rows_ = 0;  // in a call

 private:
  absl::StatusOr<std::vector<BatchTaskPtr>> Tasks(KernelContext& c, int n) const {
    for (int i = 0; i < n; ++i) {
      if (c.input(i).rank() == 0) {
        return InvalidArgument("Batching input tensors must have at least one dimension");
      }
      if (c.input(i).dim(0) != c.input(0).dim(0)) {
        return InvalidArgument(
            "Batching input tensors supplied in a given op invocation must have equal 0th-dimension size");
      }
    }
    const int64_t rows = c.input(0).dim(0);
    if (rows > max_rows_) {
      return InvalidArgument("Task size ", rows, " is larger than maximum input batch size ", max_rows_);
    }
    std::vector<BatchTaskPtr> tasks;
    for (int64_t begin = 0; begin < rows || tasks.empty(); begin += options_.max_rows) {
      const int64_t end = std::min(rows, begin + options_.max_rows);
      auto task = std::make_shared<BatchTask>();
      task->id = NewId();
      task->rows = end - begin;
      for (int i = 0; i < n; ++i) task->inputs.push_back(c.input(i).Rows(begin, end));
      tasks.push_back(std::move(task));
    }
    return tasks;
  }

  static int64_t NewId() {
    thread_local std::mt19937_64 random{std::random_device()()};
    return static_cast<int64_t>(random());
  }
};

absl::Status GiveToLast(const std::vector<BatchTaskPtr>& tasks, std::vector<Tensor> inputs, Cancellation&) {
  Tensor index(kInt64, {static_cast<int64_t>(tasks.size()), 3});
  int64_t* line = index.mutable_data<int64_t>();
  int64_t begin = 0;
  for (const BatchTaskPtr& task : tasks) {
    for (const Tensor& input : task->inputs) task->outputs.push_back(input.Rows(0, 0));
    task->outputs.push_back(Tensor(kInt64, {0, 3}));
    *line++ = task->id;
    *line++ = begin;
    *line++ = begin += task->rows;
  }
  tasks.back()->outputs = std::move(inputs);
  tasks.back()->outputs.push_back(std::move(index));
  return absl::OkStatus();
}

class BatchKernel final : public BatchingKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(BatchingKernel::Init(init));
    if (!options_.allowed_rows.empty() && options_.allowed_rows.back() != max_rows_) {
      return InvalidArgument("final entry in allowed_batch_sizes must equal max_batch_size");
    }
    return absl::OkStatus();
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    Add(c, c.num_inputs(), GiveToLast,
        [&c, done = std::move(done)](const absl::Status& status, const std::vector<BatchTaskPtr>& tasks) mutable {
          if (!status.ok()) return done(status);
          const std::vector<Tensor>& outputs = tasks[0]->outputs;
          for (size_t i = 0; i < outputs.size(); ++i) c.set_output(static_cast<int>(i), outputs[i]);
          c.set_output(static_cast<int>(outputs.size()), Tensor::Scalar(tasks[0]->id));
          done(absl::OkStatus());
        });
  }
};

absl::Status CallOnBatch(CompiledFunction& function, const std::vector<Tensor>& captured, ThreadPool* pool,
                         const std::vector<BatchTaskPtr>& tasks, std::vector<Tensor> inputs,
                         Cancellation& cancellation) {
  const int64_t rows = inputs[0].dim(0);
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  ResourceManager resources;
  Step step{.cancellation = &cancellation, .pool = pool, .resources = &resources};
  ASSIGN_OR_RETURN(const std::vector<Tensor> results, function.Call(step, inputs));
  for (const Tensor& result : results) {
    if (result.rank() == 0) return FailedPrecondition("Batched output tensor has 0 dimensions");
    if (result.dim(0) != rows) {
      return FailedPrecondition(
          "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the input "
          "tensors");
    }
  }
  int64_t begin = 0;
  for (const BatchTaskPtr& task : tasks) {
    for (const Tensor& result : results) task->outputs.push_back(result.Rows(begin, begin + task->rows));
    begin += task->rows;
  }
  return absl::OkStatus();
}

class BatchFunctionKernel final : public BatchingKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(BatchingKernel::Init(init));
    ASSIGN_OR_RETURN(const bool splits, init.Attr<bool>("enable_large_batch_splitting"));
    if (!options_.allowed_rows.empty()) {
      const int64_t largest = options_.allowed_rows.back();
      if (splits ? largest > max_rows_ || largest <= 0 : largest != max_rows_) {
        return InvalidArgument("final entry in allowed_batch_sizes must ", splits ? "not exceed" : "equal",
                               " max_batch_size");
      }
      if (splits) options_.max_rows = largest;
    }
    ASSIGN_OR_RETURN(const std::vector<DType> inputs, init.Attr<std::vector<DType>>("Tin"));
    inputs_ = static_cast<int>(inputs.size());
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("Tout"));
    ASSIGN_OR_RETURN(const std::shared_ptr<const CarriedFunction> carried,
                     CarriedFunction::Read(init.node().def(), "f"));
    ASSIGN_OR_RETURN(Graph body, carried->Body());
    ASSIGN_OR_RETURN(const std::string bytes, GetAttr<std::string>(init.node().def(), "_graph_of_f"));
    state_.AddToKey(absl::StrCat(splits, ",", absl::Hex(std::hash<std::string>()(bytes))));
    ASSIGN_OR_RETURN(function_, CompileFunction(std::move(body), init.device()));
    return absl::OkStatus();
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    std::vector<Tensor> captured;
    for (int i = inputs_; i < c.num_inputs(); ++i) captured.push_back(c.input(i));
    Add(
        c, inputs_,
        [function = function_, captured = std::move(captured), pool = c.step().pool](
            const std::vector<BatchTaskPtr>& tasks, std::vector<Tensor> inputs, Cancellation& cancellation) {
          return CallOnBatch(*function, captured, pool, tasks, std::move(inputs), cancellation);
        },
        [this, &c, done = std::move(done)](const absl::Status& status, const std::vector<BatchTaskPtr>& tasks) mutable {
          done(status.ok() ? Show(c, tasks) : status);
        });
  }

 private:
  absl::Status Show(KernelContext& c, const std::vector<BatchTaskPtr>& tasks) const {
    for (size_t i = 0; i < types_.size(); ++i) {
      std::vector<Tensor> parts;
      for (const BatchTaskPtr& task : tasks) {
        if (task->outputs.size() != types_.size() || task->outputs[i].dtype() != types_[i]) {
          return InvalidArgument("the function returns other types than Tout says");
        }
        parts.push_back(task->outputs[i]);
      }
      ASSIGN_OR_RETURN(Tensor joined, ConcatRows(parts, 0));
      c.set_output(static_cast<int>(i), std::move(joined));
    }
    return absl::OkStatus();
  }

  int inputs_ = 0;
  std::vector<DType> types_;
  std::shared_ptr<CompiledFunction> function_;
};

// Lines (id, first row, end) of a batch of `rows` rows. INVALID_ARGUMENT if they are not.
struct BatchLine {
  int64_t id, begin, end;
};
absl::StatusOr<std::vector<BatchLine>> ReadBatchIndex(const Tensor& index, int64_t rows) {
  if (index.rank() != 2 || index.dim(1) != 3) {
    return InvalidArgument(
        "Wrong shape for index tensor. Expected a matrix with a 1st dimension size of 3; Got: ", index.shape(), ".");
  }
  std::vector<BatchLine> lines;
  const int64_t* at = index.data<int64_t>();
  for (int64_t i = 0; i < index.dim(0); ++i, at += 3) {
    if (at[1] < 0 || at[2] < at[1] || at[2] > rows) {
      return InvalidArgument("line ", i, " of batch_index has rows ", at[1], " to ", at[2], " of ", rows);
    }
    lines.push_back({at[0], at[1], at[2]});
  }
  return lines;
}

// The rows that steps have brought for others. Thread-safe.
class UnbatchTable final : public Resource, public std::enable_shared_from_this<UnbatchTable> {
 public:
  UnbatchTable(absl::Duration timeout, ThreadPool* pool) : timeout_(timeout), watch_(pool) {}

  // Brings rows, and waits for those of `id`.
  void Exchange(std::vector<std::pair<int64_t, Tensor>>&& brought, int64_t id, const WaitingCaller& caller,
                absl::AnyInvocable<void(const absl::Status&, Tensor)> done) {
    const absl::Time deadline = absl::Now() + timeout_;
    Waiting call{deadline, 0};
    {
      MutexLock lock(&mutex_);
      call.second = calls_++;
      std::erase_if(rows_, [now = absl::Now()](const auto& entry) { return entry.second.deadline < now; });
      for (auto& [key, rows] : brought) rows_.emplace(key, Rows{std::move(rows), deadline});
      deadlines_.insert(call);
      if (!std::exchange(watching_, true)) {
        watch_.Schedule([this] { Watch(); });  // the destructor waits for it
      }
      changed_.SignalAll();
    }
    const auto got = std::make_shared<Tensor>();
    waiting_.Start(
        shared_from_this(), &mutex_, "Unbatch", caller,
        [this, id, got, deadline](absl::Status* status) ABSL_NO_THREAD_SAFETY_ANALYSIS {
          const auto found = rows_.find(id);
          if (found == rows_.end() && absl::Now() < deadline) return false;
          if (found == rows_.end()) {
            *status = DeadlineExceeded("Batched data did not arrive within timeout window.");
          } else {
            *got = std::move(found->second.tensor);
            rows_.erase(found);
          }
          return true;
        },
        [self = shared_from_this(), got, call, done = std::move(done)](const absl::Status& status) mutable {
          self->Forget(call);
          done(status, std::move(*got));
        },
        [this](WaitList::Ended* ended) ABSL_NO_THREAD_SAFETY_ANALYSIS { waiting_.Flush(ended); });
  }

  std::string Describe() const override { return "rows of batches"; }

 private:
  using Waiting = std::pair<absl::Time, int64_t>;  // the deadline of a call, and its number
  struct Rows {
    Tensor tensor;
    absl::Time deadline;
  };

  void Forget(const Waiting& call) {
    MutexLock lock(&mutex_);
    deadlines_.erase(call);
    changed_.SignalAll();
  }

  // Ends the calls whose time is over, as long as there are calls.
  void Watch() {
    MutexLock lock(&mutex_);
    while (!deadlines_.empty()) {
      if (absl::Now() < deadlines_.begin()->first) {
        changed_.WaitWithDeadline(&mutex_, deadlines_.begin()->first);
        continue;
      }
      deadlines_.erase(deadlines_.begin());
      WaitList::Ended ended;
      waiting_.Flush(&ended);
      mutex_.Unlock();
      WaitList::End(std::move(ended));
      mutex_.Lock();
    }
    watching_ = false;
  }

  const absl::Duration timeout_;
  Mutex mutex_;
  CondVar changed_;
  std::map<int64_t, Rows> rows_ ABSL_GUARDED_BY(mutex_);
  std::set<Waiting> deadlines_ ABSL_GUARDED_BY(mutex_);
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool watching_ ABSL_GUARDED_BY(mutex_) = false;
  WaitList waiting_{/*in_order=*/false};  // guarded by mutex_
  SerialThread watch_;
};

class UnbatchKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const int64_t micros, init.Attr<int64_t>("timeout_micros"));
    timeout_ = absl::Microseconds(micros);
    RETURN_IF_ERROR(state_.Init(init));
    state_.AddToKey(absl::StrCat(micros));
    return absl::OkStatus();
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    if (const absl::Status status = Start(c, &done); !status.ok()) done(status);
  }

 private:
  absl::Status Start(KernelContext& c, Done* done) {
    const Tensor &data = c.input(0), &id = c.input(2);
    if (id.rank() != 0) return InvalidArgument("Input id should be scalar; Got: ", id.shape(), ".");
    if (data.rank() == 0) return InvalidArgument("batched_tensor must have at least one dimension");
    ASSIGN_OR_RETURN(const std::vector<BatchLine> lines, ReadBatchIndex(c.input(1), data.dim(0)));
    std::vector<std::pair<int64_t, Tensor>> brought;
    for (const BatchLine& line : lines) brought.emplace_back(line.id, data.Rows(line.begin, line.end));
    ASSIGN_OR_RETURN(const std::shared_ptr<UnbatchTable> table,
                     state_.Get(c, [&] { return std::make_shared<UnbatchTable>(timeout_, c.step().pool); }));
    table->Exchange(std::move(brought), id.scalar<int64_t>(), {c.step().cancellation, c.step().pool},
                    [&c, done = std::move(*done)](const absl::Status& status, Tensor rows) mutable {
                      if (status.ok()) c.set_output(0, std::move(rows));
                      done(status);
                    });
    return absl::OkStatus();
  }

  BatchState<UnbatchTable> state_;
  absl::Duration timeout_;
};

// The gradients that steps have brought. Thread-safe.
class UnbatchGradTable final : public Resource, public std::enable_shared_from_this<UnbatchGradTable> {
 public:
  // Brings the gradient of `id`, and waits for those of all `wanted`.
  void Exchange(Tensor gradient, int64_t id, std::vector<int64_t> wanted, const WaitingCaller& caller,
                absl::AnyInvocable<void(const absl::Status&, std::vector<Tensor>)> done) {
    absl::Status status;
    {
      MutexLock lock(&mutex_);
      if (!gradients_.emplace(id, std::move(gradient)).second) {
        status = InvalidArgument("Two runs with the same batch key.");
      }
    }
    if (!status.ok()) return done(status, {});
    const auto got = std::make_shared<std::vector<Tensor>>();
    waiting_.Start(
        shared_from_this(), &mutex_, "UnbatchGrad", caller,
        [this, wanted = std::move(wanted), got](absl::Status*) ABSL_NO_THREAD_SAFETY_ANALYSIS {
          for (const int64_t key : wanted) {
            if (!gradients_.contains(key)) return false;
          }
          for (const int64_t key : wanted) {
            got->push_back(gradients_[key]);
            gradients_.erase(key);
          }
          return true;
        },
        [got, done = std::move(done)](const absl::Status& result) mutable { done(result, std::move(*got)); },
        [this](WaitList::Ended* ended) ABSL_NO_THREAD_SAFETY_ANALYSIS { waiting_.Flush(ended); });
  }
  std::string Describe() const override { return "gradients of batches"; }

 private:
  Mutex mutex_;
  std::map<int64_t, Tensor> gradients_ ABSL_GUARDED_BY(mutex_);
  WaitList waiting_{/*in_order=*/false};  // guarded by mutex_
};

class UnbatchGradKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override { return state_.Init(init); }
  void ComputeAsync(KernelContext& c, Done done) override {
    if (const absl::Status status = Start(c, &done); !status.ok()) done(status);
  }

 private:
  absl::Status Start(KernelContext& c, Done* done) {
    const Tensor &data = c.input(0), &gradient = c.input(2), &id = c.input(3);
    if (id.rank() != 0) return InvalidArgument("Expected `id` to be scalar. Received ", id.shape());
    if (gradient.rank() == 0) return InvalidArgument("grad must have at least one dimension");
    std::vector<int64_t> wanted;
    if (data.num_elements() > 0) {
      if (c.input(1).num_elements() == 0) return InvalidArgument("batch_index is empty while the tensor isn't.");
      ASSIGN_OR_RETURN(const std::vector<BatchLine> lines,
                       ReadBatchIndex(c.input(1), std::numeric_limits<int64_t>::max()));
      for (const BatchLine& line : lines) wanted.push_back(line.id);
      std::vector<int64_t> sorted = wanted;
      std::sort(sorted.begin(), sorted.end());
      if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
        return InvalidArgument("batch_index names a batch key twice.");
      }
    }
    ASSIGN_OR_RETURN(const std::shared_ptr<UnbatchGradTable> table,
                     state_.Get(c, [] { return std::make_shared<UnbatchGradTable>(); }));
    const Tensor none = gradient.Rows(0, 0);
    table->Exchange(
        gradient, id.scalar<int64_t>(), std::move(wanted), {c.step().cancellation, c.step().pool},
        [&c, none, done = std::move(*done)](const absl::Status& status, std::vector<Tensor> gradients) mutable {
          if (!status.ok()) return done(status);
          if (gradients.empty()) gradients.push_back(none);
          absl::StatusOr<Tensor> joined = ConcatRows(gradients, 0);
          if (!joined.ok()) return done(joined.status());
          c.set_output(0, *std::move(joined));
          done(absl::OkStatus());
        });
    return absl::OkStatus();
  }

  BatchState<UnbatchGradTable> state_;
};

absl::StatusOr<PartialShape> AnyRows(const PartialShape& shape) {
  if (!shape.has_rank()) return PartialShape();
  if (shape.rank() == 0) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims[0] = PartialShape::kUnknown;
  return PartialShape(std::move(dims));
}

absl::Status BatchShape(ShapeContext& c) {
  const int n = c.num_inputs();
  for (int i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(PartialShape shape, AnyRows(c.input(i)));
    c.set_output(i, std::move(shape));
  }
  c.set_output(n, {PartialShape::kUnknown, 3});
  c.set_output(n + 1, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status UnbatchShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, AnyRows(c.input(0)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status UnbatchGradShape(ShapeContext& c) {
  if (c.input(2).has_rank()) c.set_output(0, PartialShape(Dims(c.input(2).rank(), PartialShape::kUnknown)));
  return absl::OkStatus();
}

const OpRegistration kBatchOps[] = {
    Op("Batch")
        .Input("in_tensors: T")
        .Output("batched_tensors: T")
        .Output("batch_index: int64")
        .Output("id: int64")
        .Attr("num_batch_threads: int")
        .Attr("max_batch_size: int")
        .Attr("max_enqueued_batches: int = 10")
        .Attr("batch_timeout_micros: int")
        .Attr("allowed_batch_sizes: list(int) = []")
        .Attr("grad_timeout_micros: int")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Attr("batching_queue: string = ''")
        .Attr("T: list(type) >= 1")
        .Shape(BatchShape)
        .Kernel<BatchKernel>()
        .NotDifferentiable(),
    Op("BatchFunction")
        .Input("in_tensors: Tin")
        .Input("captured_tensors: Tcaptured")
        .Output("out_tensors: Tout")
        .Attr("f: func")
        .Attr("num_batch_threads: int")
        .Attr("max_batch_size: int")
        .Attr("batch_timeout_micros: int")
        .Attr("max_enqueued_batches: int = 10")
        .Attr("allowed_batch_sizes: list(int) = []")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Attr("batching_queue: string = ''")
        .Attr("low_priority_max_batch_size: int = 0")
        .Attr("low_priority_batch_timeout_micros: int = 0")
        .Attr("low_priority_allowed_batch_sizes: list(int) = []")
        .Attr("low_priority_max_enqueued_batches: int = 0")
        .Attr("Tin: list(type) >= 1")
        .Attr("Tcaptured: list(type) >= 0")
        .Attr("Tout: list(type) >= 1")
        .Attr("enable_large_batch_splitting: bool = false")
        .Shape(shapes::Unknown)
        .Kernel<BatchFunctionKernel>()
        .NotDifferentiable(),
    Op("Unbatch")
        .Input("batched_tensor: T")
        .Input("batch_index: int64")
        .Input("id: int64")
        .Output("unbatched_tensor: T")
        .Attr("timeout_micros: int")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Attr("T: type")
        .Shape(UnbatchShape)
        .Kernel<UnbatchKernel>()
        .NotDifferentiable(),
    Op("UnbatchGrad")
        .Input("original_input: T")
        .Input("batch_index: int64")
        .Input("grad: T")
        .Input("id: int64")
        .Output("batched_grad: T")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Attr("T: type")
        .Shape(UnbatchGradShape)
        .Kernel<UnbatchGradKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
