// SPDX-License-Identifier: Apache-2.0
// OneHot: a new dimension of size `depth` with on_value at the place that the
// index names and off_value elsewhere. An index out of range names no place.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// Sets n elements to `value`: most often zero, which memset knows best.
template <typename T>
void FillRange(const T& value, int64_t n, T* to) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    if (value == T()) {
      memset(static_cast<void*>(to), 0, n * sizeof(T));
      return;
    }
  }
  std::fill_n(to, n, value);
}

class OneHotKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(axis_, init.Attr<int64_t>("axis"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& indices = c.input(0);
    const int rank = indices.rank();
    if (axis_ != -1 && (axis_ < 0 || axis_ > rank)) {
      return InvalidArgument("Expected axis to be -1 or between [0, ", rank + 1, ").  But received: ", axis_);
    }
    static constexpr const char* kNames[] = {"depth", "on_value", "off_value"};
    for (int i = 1; i <= 3; ++i) {
      if (c.input(i).rank() == 0) continue;
      return InvalidArgument(kNames[i - 1], " must be a scalar, but got: ", c.input(i).shape());
    }
    const int64_t depth = *c.input(1).data<int32_t>();
    if (depth < 0) return InvalidArgument("depth must be non-negative, got: ", depth);
    const int axis = axis_ == -1 ? rank : static_cast<int>(axis_);
    Dims dims(indices.shape().dims().begin(), indices.shape().dims().end());
    dims.insert(dims.begin() + axis, depth);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const int64_t inner = indices.shape().Product(axis, rank);
    return DispatchBySize(out->dtype(), [&]<typename T>() {
      return Dispatch(Types<int32_t, int64_t, uint8_t, int8_t>(), indices.dtype(), [&]<typename Index>() {
        if (inner == 1) {
          MarkInRows<T>(c, indices.data<Index>(), indices.num_elements(), depth, MutableElementData<T>(out));
        } else {
          CompareInRows<T>(c, indices.data<Index>(), indices.num_elements() / inner, depth, inner,
                           MutableElementData<T>(out));
        }
        return absl::OkStatus();
      });
    });
  }

 private:
  // Both write the result once, in order, and share it between threads.
  //
  // An index is a row of `depth`.
  template <typename T, typename Index>
  static void MarkInRows(KernelContext& c, const Index* index, int64_t count, int64_t depth, T* to) {
    const T on = *ElementData<T>(c.input(2)), off = *ElementData<T>(c.input(3));
    c.ParallelFor(count, 4 + depth * sizeof(T) * 0.1, [&](int64_t begin, int64_t end) {
      FillRange(off, (end - begin) * depth, to + begin * depth);
      for (int64_t k = begin; k < end; ++k) {
        if (index[k] >= 0 && index[k] < depth) to[k * depth + index[k]] = on;
      }
    });
  }

  // `inner` indices are as many columns of `depth` rows.
  template <typename T, typename Index>
  static void CompareInRows(KernelContext& c, const Index* index, int64_t outer, int64_t depth, int64_t inner, T* to) {
    const T on = *ElementData<T>(c.input(2)), off = *ElementData<T>(c.input(3));
    c.ParallelFor(outer * depth, 2 + static_cast<double>(inner), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const Index* const x = index + row / depth * inner;
        const int64_t here = row % depth;
        for (int64_t i = 0; i < inner; ++i) to[row * inner + i] = x[i] == here ? on : off;
      }
    });
  }

  int64_t axis_ = -1;
};

absl::Status OneHotShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t axis, c.Attr<int64_t>("axis"));
  for (int i = 1; i <= 3; ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  const PartialShape& indices = c.input(0);
  if (axis < -1) return InvalidArgument("axis must be >= -1, got ", axis);
  if (!indices.has_rank()) return absl::OkStatus();
  if (axis > indices.rank()) return InvalidArgument("axis must be at most ", indices.rank(), ", got ", axis);
  const std::optional<Dims> depth = ConstantIntegers(c, 1);
  if (depth.has_value() && (*depth)[0] < 0) return InvalidArgument("depth must be non-negative, got: ", (*depth)[0]);
  Dims dims(indices.dims().begin(), indices.dims().end());
  dims.insert(axis == -1 ? dims.end() : dims.begin() + axis, depth.has_value() ? (*depth)[0] : PartialShape::kUnknown);
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

const OpRegistration kOneHot = Op("OneHot")
                                   .Input("indices: TI")
                                   .Input("depth: int32")
                                   .Input("on_value: T")
                                   .Input("off_value: T")
                                   .Output("output: T")
                                   .Attr("axis: int = -1")
                                   .Attr("T: type")
                                   .Attr("TI: {uint8, int8, int32, int64} = DT_INT64")
                                   .Shape(OneHotShape)
                                   .Kernel<OneHotKernel>()
                                   .NotDifferentiable();

}  // namespace

Output OneHot(const Scope& s, Output indices, const IntArg& depth, const ScalarArg& on_value,
              const ScalarArg& off_value, int axis) {
  return s.Add(
      "OneHot",
      {indices, depth.AsTensor(s, "depth"), on_value.AsTensor(s, "on_value"), off_value.AsTensor(s, "off_value")},
      {{"axis", axis}});
}

}  // namespace thalweg
