// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/status.h"
#include "thalweg/ops/collective/collective_kernel.h"
#include "thalweg/ops/collective/collective_schema.h"
#include "thalweg/ops/collective_ops.h"

namespace thalweg {
namespace collective {
namespace {

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

constexpr char kGatherT[] = "T: {float, half, double, int32, int64}";

Op Gather() {
  Op op = Collective("CollectiveGather").Input("input: T").Output("data: T").Attr(kGatherT);
  return Hints(Keys(op).Attr("shape: shape")).Shape(GatherShape).Kernel<GatherKernel>();
}

Op GatherV2() {
  Op op = Collective("CollectiveGatherV2").Input("input: T").Output("data: T").Attr(kGatherT);
  KeyInputs(op).Input("ordering_token: Nordering_token * resource");
  return Tokens(Hints(op)).Shape(GatherShape).Kernel<GatherKernel>();
}

const OpRegistration kCollectiveGatherOps[] = {Gather(), GatherV2()};

}  // namespace
}  // namespace collective

Output CollectiveGather(const Scope& s, Output input, const CollectiveOptions& options) {
  return s.Add("CollectiveGather", {input}, collective::AttrsOf(options, {{"shape", PartialShape()}}));
}

}  // namespace thalweg
