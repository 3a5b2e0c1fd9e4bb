// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <optional>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/ops/collective/collective_schema.h"
#include "thalweg/ops/collective/reduce_kernel.h"
#include "thalweg/ops/collective_ops.h"

namespace thalweg {
namespace collective {
namespace {

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
    Tensor values;
    if (auto shared = collectives.AllocateShared(call->group_key, *call->device, input.dtype(), input.shape())) {
      values = std::move(shared->values);
    } else {
      ASSIGN_OR_RETURN(values, Tensor::Allocate(input.dtype(), input.shape()));
    }
    if (input.TotalBytes() > 0) std::memcpy(values.raw(), input.raw(), input.TotalBytes());
    ASSIGN_OR_RETURN(Tensor* const output, c.Allocate(0, shape));
    call->values = std::move(values);
    call->own = *output;
    SetReduction(call);
    return absl::OkStatus();
  }
};

// The first dimension is divided by the number of members, if that is a constant.
absl::Status ReduceScatterShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return shapes::Unknown(c);
  if (input.rank() == 0) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  Dims dims(input.dims().begin(), input.dims().end());
  const std::optional<Tensor> members = c.Constant(1);
  const int64_t n = members.has_value() && members->shape().is_scalar() ? members->scalar<int32_t>() : 0;
  dims[0] = n > 0 && dims[0] >= 0 ? dims[0] / n : PartialShape::kUnknown;
  c.set_output(0, PartialShape(dims));
  return absl::OkStatus();
}

Op ReduceScatterV2() {
  Op op = Collective("CollectiveReduceScatterV2").Input("input: T").Output("data: T").Attr(kReduceT);
  KeyInputs(op).Input("ordering_token: Nordering_token * resource");
  Tokens(Hints(MergeAttrs(op))).Attr("max_subdivs_per_device: int = -1");
  return op.Shape(ReduceScatterShape).Kernel<ReduceScatterKernel>();
}

const OpRegistration kReduceScatterOp = ReduceScatterV2();

}  // namespace
}  // namespace collective

Output CollectiveReduceScatter(const Scope& s, Output input, const CollectiveOptions& options,
                               const CollectiveReduceOptions& reduce) {
  std::vector<OpInput> inputs = collective::WithKeyInputs(s, {input}, options);
  inputs.emplace_back(std::vector<Output>());  // no tokens
  return s.Add("CollectiveReduceScatterV2", std::move(inputs),
               collective::KeyInputAttrsOf(options, collective::ReduceAttrsOf(reduce)));
}

}  // namespace thalweg
