// SPDX-License-Identifier: Apache-2.0
// ResourceGather: rows of a variable, without reading the whole:
//
//   output[i, ..., ...] = variable[indices[i, ...], ...]
//
// With batch_dims b, the first b dimensions of the variable and of the indices
// go together and rows are those of dimension b.
#include <algorithm>
#include <cstring>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/state/scatter_check.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

// Moves `count` rows of `width` elements, of which `batches` groups each take
// theirs from their own `rows` rows.
template <typename T>
void GatherRows(KernelContext& context, const T* params, const int64_t* indices, int64_t batches, int64_t rows,
                int64_t count, int64_t width, T* out) {
  context.ParallelFor(batches * count, 5 + 0.1 * width, [&](int64_t begin, int64_t end) {
    constexpr int64_t kAhead = 8;
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end) __builtin_prefetch(params + ((i + kAhead) / count * rows + indices[i + kAhead]) * width);
      const T* const from = params + (i / count * rows + indices[i]) * width;
      std::copy(from, from + width, out + i * width);
    }
  });
}

class ResourceGatherKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(batch_dims_, init.Attr<int64_t>("batch_dims"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const HeldVariable variable, FindVariable(context, 0));
    return variable->Inspect([&](const Tensor& params) -> absl::Status {
      RETURN_IF_ERROR(CheckInitialized(*variable, params));
      return Gather(context, params);
    });
  }

 private:
  absl::Status Gather(KernelContext& context, const Tensor& params) const {
    const Tensor& indices = context.input(1);
    if (params.dtype() != context.output_type(0)) {
      return InvalidArgument("variable is of type ", params.dtype(), ", expected ", context.output_type(0));
    }
    const int64_t batch = batch_dims_ < 0 ? batch_dims_ + indices.rank() : batch_dims_;
    RETURN_IF_ERROR(Check(params.shape(), indices.shape(), batch));
    const int axis = static_cast<int>(batch);
    ASSIGN_OR_RETURN(const Tensor rows, CheckedRows(context, indices, params.dim(axis)));
    Dims dims(indices.shape().dims().begin(), indices.shape().dims().end());
    for (int d = axis + 1; d < params.rank(); ++d) dims.push_back(params.dim(d));
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const int64_t batches = params.shape().Product(0, axis);
    return Dispatch(AllTypes(), params.dtype(), [&]<typename T>() {
      GatherRows<T>(context, params.data<T>(), rows.data<int64_t>(), batches, params.dim(axis),
                    rows.num_elements() / batches, params.shape().Product(axis + 1, params.rank()),
                    out->mutable_data<T>());
      return absl::OkStatus();
    });
  }

  static absl::Status Check(const Shape& params, const Shape& indices, int64_t batch) {
    if (params.rank() < 1) return InvalidArgument("params must be at least 1 dimensional");
    if (batch < 0 || batch > indices.rank() || batch >= params.rank()) {
      return InvalidArgument("batch_dims (", batch, ") must be in [0, ", std::min(indices.rank(), params.rank() - 1),
                             "]");
    }
    for (int d = 0; d < batch; ++d) {
      if (params.dim(d) != indices.dim(d)) {
        return InvalidArgument("params.shape[", d, "]: ", params.dim(d), " should be equal to indices.shape[", d,
                               "]: ", indices.dim(d));
      }
    }
    return absl::OkStatus();
  }

  int64_t batch_dims_ = 0;
};

absl::Status GatherShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t batch, c.Attr<int64_t>("batch_dims"));
  const PartialShape params = VariableShapeOf(c, 0);
  const PartialShape& indices = c.input(1);
  if (params.rank() == 0) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  if (!params.has_rank() || !indices.has_rank() || batch < 0 || batch >= params.rank()) return shapes::Unknown(c);
  Dims dims(indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), params.dims().begin() + batch + 1, params.dims().end());
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

// The rows that were used, and where they belong.
absl::Status ResourceGatherGradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const int64_t batch, c.Attr<int64_t>("batch_dims"));
  if (batch != 0) return Unimplemented("gradient of ResourceGather with batch_dims ", batch);
  const Scope& s = c.scope();
  const auto vector = [&](std::initializer_list<int32_t> v) {
    return Output(s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Vector<int32_t>(v)}}));
  };
  const Output shape = VariableShape(s, c.input(0));
  const Output tail = s.Add("StridedSlice", {shape, vector({1}), vector({0}), vector({1})}, {{"end_mask", 1}});
  const Output axis = s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(0)}});
  const Output values_shape = s.Add("ConcatV2", {std::vector<Output>{vector({-1}), tail}, axis});
  const Output values = s.Add("Reshape", {c.dy(0), values_shape});
  const Output rows = s.Add("Reshape", {c.input(1), vector({-1})});
  c.set_dx(0, Gradient(values, rows, shape));
  return absl::OkStatus();
}

const OpRegistration kResourceGatherOps[] = {
    Op("ResourceGather")
        .Input("resource: resource")
        .Input("indices: Tindices")
        .Output("output: dtype")
        .Attr("batch_dims: int = 0")
        .Attr("validate_indices: bool = true")
        .Attr("dtype: type")
        .Attr("Tindices: {int32, int64}")
        .Stateful()
        .Shape(GatherShape)
        .Kernel<ResourceGatherKernel>()
        .Gradient(ResourceGatherGradient),
};

}  // namespace

Output ResourceGather(const Scope& s, Output resource, Output indices, DType dtype) {
  return s.Add("ResourceGather", {resource, indices}, {{"dtype", dtype}});
}

}  // namespace thalweg
