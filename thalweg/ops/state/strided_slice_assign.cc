// SPDX-License-Identifier: Apache-2.0
// StridedSliceAssign and ResourceStridedSliceAssign write to a slice of a
// variable: NumPy's x[a:b:c] = value.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array/strided_slice.h"
#include "thalweg/ops/state/variable_update.h"

namespace thalweg {
namespace {

class StridedSliceAssignKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(masks_, SliceMasks(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const HeldVariable held, FindVariable(c, 0));
    const Tensor& value = c.input(4);
    RETURN_IF_ERROR(held->Update([&](Tensor& target) -> absl::Status {
      RETURN_IF_ERROR(CheckInitialized(*held, target));
      if (target.dtype() != value.dtype()) {
        return InvalidArgument("l-value dtype ", target.dtype(), " does not match r-value dtype ", value.dtype());
      }
      ASSIGN_OR_RETURN(const SliceBlock block,
                       ResolveSlice(target.shape().dims(), c.input(1), c.input(2), c.input(3), masks_));
      ASSIGN_OR_RETURN(const Tensor expanded, ExpandSliceValue(c, block, value));
      RETURN_IF_ERROR(MakeWritable(target));
      return CopyStrided(c, block.size, expanded, {.strides = RowMajorStrides(block.size)}, &target,
                         block.Place(target.shape().dims()));
    }));
    if (c.num_outputs() > 0) c.set_variable(0, held.variable);
    return absl::OkStatus();
  }

 private:
  StridedSliceOptions masks_;
};

Op WithSliceAttrs(Op op) {
  return op.Attr("T: type")
      .Attr("Index: {int32, int64}")
      .Attr("begin_mask: int = 0")
      .Attr("end_mask: int = 0")
      .Attr("ellipsis_mask: int = 0")
      .Attr("new_axis_mask: int = 0")
      .Attr("shrink_axis_mask: int = 0");
}

const OpRegistration kStridedSliceAssignOps[] = {
    WithSliceAttrs(Op("StridedSliceAssign")
                       .Input("ref: Ref(T)")
                       .Input("begin: Index")
                       .Input("end: Index")
                       .Input("strides: Index")
                       .Input("value: T")
                       .Output("output_ref: Ref(T)"))
        .Shape(shapes::LikeInput0)
        .Kernel<StridedSliceAssignKernel>(),
    WithSliceAttrs(Op("ResourceStridedSliceAssign")
                       .Input("ref: resource")
                       .Input("begin: Index")
                       .Input("end: Index")
                       .Input("strides: Index")
                       .Input("value: T"))
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<StridedSliceAssignKernel>(),
};

}  // namespace

Output StridedSliceAssign(const Scope& s, Output ref, Output begin, Output end, Output strides, Output value,
                          const StridedSliceOptions& options) {
  const bool handle = ref.node != nullptr && ref.dtype() == kResource;
  return s.Add(handle ? "ResourceStridedSliceAssign" : "StridedSliceAssign", {ref, begin, end, strides, value},
               MaskAttrs(options));
}

}  // namespace thalweg
