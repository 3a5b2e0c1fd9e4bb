// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/collective/collective_schema.h"
#include "thalweg/ops/collective/reduce_kernel.h"
#include "thalweg/ops/collective_ops.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace collective {
namespace {

using ReduceTypes = Types<float, double, Half, BFloat16, int32_t, int64_t>;

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

}  // namespace

absl::Status ReduceKernel::Init(const KernelInit& init) {
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
  return InitReduction(init, dtype, merge, finish);
}

absl::Status ReduceKernel::InitReduction(const KernelInit& init, DType dtype, const std::string& merge,
                                         const std::string& finish) {
  rank_order_ = init.Attr<bool>(kRankOrderAttr).value_or(false);
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

absl::Status ReduceKernel::Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) {
  const Tensor input = c.input(0);
  const void* const from = input.raw();
  // The result lies where the other members write it. One copy instead of two: there and back.
  if (auto shared = collectives.AllocateShared(call->group_key, *call->device, input.dtype(), input.shape())) {
    CopyOrLeave(input, 0, *shared, call);
    c.set_output(0, shared->values);
    call->values = std::move(shared->values);
  } else {
    ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, input.shape()));
    if (output->raw() != from && output->TotalBytes() > 0) std::memcpy(output->raw(), from, output->TotalBytes());
    call->values = *output;
  }
  SetReduction(call);
  return absl::OkStatus();
}

void ReduceKernel::CopyOrLeave(const Tensor& input, int64_t at, const SharedValues& to, CollectiveCall* call) {
  const int64_t n = input.num_elements(), size = static_cast<int64_t>(ElementSize(input.dtype()));
  const int64_t begin = std::clamp(to.own_begin - at, int64_t{0}, n), end = std::clamp(to.own_end - at, begin, n);
  const auto copy = [&](int64_t first, int64_t last) {
    if (first == last) return;
    std::memcpy(static_cast<char*>(to.values.raw()) + (at + first) * size,
                static_cast<const char*>(input.raw()) + first * size, (last - first) * size);
  };
  copy(0, begin);
  copy(end, n);
  if (begin < end) call->apart.push_back({at + begin, input.WithShape(Shape({n})).Rows(begin, end)});
}

void ReduceKernel::SetReduction(CollectiveCall* call) const {
  call->subdivision_offsets = offsets_;
  call->max_subdivisions_per_device = max_subdivisions_;
  call->merge = merge_;
  call->finish = finish_;
  call->reduction = reduction_;
  call->rank_order = rank_order_;
}

namespace {

Op Reduce() {
  Op op = Collective("CollectiveReduce").Input("input: T").Output("data: T").Attr(kReduceT);
  MergeAttrs(Keys(op)).Attr("subdiv_offsets: list(int)").Attr("wait_for: list(int) = []");
  return Hints(op).Shape(shapes::LikeInput0).Kernel<ReduceKernel>();
}

Op ReduceV2() {
  Op op = Collective("CollectiveReduceV2").Input("input: T").Output("data: T").Attr(kReduceT);
  KeyInputs(op).Input("ordering_token: Nordering_token * resource");
  Tokens(Hints(MergeAttrs(op))).Attr("max_subdivs_per_device: int = -1");
  return op.Shape(shapes::LikeInput0).Kernel<ReduceKernel>();
}

const OpRegistration kCollectiveReduceOps[] = {Reduce(), ReduceV2(),
                                               WithCommunicator("CollectiveReduceV3")
                                                   .Attr("reduction: {'Min', 'Max', 'Mul', 'Add'}")
                                                   .Attr("timeout_seconds: float = 0")
                                                   .Kernel<ReduceKernel>()};

}  // namespace
}  // namespace collective

Output CollectiveReduce(const Scope& s, Output input, const CollectiveOptions& options,
                        const CollectiveReduceOptions& reduce) {
  std::vector<AttrArg> attrs = collective::ReduceAttrsOf(reduce);
  if (options.group) {
    std::vector<OpInput> inputs = collective::WithKeyInputs(s, {input}, options);
    inputs.emplace_back(std::vector<Output>());  // no tokens
    return s.Add("CollectiveReduceV2", std::move(inputs), collective::KeyInputAttrsOf(options, std::move(attrs)));
  }
  attrs.emplace_back("subdiv_offsets", std::vector<int64_t>{});
  return s.Add("CollectiveReduce", {input}, collective::AttrsOf(options, std::move(attrs)));
}

}  // namespace thalweg
