// SPDX-License-Identifier: Apache-2.0
// LowerBound and UpperBound: for every value, where in its sorted row of
// sorted_inputs it would be inserted, before or after its equals. NthElement:
// the element that sorting each row (the last dimension) would put at place n.
#include <algorithm>
#include <limits>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

class BoundKernel : public Kernel {
 public:
  explicit BoundKernel(bool upper) : upper_(upper) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &sorted = context.input(0), &values = context.input(1);
    for (const Tensor* t : {&sorted, &values}) {
      if (t->rank() != 2) {
        return InvalidArgument("Shape must be rank 2 but is rank ", t->rank(), " for `",
                               t == &sorted ? "sorted_inputs" : "values", "` argument");
      }
    }
    if (sorted.dim(0) != values.dim(0)) {
      return InvalidArgument("Leading dim_size of both tensors must match.");
    }
    if (context.output_type(0) == kInt32 && sorted.dim(1) >= std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("trailing dim_size must less than INT_MAX for int32 output type, was ", sorted.dim(1));
    }
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, values.shape()));
    return Dispatch(RealTypes(), sorted.dtype(), [&]<typename T>() {
      for (int64_t i = 0; i < values.num_elements(); ++i) {
        const T* const begin = sorted.data<T>() + i / values.dim(1) * sorted.dim(1);
        const T* const end = begin + sorted.dim(1);
        const T value = values.data<T>()[i];
        const int64_t place =
            (upper_ ? std::upper_bound(begin, end, value) : std::lower_bound(begin, end, value)) - begin;
        if (out->dtype() == kInt64) {
          out->mutable_data<int64_t>()[i] = place;
        } else {
          out->mutable_data<int32_t>()[i] = static_cast<int32_t>(place);
        }
      }
      return absl::OkStatus();
    });
  }

 private:
  const bool upper_;
};

absl::Status BoundShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 2).status());
  ASSIGN_OR_RETURN(PartialShape values, c.WithRank(1, 2));
  c.set_output(0, std::move(values));
  return absl::OkStatus();
}

class NthElementKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(reverse_, init.Attr<bool>("reverse"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    if (context.input(1).rank() != 0) {
      return InvalidArgument("N must be scalar but has rank ", context.input(1).rank());
    }
    int64_t n = context.input(1).scalar<int32_t>();
    if (n < 0) return InvalidArgument("n must be non-negative but is ", n);
    if (x.rank() < 1) return InvalidArgument("Input must be at least rank 1 but is rank ", x.rank());
    const int64_t width = x.dim(x.rank() - 1);
    if (width <= n) return InvalidArgument("Input must have last dimension > n = ", n);
    if (reverse_) n = width - n - 1;
    Shape shape = x.shape();
    shape.RemoveDim(x.rank() - 1);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    return Dispatch(RealTypes(), x.dtype(), [&]<typename T>() {
      context.ParallelFor(shape.num_elements(), 5.0 * static_cast<double>(width), [&](int64_t begin, int64_t end) {
        std::vector<T> row(width);
        for (int64_t r = begin; r < end; ++r) {
          std::copy_n(x.data<T>() + r * width, width, row.begin());
          std::nth_element(row.begin(), row.begin() + n, row.end());
          out->mutable_data<T>()[r] = row[n];
        }
      });
      return absl::OkStatus();
    });
  }

 private:
  bool reverse_ = false;
};

absl::Status NthElementShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(1));
  const PartialShape& x = c.input(0);
  if (!x.has_rank()) return absl::OkStatus();
  if (x.rank() < 1) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  c.set_output(0, PartialShape(Dims(x.dims().begin(), x.dims().end() - 1)));
  return absl::OkStatus();
}

Op Bound(const char* name) {
  return Op(name)
      .Input("sorted_inputs: T")
      .Input("values: T")
      .Output("output: out_type")
      .Attr("T: type")
      .Attr("out_type: {int32, int64} = DT_INT32")
      .Shape(BoundShape)
      .NotDifferentiable();
}

const OpRegistration kSearchSortedOps[] = {
    Bound("LowerBound").Kernel<BoundKernel>(false),
    Bound("UpperBound").Kernel<BoundKernel>(true),
    Op("NthElement")
        .Input("input: T")
        .Input("n: int32")
        .Output("values: T")
        .Attr("reverse: bool = false")
        .Attr("T: realnumbertype")
        .Shape(NthElementShape)
        .Kernel<NthElementKernel>(),
};

}  // namespace
}  // namespace thalweg
