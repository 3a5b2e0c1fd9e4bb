// SPDX-License-Identifier: Apache-2.0
// Collectives: ops whose nodes on several devices, of one task or of many,
// compute something together. The members of a group find each other by
// group_key; what each of its ops is about, by instance_key. In the V2 forms the
// keys are inputs.
//
//   CollectiveReduce       every member gets the sum (or product, maximum,
//                          minimum) of all; divided by their number if wanted
//   ThalwegCollectiveReduceBucket   the same for a list of inputs, as one exchange
//   CollectiveGather       the inputs of all, one after the other by rank
//   CollectiveBcastSend    gives its input to all ...
//   CollectiveBcastRecv    ... of these
//   CollectiveAllToAll     part i of the input goes to member i
//   CollectiveReduceScatter   each member gets its part of the sum
//
// The V3 forms take a communicator in place of the keys: CollectiveInitializeCommunicator makes it, and it numbers the
// instances. CollectiveAssignGroupV2 computes a group's key and size from a table of groups.
#include <atomic>
#include <cstring>
#include <utility>

#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/collectives.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/collective_ops.h"
#include "thalweg/ops/support/numbers.h"
#include "thalweg/ops/support/resource_kernel.h"

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
    return x > y || x != x ? x : y;  // NOLINT(misc-redundant-expression): NaN differs from itself
  } else {
    return x < y || x != x ? x : y;  // NOLINT(misc-redundant-expression)
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

// A member's view of a group, which V3 collectives share. It lives as long as the step. Thread-safe.
class Communicator : public Resource {
 public:
  static constexpr char kContainer[] = "collective_op_group";
  static constexpr char kTypeName[] = "N10tensorflow12_GLOBAL__N_123CollectiveGroupResourceE";

  Communicator(int32_t group_key, int32_t rank, int32_t group_size, absl::Duration timeout)
      : group_key(group_key), rank(rank), group_size(group_size), timeout(timeout) {}
  std::string Describe() const override {
    return absl::StrCat("Collective Group with group_key = ", group_key, ", group_size = ", group_size,
                        ", rank = ", rank);
  }
  int32_t NextInstance() { return next_.fetch_add(1, std::memory_order_relaxed); }

  const int32_t group_key, rank, group_size;
  const absl::Duration timeout;

 private:
  std::atomic<int32_t> next_ = 0;
};

absl::Status ComputeInitializeCommunicator(KernelContext& c) {
  if (c.step().resources == nullptr) return Internal("No step container.");
  int32_t values[3];
  constexpr const char* kNames[] = {"group_key", "rank", "group_size"};
  for (const int i : {2, 0, 1}) {
    const Tensor& input = c.input(i);
    if (input.rank() > 0) {
      return InvalidArgument("Unexpected dimensions on input ", kNames[i],
                             ". It shoulbe a scalar, got tensor with shape ", input.shape());
    }
    values[i] = input.scalar<int32_t>();
  }
  const int32_t group_key = values[0], rank = values[1], group_size = values[2];
  if (group_size <= 0) return InvalidArgument("group_size must be positive integer but got ", group_size);
  if (rank < 0) return InvalidArgument("rank must be non-negative integer but got ", rank);
  if (rank >= group_size) {
    return InvalidArgument("rank must be less than group size but got ", rank, " >= ", group_size);
  }
  ASSIGN_OR_RETURN(const float seconds, GetAttr<float>(c.node().def(), "timeout_seconds"));
  const ResourceName name{Communicator::kContainer, absl::StrCat(group_key, ":r", absl::Dec(rank, absl::kZeroPad4))};
  RETURN_IF_ERROR(c.step().resources->Create(
      name.container, name.name,
      std::make_shared<Communicator>(group_key, rank, group_size,
                                     seconds > 0 ? absl::Seconds(seconds) : absl::InfiniteDuration())));
  SetStepHandle(c, name, Communicator::kTypeName, nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Communicator>> CommunicatorInput(KernelContext& c, int i) {
  const Tensor& input = c.input(i);
  if (input.dtype() != kResource || input.num_elements() != 1) {
    return InvalidArgument("communicator must be one resource handle, got ", input.dtype(), " ", input.shape());
  }
  const ResourceHandle& handle = input.scalar<ResourceHandle>();
  if (c.step().resources == nullptr) return Internal("No step container.");
  return c.step().resources->Find<Communicator>(handle.container, handle.name);
}

// The row of the table that has this device: its number, added to base_key, is the group's key.
absl::Status ComputeAssignGroup(KernelContext& c) {
  const Tensor &table = c.input(0), &index = c.input(1), &base = c.input(2);
  if (index.rank() != 0) {
    return InvalidArgument("device_index must be a scalar, but received tensor of shape: ", index.shape());
  }
  if (table.rank() != 2) {
    return InvalidArgument("group_assignment must be a 2-d Tensor, but received tensor of shape: ", table.shape());
  }
  if (base.rank() != 0) {
    return InvalidArgument("base_key must be a scalar, but received tensor of shape: ", base.shape());
  }
  const int32_t device = index.scalar<int32_t>(), base_key = base.scalar<int32_t>();
  const int64_t size = table.dim(1);
  for (int64_t group = 0; group < table.dim(0); ++group) {
    const auto key = static_cast<int32_t>(static_cast<uint32_t>(base_key) + static_cast<uint32_t>(group));
    if (key == 0) {
      return InvalidArgument("Using the reserved group_key = 0 is not allowed: group_id = ", group,
                             ", base_key = ", base_key);
    }
    for (int64_t i = 0; i < size; ++i) {
      const int32_t member = table.data<int32_t>()[group * size + i];
      if (member < 0 || member >= table.num_elements()) {
        return InvalidArgument("Not all items in group_assignment is within [0, number of devices): ", member);
      }
      if (member != device) continue;
      c.set_output(0, Tensor::Scalar(static_cast<int32_t>(size)));
      c.set_output(1, Tensor::Scalar(key));
      return absl::OkStatus();
    }
  }
  return InvalidArgument("device_index ", device, " is not found in group_assignment of shape ", table.shape());
}

// The base of the kernels: finds the group of the node.
class CollectiveKernel : public AsyncKernel {
 public:
  explicit CollectiveKernel(CollectiveKind kind, bool is_source = false) : kind_(kind), is_source_(is_source) {}

  absl::Status Init(const KernelInit& init) override {
    const auto timeout = init.Attr<float>("timeout_seconds");
    if (timeout.ok() && *timeout > 0) timeout_ = absl::Seconds(*timeout);
    by_attrs_ = HasAttr(init.node().def(), "instance_key");
    by_communicator_ = init.node().num_inputs() > 1 && init.node().input_type(1) == kResource;
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
    Finish finish;
    absl::StatusOr<CollectiveCall> call = MakeCall(c, **collectives, &finish);
    if (!call.ok()) return done(call.status());
    if (finish != nullptr) {
      done = [finish = std::move(finish), done = std::move(done)](const absl::Status& status) mutable {
        if (status.ok()) finish();
        done(status);
      };
    }
    // The collectives live as long as the step.
    (*collectives)->Run(*std::move(call), *c.step().cancellation, std::move(done));
  }

 protected:
  using Finish = absl::AnyInvocable<void()>;

  // Fills in the values, and sets the outputs. `finish`, if it is set, runs when the result is there.
  virtual absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) = 0;
  // The first of the inputs group_size, group_key and instance_key.
  virtual int first_key_input() const { return 1; }

  // Sets the output, and makes it the memory for the result; if possible, where the other members can write to.
  static absl::Status AllocateResult(KernelContext& c, Collectives& collectives, const Shape& shape,
                                     CollectiveCall* call) {
    if (auto shared = collectives.AllocateShared(call->group_key, *call->device, c.output_type(0), shape)) {
      c.set_output(0, *shared);
      call->values = *std::move(shared);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(Tensor* const output, c.Allocate(0, shape));
    call->values = *output;
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckSize(int32_t group_size) {
    if (group_size > 0) return absl::OkStatus();
    return InvalidArgument("group_size must be positive integer but got ", group_size);
  }

  // The inputs communicator and group_assignment of V3 forms.
  absl::Status UseCommunicator(KernelContext& c, CollectiveCall* call) const {
    ASSIGN_OR_RETURN(const std::shared_ptr<Communicator> communicator, CommunicatorInput(c, 1));
    if (c.input(2).num_elements() != 0) return Unimplemented("Group assignments are not supported yet.");
    call->group_key = communicator->group_key;
    call->group_size = communicator->group_size;
    call->instance_key = communicator->NextInstance();
    call->expected_rank = communicator->rank;
    if (call->timeout == absl::InfiniteDuration()) call->timeout = communicator->timeout;
    return absl::OkStatus();
  }

  absl::StatusOr<CollectiveCall> MakeCall(KernelContext& c, Collectives& collectives, Finish* finish) {
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
    if (by_communicator_) {
      RETURN_IF_ERROR(UseCommunicator(c, &call));
    } else if (!by_attrs_) {
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
    RETURN_IF_ERROR(Prepare(c, collectives, &call, finish));
    return call;
  }

  const CollectiveKind kind_;
  const bool is_source_;
  bool by_attrs_ = false;
  bool by_communicator_ = false;
  int32_t group_size_ = 0;
  int32_t group_key_ = 0;
  int32_t instance_key_ = 0;
  absl::Duration timeout_ = absl::InfiniteDuration();
};

class ReduceKernel : public CollectiveKernel {
 public:
  explicit ReduceKernel(CollectiveKind kind = CollectiveKind::kReduce) : CollectiveKernel(kind) {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(CollectiveKernel::Init(init));
    const bool has_final = HasAttr(init.node().def(), "final_op");  // V3 has only `reduction`
    ASSIGN_OR_RETURN(const std::string merge, init.Attr<std::string>(has_final ? "merge_op" : "reduction"));
    std::string finish = "Id";
    if (has_final) {
      ASSIGN_OR_RETURN(finish, init.Attr<std::string>("final_op"));
    }
    ASSIGN_OR_RETURN(const DType dtype, init.Attr<DType>("T"));
    const auto offsets = init.Attr<std::vector<int64_t>>("subdiv_offsets");
    if (offsets.ok()) offsets_.assign(offsets->begin(), offsets->end());
    const auto subdivisions = init.Attr<int64_t>("max_subdivs_per_device");
    if (subdivisions.ok()) max_subdivisions_ = static_cast<int>(*subdivisions);
    return InitReduction(dtype, merge, finish);
  }

 protected:
  absl::Status InitReduction(DType dtype, const std::string& merge, const std::string& finish) {
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

  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    const Tensor input = c.input(0);
    const void* const from = input.raw();
    // The result lies where the other members write it. One copy instead of two: there and back.
    if (auto shared = collectives.AllocateShared(call->group_key, *call->device, input.dtype(), input.shape())) {
      std::memcpy(shared->raw(), from, input.TotalBytes());
      c.set_output(0, *shared);
      call->values = *std::move(shared);
    } else {
      ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, input.shape()));
      if (output->raw() != from && output->TotalBytes() > 0) std::memcpy(output->raw(), from, output->TotalBytes());
      call->values = *output;
    }
    SetReduction(call);
    return absl::OkStatus();
  }

  void SetReduction(CollectiveCall* call) const {
    call->subdivision_offsets = offsets_;
    call->max_subdivisions_per_device = max_subdivisions_;
    call->merge = merge_;
    call->finish = finish_;
    call->reduction = reduction_;
  }

 private:
  std::vector<int> offsets_;
  int max_subdivisions_ = -1;
  MergeFn merge_ = nullptr;
  FinishFn finish_ = nullptr;
  uint32_t reduction_ = 0;
};

// Where the elements of a bucket's inputs begin: at the next cache line each, so that outputs can be parts of the
// result.
int64_t PaddedElements(int64_t elements, DType wire) {
  const int64_t line = 64 / static_cast<int64_t>(ElementSize(wire));
  return (elements + line - 1) / line * line;
}

template <typename T>
void Compress(const float* from, T* to, int64_t n, float scale) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i] * scale);
}
template <typename T>
void Expand(const T* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

// All inputs are copied one after the other into the memory of one collective, converted to the wire type if that is
// another one. Without conversion, the outputs are parts of that memory.
class ReduceBucketKernel final : public ReduceKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    // ReduceKernel's would read attributes that this op does not have.
    RETURN_IF_ERROR(CollectiveKernel::Init(init));  // NOLINT(bugprone-parent-virtual-call)
    ASSIGN_OR_RETURN(const std::string merge, init.Attr<std::string>("merge_op"));
    ASSIGN_OR_RETURN(const std::string finish, init.Attr<std::string>("final_op"));
    ASSIGN_OR_RETURN(const DType dtype, init.Attr<DType>("T"));
    ASSIGN_OR_RETURN(wire_, init.Attr<DType>("Twire"));
    if (wire_ == dtype) return InitReduction(dtype, merge, finish);
    if (dtype != kFloat || (wire_ != kHalf && wire_ != kBfloat16) || merge != "Add") {
      return InvalidArgument(init.node().op(), ": ", dtype, " cannot travel as ", wire_, " to be combined by ", merge,
                             "; only sums of float can, as half or bfloat16");
    }
    compresses_ = true;
    mean_ = finish == "Div";
    return InitReduction(wire_, merge, "Id");
  }

 protected:
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    int64_t total = 0;
    for (int i = 0; i < c.num_inputs(); ++i) total += PaddedElements(c.input(i).num_elements(), wire_);
    std::optional<Tensor> values = collectives.AllocateShared(call->group_key, *call->device, wire_, Shape({total}));
    if (!values.has_value()) {
      ASSIGN_OR_RETURN(values, Tensor::Allocate(wire_, Shape({total})));
    }
    char* to = static_cast<char*>(values->raw());
    std::vector<Tensor> outputs;
    const auto size = static_cast<int64_t>(ElementSize(wire_));
    for (int i = 0; i < c.num_inputs(); ++i) {
      const Tensor input = c.input(i);
      const int64_t n = input.num_elements(), padded = PaddedElements(n, wire_);
      CopyIn(input, to, call->group_size);
      std::memset(to + n * size, 0, (padded - n) * size);
      if (compresses_) {
        ASSIGN_OR_RETURN(Tensor* const output, c.Allocate(i, input.shape()));
        outputs.push_back(*output);
      } else {
        c.set_output(i, Tensor(wire_, input.shape(), values->buffer(), to));
      }
      to += padded * size;
    }
    if (compresses_) {
      *finish = [wire = wire_, values = *values, outputs = std::move(outputs)] { CopyOut(wire, values, outputs); };
    }
    call->values = *std::move(values);
    SetReduction(call);
    return absl::OkStatus();
  }

 private:
  static void CopyOut(DType wire, const Tensor& values, const std::vector<Tensor>& outputs) {
    const char* from = static_cast<const char*>(values.raw());
    for (const Tensor& output : outputs) {
      const int64_t n = output.num_elements();
      auto* const to = static_cast<float*>(output.raw());
      if (wire == kHalf) {
        Expand(reinterpret_cast<const Half*>(from), to, n);
      } else {
        Expand(reinterpret_cast<const BFloat16*>(from), to, n);
      }
      from += PaddedElements(n, wire) * static_cast<int64_t>(ElementSize(wire));
    }
  }

  void CopyIn(const Tensor& input, char* to, int members) const {
    const int64_t n = input.num_elements();
    const float scale = mean_ ? 1.f / static_cast<float>(members) : 1.f;
    if (!compresses_) {
      if (n > 0) std::memcpy(to, input.raw(), input.TotalBytes());
    } else if (wire_ == kHalf) {
      Compress(input.data<float>(), reinterpret_cast<Half*>(to), n, scale);
    } else {
      Compress(input.data<float>(), reinterpret_cast<BFloat16*>(to), n, scale);
    }
  }

  DType wire_ = kInvalid;
  bool compresses_ = false;
  bool mean_ = false;
};

absl::Status BucketShapes(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.set_output(i, c.input(i));
  return absl::OkStatus();
}

class GatherKernel : public CollectiveKernel {
 public:
  GatherKernel() : CollectiveKernel(CollectiveKind::kGather) {}

 protected:
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    const Tensor& input = c.input(0);
    if (input.rank() == 0) return InvalidArgument("input should have rank > 0, recieved 0");
    Dims dims(input.shape().dims().begin(), input.shape().dims().end());
    if (__builtin_mul_overflow(dims[0], static_cast<int64_t>(call->group_size), &dims[0])) {
      return InvalidArgument("The inputs of ", call->group_size, " members, of shape ", input.shape(),
                             ", are more than a tensor can hold");
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    RETURN_IF_ERROR(AllocateResult(c, collectives, shape, call));
    call->own = input;
    return absl::OkStatus();
  }
};

// The members reduce everything, and each keeps its part.
class ReduceScatterKernel final : public ReduceKernel {
 public:
  ReduceScatterKernel() : ReduceKernel(CollectiveKind::kReduceScatter) {}

 protected:
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    const Tensor input = c.input(0);
    if (input.rank() == 0 || input.dim(0) % call->group_size != 0) {
      return InvalidArgument("The first dimension of the input must be a multiple of the group size ", call->group_size,
                             ", got shape ", input.shape());
    }
    Dims dims(input.shape().dims().begin(), input.shape().dims().end());
    dims[0] /= call->group_size;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    std::optional<Tensor> values =
        collectives.AllocateShared(call->group_key, *call->device, input.dtype(), input.shape());
    if (!values.has_value()) {
      ASSIGN_OR_RETURN(values, Tensor::Allocate(input.dtype(), input.shape()));
    }
    if (input.TotalBytes() > 0) std::memcpy(values->raw(), input.raw(), input.TotalBytes());
    ASSIGN_OR_RETURN(Tensor* const output, c.Allocate(0, shape));
    call->values = *std::move(values);
    call->own = *output;
    SetReduction(call);
    return absl::OkStatus();
  }
};

class AllToAllKernel final : public CollectiveKernel {
 public:
  AllToAllKernel() : CollectiveKernel(CollectiveKind::kAllToAll) {}

 protected:
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    const Tensor input = c.input(0);
    if (input.rank() == 0) return InvalidArgument("input to all-to-all should have rank > 0, received 0");
    if (input.dim(0) != call->group_size) {
      return InvalidArgument("input to all-to-all first dimension size (", input.dim(0),
                             ") must be the same as the group size (", call->group_size, ")");
    }
    ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(input.dtype(), input.shape()));
    c.set_output(0, output);
    call->values = std::move(output);
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
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
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
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
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
    return AllocateResult(c, collectives, *shape, call);
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

// The first dimension is divided by the number of members, which is not known before the step.
absl::Status ReduceScatterShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return shapes::Unknown(c);
  if (input.rank() == 0) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  Dims dims(input.dims().begin(), input.dims().end());
  dims[0] = PartialShape::kUnknown;
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

Op ReduceScatterV2() {
  Op op = Collective("CollectiveReduceScatterV2").Input("input: T").Output("data: T").Attr(kReduceT);
  KeyInputs(op).Input("ordering_token: Nordering_token * resource");
  Tokens(Hints(MergeAttrs(op))).Attr("max_subdivs_per_device: int = -1");
  return op.Shape(ReduceScatterShape).Kernel<ReduceScatterKernel>();
}

Op AllToAllV2() {
  Op op = Collective("CollectiveAllToAllV2").Input("input: T").Output("data: T").Attr(kReduceT);
  KeyInputs(op).Input("ordering_token: Nordering_token * resource");
  return Tokens(Hints(op)).Shape(shapes::LikeInput0).Kernel<AllToAllKernel>();
}

Op WithCommunicator(absl::string_view name) {
  return Collective(name)
      .Input("input: T")
      .Input("communicator: resource")
      .Input("group_assignment: int32")
      .Output("data: T")
      .Attr(kReduceT)
      .Shape(shapes::LikeInput0);
}

Op InitializeCommunicator() {
  Op op = Collective("CollectiveInitializeCommunicator")
              .Input("group_key: int32")
              .Input("rank: int32")
              .Input("group_size: int32")
              .Output("communicator: resource");
  return Hints(op).Shape(shapes::Scalar).Compute(ComputeInitializeCommunicator);
}

Op AssignGroupV2() {
  return Collective("CollectiveAssignGroupV2")
      .Input("group_assignment: int32")
      .Input("device_index: int32")
      .Input("base_key: int32")
      .Output("group_size: int32")
      .Output("group_key: int32")
      .Shape(shapes::Scalar)
      .Compute(ComputeAssignGroup);
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

Op ReduceBucket() {
  Op op =
      Collective("ThalwegCollectiveReduceBucket").Input("inputs: N * T").Output("outputs: N * T").Attr("N: int >= 1");
  op.Attr(kReduceT).Attr("Twire: {bfloat16, float, half, double, int32, int64}");
  return Hints(MergeAttrs(Keys(op))).Shape(BucketShapes).Kernel<ReduceBucketKernel>().NotDifferentiable();
}

const OpRegistration kCollectiveOps[] = {
    Reduce(),
    ReduceBucket(),
    Gather(),
    BcastSend(),
    BcastRecv(),
    ReduceV2(),
    GatherV2(),
    BcastSendV2(),
    BcastRecvV2(),
    ReduceScatterV2(),
    AllToAllV2(),
    WithCommunicator("CollectiveReduceV3")
        .Attr("reduction: {'Min', 'Max', 'Mul', 'Add'}")
        .Attr("timeout_seconds: float = 0")
        .Kernel<ReduceKernel>(),
    WithCommunicator("CollectiveAllToAllV3").Attr("timeout_seconds: float = 0").Kernel<AllToAllKernel>(),
    InitializeCommunicator(),
    AssignGroupV2(),
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

std::vector<Output> CollectiveReduceBucket(const Scope& s, const std::vector<Output>& inputs,
                                           const CollectiveOptions& options, const CollectiveReduceOptions& reduce,
                                           DType wire) {
  if (inputs.empty()) {
    s.Fail(InvalidArgument("CollectiveReduceBucket: there are no inputs"));
    return {};
  }
  if (wire == kInvalid) wire = RemoveRef(inputs[0].dtype());
  Node* const node = s.Add(
      "ThalwegCollectiveReduceBucket", {inputs},
      AttrsOf(options, {{"merge_op", NameOf(reduce.kind)}, {"final_op", reduce.mean ? "Div" : "Id"}, {"Twire", wire}}));
  std::vector<Output> outputs;
  for (int i = 0; node != nullptr && i < node->num_outputs(); ++i) outputs.emplace_back(node, i);
  return outputs;
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
