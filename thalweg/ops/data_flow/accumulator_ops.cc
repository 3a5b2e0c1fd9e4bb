// SPDX-License-Identifier: Apache-2.0
// Gradient accumulators for synchronous training: every worker applies its gradient, and the chief takes their
// mean when enough have arrived. With refs and with handles, for dense and for sparse gradients.
#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/sync_role.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/accumulator.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/roster_ops.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

class AccumulatorKernel final : public ResourceKernel<Accumulator> {
 public:
  explicit AccumulatorKernel(bool sparse) { options_.sparse = sparse; }

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(ResourceKernel::Init(init));
    ASSIGN_OR_RETURN(options_.dtype, init.Attr<DType>("dtype"));
    ASSIGN_OR_RETURN(options_.shape, init.Attr<PartialShape>("shape"));
    ASSIGN_OR_RETURN(const std::string reduction, init.Attr<std::string>("reduction_type"));
    options_.mean = reduction == "MEAN";
    if (!IsFloating(options_.dtype)) return Unimplemented("no accumulator for type ", options_.dtype);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::shared_ptr<Accumulator>> Make(const std::string&) override {
    return std::make_shared<Accumulator>(options_);
  }
  absl::Status Verify(const Accumulator& found) override {
    const AccumulatorConfig& have = found.options();
    if (have.sparse != options_.sparse || have.dtype != options_.dtype) {
      return InvalidArgument("Shared accumulator '", name_.name, "' is of ", have.sparse ? "sparse" : "dense", " ",
                             have.dtype, ", but ", options_.sparse ? "sparse" : "dense", " ", options_.dtype,
                             " was requested");
    }
    return absl::OkStatus();
  }

  AccumulatorConfig options_;
};

absl::StatusOr<std::shared_ptr<Accumulator>> Find(KernelContext& c, bool sparse) {
  ASSIGN_OR_RETURN(std::shared_ptr<Accumulator> found, FindResource<Accumulator>(c, 0));
  if (found->options().sparse != sparse) {
    return InvalidArgument("an accumulator of ", found->options().sparse ? "sparse" : "dense", " gradients, for ",
                           c.node().op());
  }
  return found;
}

absl::StatusOr<int64_t> StepOf(KernelContext& c, const char* what) {
  const Tensor& step = c.input(1);
  if (!step.shape().is_scalar()) {
    return InvalidArgument("Argument ", what, " must be scalar, but had bad shape ", step.shape());
  }
  return step.scalar<int64_t>();
}

// The worker whose gradient the node applies. Only SyncReplicas marks its nodes; TensorFlow's SyncReplicasOptimizer
// does not say which worker it is.
int64_t WorkerOf(const Node& apply) {
  if (!HasAttr(apply.def(), kWorkerAttr)) return Accumulator::kUnknownWorker;
  return GetAttr<int64_t>(apply.def(), kWorkerAttr).value_or(Accumulator::kUnknownWorker);
}

// Whether a second gradient of the worker in one step is dropped: it comes from a step that was run again.
bool CountsOnce(const Node& apply) {
  return HasAttr(apply.def(), kOncePerStepAttr) && GetAttr<bool>(apply.def(), kOncePerStepAttr).value_or(false);
}

// The task that computed an input: the sender, if it came from another task, perhaps through
// a few nodes of this one. Otherwise the task of the node itself.
std::string SourceOf(const Node& node, int input) {
  // Follows first inputs, which is the way through casts, reshapes and divisions between a _Recv and the accumulator.
  constexpr int kMaxNodes = 8;
  const auto task = [](absl::string_view device) { return std::string(device.substr(0, device.rfind("/device:"))); };
  const Node* from = node.input(input).node;
  for (int i = 0; i < kMaxNodes && from != nullptr; ++i) {
    if (from->op() == "_Recv" || from->op() == "_HostRecv") {
      return task(GetAttr<std::string>(from->def(), "send_device").value_or(""));
    }
    if (from->num_inputs() == 0) break;
    from = from->input(0).node;
  }
  return task(node.device());
}

// Adds a gradient to an accumulator.
class ApplyKernelBase : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    worker_ = WorkerOf(init.node());
    once_ = CountsOnce(init.node());
    if (worker_ == Accumulator::kUnknownWorker) source_ = SourceOf(init.node(), kGradient);
    return absl::OkStatus();
  }

 protected:
  static constexpr int kGradient = 2;  // the input, or the first of its parts
  absl::Status Apply(Accumulator& accumulator, int64_t step, AccumulatedGradient gradient) const {
    return accumulator.Apply(step, std::move(gradient), worker_, once_, source_);
  }

 private:
  int64_t worker_ = Accumulator::kUnknownWorker;
  bool once_ = false;
  std::string source_;
};

class DenseApplyKernel final : public ApplyKernelBase {
 public:
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, Find(c, /*sparse=*/false));
    ASSIGN_OR_RETURN(const int64_t step, StepOf(c, "local_step"));
    // Takes the tensor rather than a reference: the accumulator keeps it beyond the step, and without another owner its
    // memory can become the sum.
    return Apply(*accumulator, step, {.values = c.TakeInput(kGradient)});
  }
};

class SparseApplyKernel final : public ApplyKernelBase {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(has_known_shape_, init.Attr<bool>("has_known_shape"));
    return ApplyKernelBase::Init(init);
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, Find(c, /*sparse=*/true));
    ASSIGN_OR_RETURN(const int64_t step, StepOf(c, "local_step"));
    AccumulatedGradient gradient{.values = c.TakeInput(3), .indices = c.TakeInput(2)};
    if (!gradient.indices.shape().is_vector()) {
      return InvalidArgument("Input indices should be vector but received shape: ", gradient.indices.shape());
    }
    if (gradient.values.rank() == 0) return InvalidArgument("Values cannot be 0-dimensional.");
    if (gradient.values.dim(0) != gradient.indices.dim(0)) {
      return InvalidArgument("Expected ", gradient.indices.dim(0), " non-empty input values, got ",
                             gradient.values.dim(0));
    }
    if (has_known_shape_) RETURN_IF_ERROR(CheckShape(accumulator->options().shape, c.input(4)));
    return Apply(*accumulator, step, std::move(gradient));
  }

 private:
  // The gradient's dense shape may have more dimensions than the accumulator's: those are not compared.
  static absl::Status CheckShape(const PartialShape& expected, const Tensor& shape) {
    if (expected.rank() > shape.num_elements()) {
      return InvalidArgument("Shape mismatch: expected shape rank at least ", expected.rank(), ", got ",
                             shape.num_elements());
    }
    for (int i = 0; i < expected.rank(); ++i) {
      const int64_t size = shape.data<int64_t>()[i];
      if (expected.dim(i) >= 0 && expected.dim(i) != size) {
        return InvalidArgument("Shape mismatch: expected shape dim ", i, " to be ", expected.dim(i), ", got ", size);
      }
    }
    return absl::OkStatus();
  }

  bool has_known_shape_ = false;
};

absl::StatusOr<std::shared_ptr<Accumulator>> FindToTake(KernelContext& c, bool sparse) {
  ASSIGN_OR_RETURN(std::shared_ptr<Accumulator> found, Find(c, sparse));
  const DType wanted = c.output_type(sparse ? 1 : 0);
  if (wanted == found->options().dtype) return found;
  return InvalidArgument("an accumulator of ", found->options().dtype, " asked for ", wanted);
}

// The outputs of ops that take gradients.
absl::Status OutputSum(KernelContext& c, const AccumulatorConfig& options, const Accumulator::Gradients& gradients) {
  ASSIGN_OR_RETURN(AccumulatedGradient total, SumGradients(gradients, options.mean, &c));
  if (!options.sparse) {
    c.set_output(0, std::move(total.values));
    return absl::OkStatus();
  }
  const Shape& shape = total.values.shape();
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(2, Shape({shape.rank()})));
  const auto dims = out->flat<int64_t>();
  // The number of rows of the table. It follows from the accumulator, because the rows of a sum do not tell it.
  dims[0] = options.shape.rank() > 0 ? options.shape.dim(0) : -1;
  for (int i = 1; i < shape.rank(); ++i) dims[i] = shape.dim(i);
  c.set_output(0, std::move(total.indices));
  c.set_output(1, std::move(total.values));
  return absl::OkStatus();
}

class AccumulatorTakeKernel final : public AsyncKernel {
 public:
  explicit AccumulatorTakeKernel(bool sparse) : sparse_(sparse) {}

  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Accumulator>> found = FindToTake(c, sparse_);
    if (!found.ok()) return done(found.status());
    const std::shared_ptr<Accumulator> accumulator = *std::move(found);
    const Tensor& required = c.input(1);
    if (!required.shape().is_scalar()) {
      return done(InvalidArgument("Argument num_required must be scalar, but had bad shape ", required.shape()));
    }
    // `accumulator` is captured to live until the wait is over, even if the resource is deleted meanwhile.
    accumulator->Take(required.scalar<int32_t>(), {.cancellation = c.step().cancellation, .pool = c.step().pool},
                      [this, &c, accumulator, done = std::move(done)](const absl::Status& status,
                                                                      Accumulator::Gradients gradients) mutable {
                        done(status.ok() ? OutputSum(c, accumulator->options(), gradients) : status);
                      });
  }

 private:
  const bool sparse_;
};

class AwaitRoundKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(required_, init.Attr<int64_t>("required"));
    ASSIGN_OR_RETURN(total_, init.Attr<int64_t>("total"));
    return absl::OkStatus();
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    const absl::StatusOr<std::shared_ptr<Accumulator>> accumulator = FindResource<Accumulator>(c, 0);
    if (!accumulator.ok()) return done(accumulator.status());
    const absl::StatusOr<int64_t> round = StepOf(c, "round");
    if (!round.ok()) return done(round.status());
    (*accumulator)
        ->AwaitRound(required_, total_, *round, {.cancellation = c.step().cancellation, .pool = c.step().pool},
                     std::move(done));
  }

 private:
  int64_t required_ = 1, total_ = 1;
};

// Unlike a take that waits, this one can be repeated: the accumulator keeps the gradients of the round until the next
// round is awaited, so a chief whose answer was lost gets them again.
absl::Status TakeRound(KernelContext& c, bool sparse) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, FindToTake(c, sparse));
  ASSIGN_OR_RETURN(const int64_t round, StepOf(c, "round"));
  ASSIGN_OR_RETURN(const Accumulator::Gradients gradients, accumulator->TakeRound(round));
  return OutputSum(c, accumulator->options(), gradients);
}
absl::Status TakeDenseRound(KernelContext& c) { return TakeRound(c, /*sparse=*/false); }
absl::Status TakeSparseRound(KernelContext& c) { return TakeRound(c, /*sparse=*/true); }

absl::Status Reset(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, FindResource<Accumulator>(c, 0));
  ASSIGN_OR_RETURN(const int64_t step, StepOf(c, "new_global_step"));
  if (!c.input(2).shape().is_scalar()) return InvalidArgument("round must be a scalar, got ", c.input(2).shape());
  accumulator->Reset(step, c.input(2).scalar<int64_t>());
  return absl::OkStatus();
}

absl::Status SetGlobalStep(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, FindResource<Accumulator>(c, 0));
  ASSIGN_OR_RETURN(const int64_t step, StepOf(c, "new_global_step"));
  accumulator->SetGlobalStep(step);
  return absl::OkStatus();
}

absl::Status NumAccumulated(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, FindResource<Accumulator>(c, 0));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int32_t>() = static_cast<int32_t>(accumulator->num_accumulated());
  return absl::OkStatus();
}

class LeaveKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(total_, init.Attr<int64_t>("total"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, FindResource<Accumulator>(c, 0));
    ASSIGN_OR_RETURN(const int64_t worker, StepOf(c, "worker"));
    accumulator->Leave(worker, total_);
    return absl::OkStatus();
  }

 private:
  int64_t total_ = 1;
};

class RoundOfKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(worker_, init.Attr<int64_t>("worker"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, FindResource<Accumulator>(c, 0));
    ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
    *out->mutable_data<int64_t>() = accumulator->RoundOf(worker_);
    return absl::OkStatus();
  }

 private:
  int64_t worker_ = 0;
};

absl::Status Join(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, FindResource<Accumulator>(c, 0));
  ASSIGN_OR_RETURN(const int64_t worker, StepOf(c, "worker"));
  accumulator->Join(worker);
  return absl::OkStatus();
}

// Outputs a row per worker, in four columns.
absl::Status ReadLedger(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Accumulator> accumulator, FindResource<Accumulator>(c, 0));
  const Accumulator::Ledger ledger = accumulator->ledger();
  int64_t* columns[4];
  for (int i = 0; i < 4; ++i) {
    ASSIGN_OR_RETURN(Tensor * out, c.Allocate(i, Shape({static_cast<int64_t>(ledger.size())})));
    columns[i] = out->mutable_data<int64_t>();
  }
  int64_t row = 0;
  for (const auto& [worker, entry] : ledger) {
    columns[0][row] = worker;
    columns[1][row] = entry.accepted;
    columns[2][row] = entry.refused();
    columns[3][row++] = entry.last_step;
  }
  return absl::OkStatus();
}

absl::Status SecondIsScalar(ShapeContext& c) { return c.RequireScalar(1); }

bool ByHandle(absl::string_view name) { return absl::StrContains(name, "Resource"); }

Op Make(absl::string_view name) {
  Op op(name);
  op.Output(ByHandle(name) ? "handle: resource" : "handle: Ref(string)")
      .Attr("dtype: numbertype")
      .Attr("shape: shape")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Attr("reduction_type: {'MEAN', 'SUM'} = 'MEAN'")
      .Stateful()
      .Shape(HandleShape)
      .Kernel<AccumulatorKernel>(absl::StartsWith(name, "Sparse"))
      .NotDifferentiable();
  return op;
}

Op AccumulatorUser(absl::string_view name) { return HandleUser(name, "handle", ByHandle(name)); }

Op ApplyOp(absl::string_view name) {
  return AccumulatorUser(name)
      .Input("local_step: int64")
      .Input("gradient: dtype")
      .Attr("dtype: numbertype")
      .Shape(SecondIsScalar)
      .Kernel<DenseApplyKernel>();
}
Op TakeOp(absl::string_view name) {
  return AccumulatorUser(name)
      .Input("num_required: int32")
      .Output("average: dtype")
      .Attr("dtype: numbertype")
      .Shape(SecondIsScalar)
      .Kernel<AccumulatorTakeKernel>(false);
}
Op SetStepOp(absl::string_view name) {
  return AccumulatorUser(name).Input("new_global_step: int64").Shape(SecondIsScalar).Compute(SetGlobalStep);
}
Op LeaveOp(absl::string_view name) {
  return AccumulatorUser(name)
      .Input("worker: int64")
      .Attr("total: int >= 1")
      .Shape(SecondIsScalar)
      .Kernel<LeaveKernel>();
}
Op JoinOp(absl::string_view name) {
  return AccumulatorUser(name).Input("worker: int64").Shape(SecondIsScalar).Compute(Join);
}
Op LedgerOp(absl::string_view name) {
  return AccumulatorUser(name)
      .Output("worker: int64")
      .Output("accepted: int64")
      .Output("stale: int64")
      .Output("last_step: int64")
      .Shape(shapes::Vector)
      .Compute(ReadLedger);
}
Op RoundOfOp(absl::string_view name) {
  return AccumulatorUser(name).Output("round: int64").Attr("worker: int").Shape(shapes::Scalar).Kernel<RoundOfKernel>();
}
Op CountOp(absl::string_view name) {
  return AccumulatorUser(name).Output("num_accumulated: int32").Shape(shapes::Scalar).Compute(NumAccumulated);
}

Op AwaitRoundOp(absl::string_view name) {
  return AccumulatorUser(name)
      .Input("round: int64")
      .Attr("required: int >= 1")
      .Attr("total: int >= 1")
      .Shape(SecondIsScalar)
      .Kernel<AwaitRoundKernel>();
}
Op ResetOp(absl::string_view name) {
  return AccumulatorUser(name)
      .Input("new_global_step: int64")
      .Input("round: int64")
      .Shape(SecondIsScalar)
      .Compute(Reset);
}

const OpRegistration kAccumulatorOps[] = {
    AwaitRoundOp("ThalwegAccumulatorAwaitRound"),
    AwaitRoundOp("ThalwegResourceAccumulatorAwaitRound"),
    ResetOp("ThalwegAccumulatorReset"),
    ResetOp("ThalwegResourceAccumulatorReset"),
    AccumulatorUser("ThalwegResourceAccumulatorTakeRound")
        .Input("round: int64")
        .Output("average: dtype")
        .Attr("dtype: numbertype")
        .Shape(SecondIsScalar)
        .Compute(TakeDenseRound),
    AccumulatorUser("ThalwegSparseAccumulatorTakeRound")
        .Input("round: int64")
        .Output("indices: int64")
        .Output("values: dtype")
        .Output("shape: int64")
        .Attr("dtype: numbertype")
        .Shape(SecondIsScalar)
        .Compute(TakeSparseRound),
    LeaveOp("ThalwegAccumulatorLeave"),
    LeaveOp("ThalwegResourceAccumulatorLeave"),
    JoinOp("ThalwegAccumulatorJoin"),
    JoinOp("ThalwegResourceAccumulatorJoin"),
    LedgerOp("ThalwegAccumulatorLedger"),
    LedgerOp("ThalwegResourceAccumulatorLedger"),
    RoundOfOp("ThalwegAccumulatorRoundOf"),
    RoundOfOp("ThalwegResourceAccumulatorRoundOf"),
    Make("ConditionalAccumulator"),
    Make("ResourceConditionalAccumulator"),
    Make("SparseConditionalAccumulator"),
    ApplyOp("AccumulatorApplyGradient"),
    ApplyOp("ResourceAccumulatorApplyGradient"),
    TakeOp("AccumulatorTakeGradient"),
    TakeOp("ResourceAccumulatorTakeGradient"),
    SetStepOp("AccumulatorSetGlobalStep"),
    SetStepOp("ResourceAccumulatorSetGlobalStep"),
    CountOp("AccumulatorNumAccumulated"),
    CountOp("ResourceAccumulatorNumAccumulated"),
    AccumulatorUser("SparseAccumulatorApplyGradient")
        .Input("local_step: int64")
        .Input("gradient_indices: int64")
        .Input("gradient_values: dtype")
        .Input("gradient_shape: int64")
        .Attr("dtype: numbertype")
        .Attr("has_known_shape: bool")
        .Shape(SecondIsScalar)
        .Kernel<SparseApplyKernel>(),
    AccumulatorUser("SparseAccumulatorTakeGradient")
        .Input("num_required: int32")
        .Output("indices: int64")
        .Output("values: dtype")
        .Output("shape: int64")
        .Attr("dtype: numbertype")
        .Shape(SecondIsScalar)
        .Kernel<AccumulatorTakeKernel>(true),
};

const SyncRoleRegistration kAccumulatorRoles[] = {
    {"AccumulatorApplyGradient", SyncRole::kSubmitGradient},
    {"ResourceAccumulatorApplyGradient", SyncRole::kSubmitGradient},
    {"SparseAccumulatorApplyGradient", SyncRole::kSubmitGradient},
    {"ThalwegAccumulatorAwaitRound", SyncRole::kAwaitGradients},
    {"ThalwegResourceAccumulatorAwaitRound", SyncRole::kAwaitGradients},
    {"AccumulatorTakeGradient", SyncRole::kTakeGradients},
    {"ResourceAccumulatorTakeGradient", SyncRole::kTakeGradients},
    {"SparseAccumulatorTakeGradient", SyncRole::kTakeGradients},
    {"ThalwegResourceAccumulatorTakeRound", SyncRole::kTakeRound},
    {"ThalwegSparseAccumulatorTakeRound", SyncRole::kTakeRound},
    {"ThalwegAccumulatorReset", SyncRole::kDropGradients},
    {"ThalwegResourceAccumulatorReset", SyncRole::kDropGradients},
};

// `name` for a handle that a ref edge carries, Resource`name` for a resource.
std::string FormOf(Output handle, absl::string_view name) {
  const bool by_handle = handle.node != nullptr && handle.dtype() == kResource;
  return absl::StrCat(by_handle ? "Resource" : "", name);
}

std::vector<AttrArg> Attributes(DType dtype, const PartialShape& shape, const AccumulatorOptions& a) {
  return {{"dtype", dtype},
          {"shape", shape},
          {"container", a.container},
          {"shared_name", a.shared_name},
          {"reduction_type", a.mean ? "MEAN" : "SUM"}};
}

}  // namespace

Output ConditionalAccumulator(const Scope& s, DType dtype, const PartialShape& shape, const AccumulatorOptions& a) {
  return s.Add("ResourceConditionalAccumulator", {}, Attributes(dtype, shape, a));
}
Output AccumulatorApplyGradient(const Scope& s, Output handle, Output local_step, Output gradient) {
  return s.Add(FormOf(handle, "AccumulatorApplyGradient"), {handle, local_step, gradient});
}
Output AccumulatorTakeGradient(const Scope& s, Output handle, const IntArg& num_required, DType dtype) {
  return s.Add(FormOf(handle, "AccumulatorTakeGradient"), {handle, num_required.AsTensor(s, "num_required")},
               {{"dtype", dtype}});
}
Output AccumulatorSetGlobalStep(const Scope& s, Output handle, Output step) {
  return s.Add(FormOf(handle, "AccumulatorSetGlobalStep"), {handle, step});
}
Output AccumulatorNumAccumulated(const Scope& s, Output handle) {
  return s.Add(FormOf(handle, "AccumulatorNumAccumulated"), {handle});
}

Output AccumulatorLeave(const Scope& s, Output handle, Output worker, int64_t total) {
  return s.Add("Thalweg" + FormOf(handle, "AccumulatorLeave"), {handle, worker}, {{"total", total}});
}
Output AccumulatorJoin(const Scope& s, Output handle, Output worker) {
  return s.Add("Thalweg" + FormOf(handle, "AccumulatorJoin"), {handle, worker});
}
AccumulatorLedgerResult AccumulatorLedger(const Scope& s, Output handle) {
  Node* const node = s.Add("Thalweg" + FormOf(handle, "AccumulatorLedger"), {handle});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1), node->out(2), node->out(3)};
}

Output AccumulatorRoundOf(const Scope& s, Output handle, int64_t worker) {
  return s.Add("Thalweg" + FormOf(handle, "AccumulatorRoundOf"), {handle}, {{"worker", worker}});
}

Output AccumulatorAwaitRound(const Scope& s, Output handle, Output round, int64_t required, int64_t total) {
  return s.Add("Thalweg" + FormOf(handle, "AccumulatorAwaitRound"), {handle, round},
               {{"required", required}, {"total", total}});
}
Output AccumulatorTakeRound(const Scope& s, Output handle, Output round, DType dtype) {
  return s.Add("ThalwegResourceAccumulatorTakeRound", {handle, round}, {{"dtype", dtype}});
}
SparseGradientResult SparseAccumulatorTakeRound(const Scope& s, Output handle, Output round, DType dtype) {
  Node* const node = s.Add("ThalwegSparseAccumulatorTakeRound", {handle, round}, {{"dtype", dtype}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1), node->out(2)};
}
Output AccumulatorReset(const Scope& s, Output handle, Output step, Output round) {
  return s.Add("Thalweg" + FormOf(handle, "AccumulatorReset"), {handle, step, round});
}

Output SparseConditionalAccumulator(const Scope& s, DType dtype, const PartialShape& shape,
                                    const AccumulatorOptions& a) {
  return s.Add("SparseConditionalAccumulator", {}, Attributes(dtype, shape, a));
}
Output SparseAccumulatorApplyGradient(const Scope& s, Output handle, Output local_step, Output indices, Output values,
                                      Output shape) {
  if (shape.node != nullptr) {
    return s.Add("SparseAccumulatorApplyGradient", {handle, local_step, indices, values, shape},
                 {{"has_known_shape", true}});
  }
  const Output none = s.Add("Const", {}, {{"dtype", kInt64}, {"value", Tensor(kInt64, Shape({0}))}});
  return s.Add("SparseAccumulatorApplyGradient", {handle, local_step, indices, values, none},
               {{"has_known_shape", false}});
}
SparseGradientResult SparseAccumulatorTakeGradient(const Scope& s, Output handle, const IntArg& num_required,
                                                   DType dtype) {
  Node* const node =
      s.Add("SparseAccumulatorTakeGradient", {handle, num_required.AsTensor(s, "num_required")}, {{"dtype", dtype}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1), node->out(2)};
}

}  // namespace thalweg
