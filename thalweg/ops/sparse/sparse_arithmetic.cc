// SPDX-License-Identifier: Apache-2.0
// Arithmetic of sparse tensors with each other (SparseAdd, SparseSparseMaximum,
// SparseSparseMinimum) and with dense ones (SparseTensorDenseAdd,
// SparseDenseCwiseAdd, ...Mul, ...Div). Elements that are not there are 0.
#include <algorithm>
#include <complex>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

// Half and BFloat16 as float, others as they are.
template <typename T>
auto Wide(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<float>(x);
  } else {
    return x;
  }
}

// -1, 0 or 1: the order of two places.
int Compare(const int64_t* a, const int64_t* b, int rank) {
  for (int d = 0; d < rank; ++d) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}

// The union of the indices of a and b, in order, and the element of each at every index; -1 if
// there is none. REQUIRES: both are in order.
struct Union {
  std::vector<int64_t> a, b;
};
Union UnionOf(const SparseValue& a, const SparseValue& b) {
  Union u;
  int64_t i = 0, j = 0;
  while (i < a.count() || j < b.count()) {
    const int order = i == a.count() ? 1 : j == b.count() ? -1 : Compare(a.row(i), b.row(j), a.rank());
    u.a.push_back(order <= 0 ? i++ : -1);
    u.b.push_back(order >= 0 ? j++ : -1);
  }
  return u;
}

absl::StatusOr<std::pair<SparseValue, SparseValue>> ReadPair(KernelContext& context) {
  ASSIGN_OR_RETURN(SparseValue a,
                   SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnordered));
  ASSIGN_OR_RETURN(SparseValue b,
                   SparseValue::Make(context.input(3), context.input(4), context.input(5), SparseValue::kUnordered));
  if (a.dims != b.dims) {
    return InvalidArgument("Operands' shapes do not match: got ", PartialShape(a.dims), " and ", PartialShape(b.dims));
  }
  return std::pair(std::move(a), std::move(b));
}

// Sets outputs 0 and 1 to places of the union and the values there.
template <typename T>
absl::Status SetUnion(KernelContext& context, const SparseValue& a, const SparseValue& b, const Union& u,
                      const std::vector<int64_t>& kept, const std::vector<T>& values) {
  const int64_t count = static_cast<int64_t>(kept.size()), rank = a.rank();
  ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(0, Shape({count, rank})));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(1, Shape({count})));
  for (int64_t k = 0; k < count; ++k) {
    const int64_t i = kept[k];
    std::copy_n(u.a[i] >= 0 ? a.row(u.a[i]) : b.row(u.b[i]), rank, indices->mutable_data<int64_t>() + k * rank);
    out->mutable_data<T>()[k] = values[i];
  }
  return absl::OkStatus();
}

// Without sums that are smaller than `thresh`.
absl::Status SparseAdd(KernelContext& context) {
  ASSIGN_OR_RETURN(const auto pair, ReadPair(context));
  const auto& [a, b] = pair;
  const Tensor& thresh = context.input(6);
  if (thresh.rank() != 0)
    return InvalidArgument("The magnitude threshold must be a scalar: got shape ", thresh.shape());
  double limit = 0;
  RETURN_IF_ERROR(Dispatch(RealTypes(), thresh.dtype(), [&]<typename R>() {
    limit = static_cast<double>(Wide(thresh.scalar<R>()));
    return absl::OkStatus();
  }));
  const Union u = UnionOf(a, b);
  RETURN_IF_ERROR(Dispatch(NumberTypes(), a.values.dtype(), [&]<typename T>() {
    std::vector<T> sums(u.a.size());
    std::vector<int64_t> kept;
    for (size_t i = 0; i < sums.size(); ++i) {
      const T x = u.a[i] >= 0 ? pair.first.values.data<T>()[u.a[i]] : T(0);
      const T y = u.b[i] >= 0 ? pair.second.values.data<T>()[u.b[i]] : T(0);
      sums[i] = SumOf(x, y);
      const bool both = u.a[i] >= 0 && u.b[i] >= 0;  // drop only sums that are below the threshold, not single elements
      if (!both || limit <= static_cast<double>(std::abs(std::complex<double>(Wide(sums[i]))))) {
        kept.push_back(static_cast<int64_t>(i));
      }
    }
    return SetUnion<T>(context, pair.first, pair.second, u, kept, sums);
  }));
  ASSIGN_OR_RETURN(Tensor * shape, context.Allocate(2, Shape({a.rank()})));
  std::copy(a.dims.begin(), a.dims.end(), shape->mutable_data<int64_t>());
  return absl::OkStatus();
}

// The gradient of each element of a and b is that of the sum at its place.
absl::Status SparseAddGrad(KernelContext& context) {
  const Tensor &grad = context.input(0), &sum = context.input(3);
  if (grad.rank() != 1) return InvalidArgument("Input backprop_val_grad should be a vector: ", grad.shape());
  for (int i = 3; i > 0; --i) {  // the sum first: the others are held against it
    if (context.input(i).rank() != 2) {
      return InvalidArgument("Input indices should be matrices but received shape: ", context.input(i).shape());
    }
    if (context.input(i).dim(1) != sum.dim(1)) {
      return InvalidArgument("The densities of the indices should match: ", context.input(i).shape(), " and ",
                             sum.shape());
    }
  }
  if (grad.num_elements() != sum.dim(0)) {
    return InvalidArgument("# elements of backprop_val_grad and # rows of sum_indices should match: got ",
                           grad.num_elements(), " and ", sum.dim(0));
  }
  const int rank = static_cast<int>(sum.dim(1));
  for (int o = 0; o < 2; ++o) {
    const Tensor& places = context.input(1 + o);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(o, Shape({places.dim(0)})));
    ClearElements(out);
    RETURN_IF_ERROR(DispatchBySize(grad.dtype(), [&]<typename T>() {
      int64_t k = 0;
      for (int64_t i = 0; i < places.dim(0); ++i) {
        const int64_t* const place = places.data<int64_t>() + i * rank;
        while (k < sum.dim(0) && Compare(sum.data<int64_t>() + k * rank, place, rank) < 0) ++k;
        if (k < sum.dim(0) && Compare(sum.data<int64_t>() + k * rank, place, rank) == 0) {
          MutableElementData<T>(out)[i] = ElementData<T>(grad)[k];
        }
      }
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

class ExtremeKernel : public Kernel {
 public:
  explicit ExtremeKernel(bool maximum) : maximum_(maximum) {}
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const auto pair, ReadPair(context));
    const Union u = UnionOf(pair.first, pair.second);
    return Dispatch(RealTypes(), pair.first.values.dtype(), [&]<typename T>() {
      std::vector<T> values(u.a.size());
      std::vector<int64_t> kept(u.a.size());
      for (size_t i = 0; i < values.size(); ++i) {
        const T x = u.a[i] >= 0 ? pair.first.values.data<T>()[u.a[i]] : T(0);
        const T y = u.b[i] >= 0 ? pair.second.values.data<T>()[u.b[i]] : T(0);
        values[i] = (x < y) == maximum_ ? y : x;
        kept[i] = static_cast<int64_t>(i);
      }
      return SetUnion<T>(context, pair.first, pair.second, u, kept, values);
    });
  }

 private:
  const bool maximum_;
};

// ---- With dense tensors ----

absl::Status SparseTensorDenseAdd(KernelContext& context) {
  const Tensor &indices = context.input(0), &values = context.input(1), &shape = context.input(2),
               &b = context.input(3);
  if (indices.rank() != 2)
    return InvalidArgument("Input a_indices should be a matrix but received shape: ", indices.shape());
  if (values.rank() != 1 || shape.rank() != 1) {
    return InvalidArgument("Inputs a_values and a_shape should be vectors but received shapes: ", values.shape(),
                           " and ", shape.shape());
  }
  if (values.dim(0) != indices.dim(0)) {
    return InvalidArgument("Dimensions ", indices.dim(0), " and ", values.dim(0),
                           " are not compatible: a_indices and a_values must have as many rows");
  }
  if (shape.num_elements() != indices.dim(1)) {
    return InvalidArgument("Dimensions ", indices.dim(1), " and ", shape.num_elements(),
                           " are not compatible: a_indices must have a column for each element of a_shape");
  }
  if (shape.num_elements() != b.rank()) {
    return InvalidArgument("Two operands have different ranks; received: ", shape.num_elements(), " and ", b.rank());
  }
  const int rank = b.rank();
  const Dims strides = RowMajorStrides(b.shape().dims());
  std::vector<int64_t> places(indices.dim(0));
  RETURN_IF_ERROR(Dispatch(IndexTypes(), indices.dtype(), [&]<typename I>() -> absl::Status {
    for (int d = 0; d < rank; ++d) {
      if (static_cast<int64_t>(shape.data<I>()[d]) != b.dim(d)) {
        return InvalidArgument("Dimension ", d, " does not equal (no broadcasting is supported): sparse side ",
                               shape.data<I>()[d], " vs dense side ", b.dim(d));
      }
    }
    for (size_t i = 0; i < places.size(); ++i) {
      for (int d = 0; d < rank; ++d) {
        const int64_t at = indices.data<I>()[i * rank + d];
        if (at < 0 || at >= b.dim(d)) {
          return InvalidArgument("Sparse tensor has some invalid index on dimension ", d);
        }
        places[i] += at * strides[d];
      }
    }
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, b.shape()));
  return Dispatch(NumberTypes(), b.dtype(), [&]<typename T>() {
    std::copy_n(b.data<T>(), b.num_elements(), out->mutable_data<T>());
    for (size_t i = 0; i < places.size(); ++i) {
      T& to = out->mutable_data<T>()[places[i]];
      to = SumOf(to, values.data<T>()[i]);
    }
    return absl::OkStatus();
  });
}

// The dense side repeats where it has one element or lacks dimensions.
class CwiseKernel : public Kernel {
 public:
  enum Form { kAdd, kMul, kDiv };
  explicit CwiseKernel(Form form) : form_(form) {}

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const SparseValue x,
                     SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnordered));
    const Tensor& dense = context.input(3);
    const int rank = x.rank(), lead = rank - dense.rank();
    bool fits = lead >= 0;
    Dims strides(rank, 0);
    const Dims dense_strides = RowMajorStrides(dense.shape().dims());
    for (int d = 0; fits && d < dense.rank(); ++d) {
      fits = dense.dim(d) == x.dims[lead + d] || dense.dim(d) == 1;
      if (dense.dim(d) != 1) strides[lead + d] = dense_strides[d];
    }
    if (!fits) {
      return InvalidArgument("SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: ",
                             PartialShape(x.dims), " vs. ", dense.shape());
    }
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape({x.count()})));
    return Dispatch(NumberTypes(), dense.dtype(), [&]<typename T>() -> absl::Status {
      for (int64_t i = 0; i < x.count(); ++i) {
        int64_t place = 0;
        for (int d = 0; d < rank; ++d) place += x.row(i)[d] * strides[d];
        const auto a = Wide(x.values.data<T>()[i]), b = Wide(dense.data<T>()[place]);
        if (form_ == kAdd) {
          out->mutable_data<T>()[i] = T(WrapAdd(a, b));
        } else if (form_ == kMul) {
          out->mutable_data<T>()[i] = T(WrapMul(a, b));
        } else if constexpr (std::is_integral_v<T>) {
          if (b == 0) return InvalidArgument("Integer division by zero");
          out->mutable_data<T>()[i] =
              std::is_signed_v<T> && b == static_cast<T>(-1) ? WrapNeg(a) : static_cast<T>(a / b);
        } else {
          out->mutable_data<T>()[i] = T(a / b);
        }
      }
      return absl::OkStatus();
    });
  }

 private:
  const Form form_;
};

// ---- Shapes and registration ----

absl::Status UnionShape(ShapeContext& c) {
  const PartialShape& a = c.input(0);
  const int64_t rank = a.has_rank() && a.rank() == 2 ? a.dim(1) : PartialShape::kUnknown;
  c.set_output(0, PartialShape({-1, rank}));
  c.set_output(1, PartialShape::OfRank(1));
  if (c.num_outputs() > 2) c.set_output(2, PartialShape({rank}));
  return absl::OkStatus();
}
absl::Status AddGradShape(ShapeContext& c) {
  for (int i = 0; i < 2; ++i) {
    ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(1 + i, 2));
    c.set_output(i, PartialShape({indices.dim(0)}));
  }
  return absl::OkStatus();
}
template <int i>
absl::Status LikeInput(ShapeContext& c) {
  c.set_output(0, c.input(i));
  return absl::OkStatus();
}

Op PairIn(const char* name) {
  Op op(name);
  for (const char* side : {"a", "b"}) {
    op.Input(absl::StrCat(side, "_indices: int64")).Input(absl::StrCat(side, "_values: T"));
    op.Input(absl::StrCat(side, "_shape: int64"));
  }
  return op;
}
Op Extreme(const char* name, bool maximum) {
  return PairIn(name)
      .Output("output_indices: int64")
      .Output("output_values: T")
      .Attr(maximum ? "T: realnumbertype" : "T: numbertype")
      .Shape(UnionShape)
      .Kernel<ExtremeKernel>(maximum);
}
Op Cwise(const char* name, CwiseKernel::Form form) {
  return Op(name)
      .Input("sp_indices: int64")
      .Input("sp_values: T")
      .Input("sp_shape: int64")
      .Input("dense: T")
      .Output("output: T")
      .Attr("T: numbertype")
      .Shape(LikeInput<1>)
      .Kernel<CwiseKernel>(form);
}

const OpRegistration kSparseArithmeticOps[] = {
    PairIn("SparseAdd")
        .Input("thresh: Treal")
        .Output("sum_indices: int64")
        .Output("sum_values: T")
        .Output("sum_shape: int64")
        .Attr("T: numbertype")
        .Attr("Treal: realnumbertype")
        .Shape(UnionShape)
        .Compute(SparseAdd),
    Op("SparseAddGrad")
        .Input("backprop_val_grad: T")
        .Input("a_indices: int64")
        .Input("b_indices: int64")
        .Input("sum_indices: int64")
        .Output("a_val_grad: T")
        .Output("b_val_grad: T")
        .Attr("T: numbertype")
        .Shape(AddGradShape)
        .Compute(SparseAddGrad)
        .NotDifferentiable(),
    Extreme("SparseSparseMaximum", true),
    Extreme("SparseSparseMinimum", false),
    Op("SparseTensorDenseAdd")
        .Input("a_indices: Tindices")
        .Input("a_values: T")
        .Input("a_shape: Tindices")
        .Input("b: T")
        .Output("output: T")
        .Attr("T: numbertype")
        .Attr("Tindices: {int32, int64}")
        .Shape(LikeInput<3>)
        .Compute(SparseTensorDenseAdd),
    Cwise("SparseDenseCwiseAdd", CwiseKernel::kAdd),
    Cwise("SparseDenseCwiseMul", CwiseKernel::kMul),
    Cwise("SparseDenseCwiseDiv", CwiseKernel::kDiv),
};

}  // namespace
}  // namespace thalweg
