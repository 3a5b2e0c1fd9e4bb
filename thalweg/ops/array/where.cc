// SPDX-License-Identifier: Apache-2.0
// Where: the indices of the elements that are not zero, one per row, in order.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

// Writes the index of every element that is not zero.
template <typename T>
void WriteIndices(const Tensor& input, int64_t* to) {
  const T* const values = input.data<T>();
  const int rank = input.rank();
  const Dims strides = RowMajorStrides(input.shape().dims());
  for (int64_t i = 0; i < input.num_elements(); ++i) {
    if (values[i] == T(0)) continue;
    int64_t rest = i;
    for (int d = 0; d + 1 < rank; ++d) {
      *to++ = rest / strides[d];
      rest %= strides[d];
    }
    *to++ = rest;
  }
}

absl::Status ComputeWhere(KernelContext& c) {
  const Tensor& input = c.input(0);
  if (input.rank() == 0) return InvalidArgument("WhereOp : Unhandled input dimensions: 0");
  return Dispatch(PodTypes(), input.dtype(), [&]<typename T>() -> absl::Status {
    int64_t count = 0;
    for (const T& value : input.flat<T>()) count += value != T(0) ? 1 : 0;
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({count, input.rank()})));
    WriteIndices<T>(input, out->mutable_data<int64_t>());
    return absl::OkStatus();
  });
}

absl::Status WhereShape(ShapeContext& c) {
  c.set_output(0, {PartialShape::kUnknown, c.input(0).rank()});  // -1 if the rank is unknown
  return absl::OkStatus();
}

const OpRegistration kWhere = Op("Where")
                                  .Input("input: T")
                                  .Output("index: int64")
                                  .Attr("T: {numbertype, bool} = DT_BOOL")
                                  .Shape(WhereShape)
                                  .Compute(ComputeWhere)
                                  .NotDifferentiable();

}  // namespace

Output Where(const Scope& s, Output input) { return s.Add("Where", {input}); }

}  // namespace thalweg
