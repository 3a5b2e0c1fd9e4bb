// SPDX-License-Identifier: Apache-2.0
// Collectives: ops whose nodes on several devices, of one task or of many,
// compute something together. The members of a group find each other by
// group_key; what each of its ops is about, by instance_key. In the V2 forms the
// keys are inputs.
//
//   CollectiveReduce       every member gets the sum (or product, maximum,
//                          minimum) of all; divided by their number if wanted
//   CollectiveGather       the inputs of all, one after the other by rank
//   CollectiveBcastSend    gives its input to all ...
//   CollectiveBcastRecv    ... of these
#include <cstring>
#include <utility>

#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/collectives.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/collective_ops.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

using ReduceTypes = Types<float, double, Half, BFloat16, int32_t, int64_t>;
using MergeFn = void (*)(void* into, const void* from, int64_t n);
using FinishFn = void (*)(void* values, int64_t n, int members);

THALWEG_SIMD void AddFloats(float* into, const float* from, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) into[i] += from[i];
}

// Two values of a type; a NaN in either is passed on.
template <char kOp, typename T>
T MergeTwo(T x, T y) {
  if constexpr (kOp == '+') {
    return WrapAdd(x, y);
  } else if constexpr (kOp == '*') {
    return WrapMul(x, y);
  } else if constexpr (kOp == '>') {
    return x > y || x != x ? x : y;
  } else {
    return x < y || x != x ? x : y;
  }
}

template <char kOp, typename T>
void Merge(void* into, const void* from, int64_t n) {
  T* const to = static_cast<T*>(into);
  const T* const x = static_cast<const T*>(from);
  if constexpr (kOp == '+' && std::is_same_v<T, float>) {
    AddFloats(to, x, n);
  } else {
    using Computed = std::conditional_t<sizeof(T) == 2, float, T>;  // 16-bit numbers compute in float
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(MergeTwo<kOp, Computed>(to[i], x[i]));
  }
}

template <typename T>
void Divide(void* values, int64_t n, int members) {
  T* const v = static_cast<T*>(values);
  const T by = static_cast<T>(members);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<T>(v[i] / by);
}

// What the kernels have in common: where they learn of their group.
class CollectiveKernel : public AsyncKernel {
 public:
  explicit CollectiveKernel(CollectiveKind kind, bool is_source = false) : kind_(kind), is_source_(is_source) {}

  absl::Status Init(const KernelInit& init) override {
    const auto timeout = init.Attr<float>("timeout_seconds");
    if (timeout.ok() && *timeout > 0) timeout_ = absl::Seconds(*timeout);
    by_attrs_ = HasAttr(init.node().def(), "instance_key");
    if (!by_attrs_) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int64_t group_size, init.Attr<int64_t>("group_size"));
    ASSIGN_OR_RETURN(const int64_t group_key, init.Attr<int64_t>("group_key"));
    ASSIGN_OR_RETURN(const int64_t instance_key, init.Attr<int64_t>("instance_key"));
    group_size_ = static_cast<int32_t>(group_size);
    group_key_ = static_cast<int32_t>(group_key);
    instance_key_ = static_cast<int32_t>(instance_key);
    return CheckSize(group_size_);
  }

  void ComputeAsync(KernelContext& c, Done done) final {
    absl::StatusOr<std::shared_ptr<Collectives>> collectives =
        c.step().resources->Find<Collectives>("", Collectives::kName);
    if (!collectives.ok()) {
      return done(FailedPrecondition(c.node().op(), " needs a session on a server: this one has no other tasks"));
    }
    absl::StatusOr<CollectiveCall> call = MakeCall(c);
    if (!call.ok()) return done(call.status());
    // The collectives live as long as the step.
    (*collectives)->Run(*std::move(call), *c.step().cancellation, std::move(done));
  }

 protected:
  // Fills in the values, and sets the output.
  virtual absl::Status Prepare(KernelContext& c, CollectiveCall* call) = 0;
  // The first of the inputs group_size, group_key and instance_key.
  virtual int first_key_input() const { return 1; }

 private:
  static absl::Status CheckSize(int32_t group_size) {
    if (group_size > 0) return absl::OkStatus();
    return InvalidArgument("group_size must be positive integer but got ", group_size);
  }

  absl::StatusOr<CollectiveCall> MakeCall(KernelContext& c) {
    CollectiveCall call{.kind = kind_,
                        .node = c.node().name(),
                        .device = &c.device(),
                        .group_key = group_key_,
                        .group_size = group_size_,
                        .instance_key = instance_key_,
                        .frame = c.frame(),
                        .iteration = c.iteration(),
                        .is_source = is_source_,
                        .timeout = timeout_};
    if (!by_attrs_) {
      std::pair<const char*, int32_t*> keys[] = {
          {"group_size", &call.group_size}, {"group_key", &call.group_key}, {"instance_key", &call.instance_key}};
      for (int i = 0; i < 3; ++i) {
        const Tensor& key = c.input(first_key_input() + i);
        if (key.rank() > 0) {
          return InvalidArgument("Unexpected dimensions on input ", keys[i].first, ", got ", key.shape());
        }
        *keys[i].second = key.scalar<int32_t>();
      }
      RETURN_IF_ERROR(CheckSize(call.group_size));
    }
    RETURN_IF_ERROR(Prepare(c, &call));
    return call;
  }

  const CollectiveKind kind_;
  const bool is_source_;
  bool by_attrs_ = false;
  int32_t group_size_ = 0;
  int32_t group_key_ = 0;
  int32_t instance_key_ = 0;
  absl::Duration timeout_ = absl::InfiniteDuration();
};

class ReduceKernel : public CollectiveKernel {
 public:
  ReduceKernel() : CollectiveKernel(CollectiveKind::kReduce) {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(CollectiveKernel::Init(init));
    ASSIGN_OR_RETURN(const std::string merge, init.Attr<std::string>("merge_op"));
    ASSIGN_OR_RETURN(const std::string finish, init.Attr<std::string>("final_op"));
    ASSIGN_OR_RETURN(const DType dtype, init.Attr<DType>("T"));
    const auto offsets = init.Attr<std::vector<int64_t>>("subdiv_offsets");
    if (offsets.ok()) offsets_.assign(offsets->begin(), offsets->end());
    const auto subdivisions = init.Attr<int64_t>("max_subdivs_per_device");
    if (subdivisions.ok()) max_subdivisions_ = static_cast<int>(*subdivisions);
    reduction_ = (merge == "Add" ? 1 : merge == "Mul" ? 2 : merge == "Max" ? 3 : 4) + (finish == "Div" ? 8 : 0);
    return Dispatch(ReduceTypes(), dtype, [&]<typename T>() {
      merge_ = merge == "Add"   ? Merge<'+', T>
               : merge == "Mul" ? Merge<'*', T>
               : merge == "Max" ? Merge<'>', T>
                                : Merge<'<', T>;
      if (finish == "Div") finish_ = Divide<T>;
      return absl::OkStatus();
    });
  }

 protected:
  absl::Status Prepare(KernelContext& c, CollectiveCall* call) override {
    const void* const from = c.input(0).raw();
    const Shape shape = c.input(0).shape();
    ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, shape));
    if (output->raw() != from && output->TotalBytes() > 0) std::memcpy(output->raw(), from, output->TotalBytes());
    call->values = *output;
    call->subdivision_offsets = offsets_;
    call->max_subdivisions_per_device = max_subdivisions_;
    call->merge = merge_;
    call->finish = finish_;
    call->reduction = reduction_;
    return absl::OkStatus();
  }

 private:
  std::vector<int> offsets_;
  int max_subdivisions_ = -1;
  MergeFn merge_ = nullptr;
  FinishFn finish_ = nullptr;
  uint32_t reduction_ = 0;
};

class GatherKernel : public CollectiveKernel {
 public:
  GatherKernel() : CollectiveKernel(CollectiveKind::kGather) {}

 protected:
  absl::Status Prepare(KernelContext& c, CollectiveCall* call) override {
    const Tensor& input = c.input(0);
    if (input.rank() == 0) return InvalidArgument("input should have rank > 0, recieved 0");
    Dims dims(input.shape().dims().begin(), input.shape().dims().end());
    if (__builtin_mul_overflow(dims[0], static_cast<int64_t>(call->group_size), &dims[0])) {
      return InvalidArgument("The inputs of ", call->group_size, " members, of shape ", input.shape(),
                             ", are more than a tensor can hold");
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const output, c.Allocate(0, shape));
    call->values = *output;
    call->own = input;
    return absl::OkStatus();
  }
};

class BcastSendKernel : public CollectiveKernel {
 public:
  BcastSendKernel() : CollectiveKernel(CollectiveKind::kBroadcast, true) {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(CollectiveKernel::Init(init));
    const auto shape = init.Attr<PartialShape>("shape");
    if (shape.ok()) shape_ = *shape;
    return absl::OkStatus();
  }

 protected:
  absl::Status Prepare(KernelContext& c, CollectiveCall* call) override {
    if (!shape_.Accepts(c.input(0).shape())) {
      return Internal("Declared shape of op ", c.node().name(),
                      ": Broadcast(1) does not match shape of input: ", shape_, " vs. ", c.input(0).shape());
    }
    call->values = c.input(0);
    c.set_output(0, call->values);
    return absl::OkStatus();
  }

 private:
  PartialShape shape_;
};

class BcastRecvKernel : public CollectiveKernel {
 public:
  BcastRecvKernel() : CollectiveKernel(CollectiveKind::kBroadcast) {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(CollectiveKernel::Init(init));
    const auto shape = init.Attr<PartialShape>("shape");
    if (!shape.ok()) return absl::OkStatus();
    shape_ = shape->AsShape();
    if (!shape_.has_value()) return InvalidArgument("The shape to receive must be fully known, got ", *shape);
    return absl::OkStatus();
  }

 protected:
  int first_key_input() const override { return 0; }
  absl::Status Prepare(KernelContext& c, CollectiveCall* call) override {
    std::optional<Shape> shape = shape_;
    if (!shape.has_value()) {
      const Tensor& sizes = c.input(3);
      if (sizes.rank() != 1) return InvalidArgument("shape must be a vector, got ", sizes.shape());
      Dims dims;
      for (int64_t i = 0; i < sizes.num_elements(); ++i) {
        dims.push_back(sizes.dtype() == kInt32 ? sizes.data<int32_t>()[i] : sizes.data<int64_t>()[i]);
      }
      ASSIGN_OR_RETURN(shape, Shape::Make(dims));
    }
    ASSIGN_OR_RETURN(Tensor* const output, c.Allocate(0, *shape));
    call->values = *output;
    return absl::OkStatus();
  }

 private:
  std::optional<Shape> shape_;
};

// The first dimension is that of all inputs together.
absl::Status GatherShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return shapes::Unknown(c);
  if (input.rank() == 0) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  Dims dims(input.dims().begin(), input.dims().end());
  const auto group_size = c.Attr<int64_t>("group_size");
  int64_t all = PartialShape::kUnknown;
  if (group_size.ok() && dims[0] >= 0 && !__builtin_mul_overflow(dims[0], *group_size, &all) && all >= 0) {
    dims[0] = all;
  } else {
    dims[0] = PartialShape::kUnknown;
  }
  c.set_output(0, PartialShape(dims));
  return absl::OkStatus();
}

absl::Status BcastRecvV2Shape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(3));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

constexpr char kReduceT[] = "T: {bfloat16, float, half, double, int32, int64}";
constexpr char kGatherT[] = "T: {float, half, double, int32, int64}";
constexpr char kBcastT[] = "T: {bool, float, half, double, int32, int64}";

Op Collective(absl::string_view name) { return Op(name).Stateful().DistributedCommunication(); }

// The attributes that name a group and an instance.
Op& Keys(Op& op) { return op.Attr("group_size: int").Attr("group_key: int").Attr("instance_key: int"); }
Op& KeyInputs(Op& op) { return op.Input("group_size: int32").Input("group_key: int32").Input("instance_key: int32"); }
Op& Hints(Op& op) { return op.Attr("communication_hint: string = 'auto'").Attr("timeout_seconds: float = 0"); }
Op& Tokens(Op& op) { return op.Attr("is_stateless: bool = false").Attr("Nordering_token: int >= 0 = 0"); }
Op& MergeAttrs(Op& op) { return op.Attr("merge_op: {'Min', 'Max', 'Mul', 'Add'}").Attr("final_op: {'Id', 'Div'}"); }

Op Reduce() {
  Op op = Collective("CollectiveReduce").Input("input: T").Output("data: T").Attr(kReduceT);
  MergeAttrs(Keys(op)).Attr("subdiv_offsets: list(int)").Attr("wait_for: list(int) = []");
  return Hints(op).Shape(shapes::LikeInput0).Kernel<ReduceKernel>();
}

Op Gather() {
  Op op = Collective("CollectiveGather").Input("input: T").Output("data: T").Attr(kGatherT);
  return Hints(Keys(op).Attr("shape: shape")).Shape(GatherShape).Kernel<GatherKernel>();
}

Op BcastSend() {
  Op op = Collective("CollectiveBcastSend").Input("input: T").Output("data: T").Attr(kBcastT);
  return Hints(Keys(op).Attr("shape: shape")).Shape(shapes::FromShapeAttr).Kernel<BcastSendKernel>();
}

Op BcastRecv() {
  Op op = Collective("CollectiveBcastRecv").Output("data: T").Attr(kBcastT);
  return Hints(Keys(op).Attr("shape: shape")).Shape(shapes::FromShapeAttr).Kernel<BcastRecvKernel>();
}

Op ReduceV2() {
  Op op = Collective("CollectiveReduceV2").Input("input: T").Output("data: T").Attr(kReduceT);
  KeyInputs(op).Input("ordering_token: Nordering_token * resource");
  Tokens(Hints(MergeAttrs(op))).Attr("max_subdivs_per_device: int = -1");
  return op.Shape(shapes::LikeInput0).Kernel<ReduceKernel>();
}

Op GatherV2() {
  Op op = Collective("CollectiveGatherV2").Input("input: T").Output("data: T").Attr(kGatherT);
  KeyInputs(op).Input("ordering_token: Nordering_token * resource");
  return Tokens(Hints(op)).Shape(GatherShape).Kernel<GatherKernel>();
}

Op BcastSendV2() {
  Op op = Collective("CollectiveBcastSendV2").Input("input: T").Output("data: T").Attr(kBcastT);
  return Hints(KeyInputs(op)).Shape(shapes::LikeInput0).Kernel<BcastSendKernel>();
}

Op BcastRecvV2() {
  Op op = Collective("CollectiveBcastRecvV2").Output("data: T").Attr(kBcastT);
  KeyInputs(op).Input("shape: Tshape").Attr("Tshape: {int32, int64} = DT_INT32");
  return Hints(op).Shape(BcastRecvV2Shape).Kernel<BcastRecvKernel>();
}

class CollectiveEndKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(group_key_, init.Attr<int64_t>("group_key"));
    ASSIGN_OR_RETURN(first_, init.Attr<int64_t>("first_instance"));
    ASSIGN_OR_RETURN(last_, init.Attr<int64_t>("last_instance"));
    ASSIGN_OR_RETURN(why_, init.Attr<std::string>("why"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    // Without a server there are no other members.
    const absl::StatusOr<std::shared_ptr<Collectives>> collectives =
        c.step().resources->Find<Collectives>("", Collectives::kName);
    if (!collectives.ok()) return absl::OkStatus();
    (*collectives)
        ->End(static_cast<int32_t>(group_key_), static_cast<int32_t>(first_), static_cast<int32_t>(last_), why_);
    return absl::OkStatus();
  }

 private:
  int64_t group_key_ = 0, first_ = 0, last_ = 0;
  std::string why_;
};

const OpRegistration kCollectiveOps[] = {Reduce(),
                                         Gather(),
                                         BcastSend(),
                                         BcastRecv(),
                                         ReduceV2(),
                                         GatherV2(),
                                         BcastSendV2(),
                                         BcastRecvV2(),
                                         Op("ThalwegCollectiveEnd")
                                             .Attr("group_key: int")
                                             .Attr("first_instance: int")
                                             .Attr("last_instance: int")
                                             .Attr("why: string = ''")
                                             .Stateful()
                                             .Shape(shapes::NoOutputs)
                                             .Kernel<CollectiveEndKernel>()
                                             .NotDifferentiable()};

std::vector<AttrArg> AttrsOf(const CollectiveOptions& options, std::vector<AttrArg> more) {
  more.emplace_back("group_size", options.group_size);
  more.emplace_back("group_key", options.group_key);
  more.emplace_back("instance_key", options.instance_key);
  if (options.timeout < absl::InfiniteDuration()) {
    more.emplace_back("timeout_seconds", static_cast<float>(absl::ToDoubleSeconds(options.timeout)));
  }
  return more;
}

}  // namespace

static const char* NameOf(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "Add";
    case ReduceKind::kProduct:
      return "Mul";
    case ReduceKind::kMax:
      return "Max";
    case ReduceKind::kMin:
      return "Min";
  }
  return "Add";
}

Output CollectiveReduce(const Scope& s, Output input, const CollectiveOptions& options,
                        const CollectiveReduceOptions& reduce) {
  return s.Add("CollectiveReduce", {input},
               AttrsOf(options, {{"merge_op", NameOf(reduce.kind)},
                                 {"final_op", reduce.mean ? "Div" : "Id"},
                                 {"subdiv_offsets", std::vector<int64_t>{}}}));
}

Output CollectiveEnd(const Scope& s, const CollectiveEndOptions& options) {
  return s.Add("ThalwegCollectiveEnd", {},
               {{"group_key", options.group_key},
                {"first_instance", options.first_instance},
                {"last_instance", options.last_instance},
                {"why", options.why}});
}

Output CollectiveGather(const Scope& s, Output input, const CollectiveOptions& options) {
  return s.Add("CollectiveGather", {input}, AttrsOf(options, {{"shape", PartialShape()}}));
}

Output CollectiveBcastSend(const Scope& s, Output input, const Shape& shape, const CollectiveOptions& options) {
  return s.Add("CollectiveBcastSend", {input}, AttrsOf(options, {{"shape", PartialShape(shape)}}));
}

Output CollectiveBcastRecv(const Scope& s, DType dtype, const Shape& shape, const CollectiveOptions& options) {
  return s.Add("CollectiveBcastRecv", {}, AttrsOf(options, {{"T", dtype}, {"shape", PartialShape(shape)}}));
}

}  // namespace thalweg
