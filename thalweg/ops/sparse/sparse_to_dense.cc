// SPDX-License-Identifier: Apache-2.0
// SparseToDense: a tensor of output_shape that is default_value everywhere but
// at the places of sparse_indices, where it is sparse_values (or the one value
// there is).
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

class SparseToDenseKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(validate_, init.Attr<bool>("validate_indices"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &indices = context.input(0), &output_shape = context.input(1), &values = context.input(2);
    if (indices.rank() > 2) {
      return InvalidArgument("sparse_indices should be a scalar, vector, or matrix, got shape ", indices.shape());
    }
    const int64_t count = indices.rank() > 0 ? indices.dim(0) : 1, rank = indices.rank() > 1 ? indices.dim(1) : 1;
    if (output_shape.rank() != 1)
      return InvalidArgument("output_shape must be rank 1, got shape ", output_shape.shape());
    if (output_shape.num_elements() != rank) {
      return InvalidArgument("output_shape has incorrect number of elements: ", output_shape.num_elements(),
                             " should be: ", rank);
    }
    if (values.rank() != 0 && (values.rank() != 1 || values.num_elements() != count)) {
      return InvalidArgument("sparse_values has incorrect shape ", values.shape(), ", should be [] or [", count, "]");
    }
    if (context.input(3).rank() != 0) return InvalidArgument("default_value should be a scalar.");
    Dims dims(rank);
    std::vector<int64_t> places(indices.num_elements());
    RETURN_IF_ERROR(Dispatch(IndexTypes(), indices.dtype(), [&]<typename I>() {
      std::copy_n(output_shape.data<I>(), rank, dims.begin());
      std::copy_n(indices.data<I>(), indices.num_elements(), places.begin());
      return absl::OkStatus();
    }));
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    RETURN_IF_ERROR(CheckSparseIndices(places, dims, validate_ ? SparseValue::kOrdered : SparseValue::kUnordered));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    RETURN_IF_ERROR(FillElements(context, context.input(3), out));
    const Dims strides = RowMajorStrides(dims);
    return DispatchBySize(out->dtype(), [&]<typename T>() {
      const T* const from = ElementData<T>(values);
      T* const to = MutableElementData<T>(out);
      // Places in a scalar may be many; the last value counts.
      for (int64_t i = rank == 0 ? std::max<int64_t>(0, count - 1) : 0; i < count; ++i) {
        int64_t place = 0;
        for (int64_t d = 0; d < rank; ++d) place += places[i * rank + d] * strides[d];
        to[place] = from[values.rank() == 0 ? 0 : i];
      }
      return absl::OkStatus();
    });
  }

 private:
  bool validate_ = true;
};

absl::Status SparseToDenseShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(1));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// A single value goes to many places, and has the sum of their gradients; the
// default has that of all places where no value is.
absl::Status SparseToDenseGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const PartialShape& indices = g.input(0).shape();
  const bool is_matrix = !indices.has_rank() || indices.rank() == 2;
  const Output places = is_matrix ? g.input(0) : Reshape(s, g.input(0), {-1, 1});
  const Output at_values = GatherNd(s, g.dy(), places);
  const PartialShape& values = g.input(2).shape();
  g.set_dx(2, values.has_rank() && values.rank() == 0 ? ReduceSum(s, at_values) : at_values);
  g.set_dx(3, Sub(s, ReduceSum(s, g.dy()), ReduceSum(s, at_values)));
  return absl::OkStatus();
}

const OpRegistration kSparseToDense = Op("SparseToDense")
                                          .Input("sparse_indices: Tindices")
                                          .Input("output_shape: Tindices")
                                          .Input("sparse_values: T")
                                          .Input("default_value: T")
                                          .Output("dense: T")
                                          .Attr("validate_indices: bool = true")
                                          .Attr("T: type")
                                          .Attr("Tindices: {int32, int64}")
                                          .Shape(SparseToDenseShape)
                                          .Kernel<SparseToDenseKernel>()
                                          .Gradient(SparseToDenseGradient);

}  // namespace
}  // namespace thalweg
