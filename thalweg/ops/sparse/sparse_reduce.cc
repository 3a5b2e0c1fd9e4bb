// SPDX-License-Identifier: Apache-2.0
// Sums over sparse tensors: SparseTensorDenseMatMul, SparseReduceSum and
// SparseReduceMax (dense and sparse results; where no element is, 0), and
// SparseSoftmax over the elements that are there in each row.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/float_compute.h"

namespace thalweg {
namespace {

// ---- SparseTensorDenseMatMul ----

template <typename T>
THALWEG_SIMD void AddRow(const T* x, T factor, T* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = WrapAdd(y[i], WrapMul(factor, x[i]));
}

class SparseMatMulKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(adjoint_a_, init.Attr<bool>("adjoint_a"));
    ASSIGN_OR_RETURN(adjoint_b_, init.Attr<bool>("adjoint_b"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &indices = context.input(0), &values = context.input(1), &shape = context.input(2),
                 &b = context.input(3);
    if (b.rank() != 2) return InvalidArgument("Tensor 'b' is not a matrix");
    if (shape.rank() != 1) return InvalidArgument("Tensor 'a_shape' is not a vector");
    if (shape.num_elements() != 2) return InvalidArgument("Tensor 'a_shape' must have 2 elements");
    if (values.rank() != 1) return InvalidArgument("Tensor 'a_values' is not a vector");
    if (indices.rank() != 2) return InvalidArgument("Tensor 'a_indices' is not a matrix");
    if (indices.dim(0) != values.num_elements()) {
      return InvalidArgument("Number of rows of a_indices does not match number of entries in a_values");
    }
    if (indices.dim(1) != 2) {
      return InvalidArgument("Number of columns of a_indices does not match number of entries in a_shape");
    }
    const int64_t* const sizes = shape.data<int64_t>();
    const int64_t rows = sizes[adjoint_a_ ? 1 : 0], inner = sizes[adjoint_a_ ? 0 : 1];
    const int64_t b_inner = b.dim(adjoint_b_ ? 1 : 0), columns = b.dim(adjoint_b_ ? 0 : 1);
    if (inner != b_inner) {
      return InvalidArgument("Cannot multiply A and B because inner dimension does not match: ", inner, " vs. ",
                             b_inner, ".  Did you forget a transpose?  Dimensions of A: [", sizes[0], ", ", sizes[1],
                             ").  Dimensions of B: ", b.shape());
    }
    std::vector<int64_t> places(2 * values.num_elements());  // row and inner of each
    RETURN_IF_ERROR(Dispatch(IndexTypes(), indices.dtype(), [&]<typename I>() -> absl::Status {
      for (int64_t i = 0; i < values.num_elements(); ++i) {
        const int64_t m = indices.data<I>()[2 * i + (adjoint_a_ ? 1 : 0)];
        const int64_t k = indices.data<I>()[2 * i + (adjoint_a_ ? 0 : 1)];
        if (k < 0 || k >= inner)
          return InvalidArgument("k (", k, ") from index[", i, ",1] out of bounds (>=", inner, ")");
        if (m < 0 || m >= rows)
          return InvalidArgument("m (", m, ") from index[", i, ",0] out of bounds (>=", rows, ")");
        places[2 * i] = m;
        places[2 * i + 1] = k;
      }
      return absl::OkStatus();
    }));
    ASSIGN_OR_RETURN(const Shape out_shape, Shape::Make({rows, columns}));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, out_shape));
    ClearElements(out);
    if (out_shape.num_elements() == 0) return absl::OkStatus();
    using ProductTypes = Types<float, double, int32_t, int64_t, std::complex<float>, std::complex<double>>;
    if (b.dtype() == kHalf || b.dtype() == kBfloat16) {
      ASSIGN_OR_RETURN(const Tensor wide_a, AsFloat(context, values));
      ASSIGN_OR_RETURN(const Tensor wide_b, AsFloat(context, b));
      ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(kFloat, out_shape));
      ClearElements(&sums);
      Product(places, wide_a.data<float>(), wide_b.data<float>(), b_inner, columns, sums.mutable_data<float>());
      FloatToHalf(out->dtype(), sums.data<float>(), out->raw(), sums.num_elements());
      return absl::OkStatus();
    }
    return Dispatch(ProductTypes(), b.dtype(), [&]<typename T>() {
      Product(places, values.data<T>(), b.data<T>(), b_inner, columns, out->mutable_data<T>());
      return absl::OkStatus();
    });
  }

 private:
  template <typename T>
  void Product(const std::vector<int64_t>& places, const T* a, const T* b, int64_t inner, int64_t columns,
               T* out) const {
    std::vector<T> turned;
    if (adjoint_b_) {  // rows of it are needed
      turned.resize(inner * columns);
      for (int64_t i = 0; i < columns; ++i) {
        for (int64_t k = 0; k < inner; ++k) turned[k * columns + i] = Conjugate(b[i * inner + k]);
      }
      b = turned.data();
    }
    for (size_t i = 0; 2 * i < places.size(); ++i) {
      AddRow(b + places[2 * i + 1] * columns, adjoint_a_ ? Conjugate(a[i]) : a[i], out + places[2 * i] * columns,
             columns);
    }
  }

  bool adjoint_a_ = false;
  bool adjoint_b_ = false;
};

// ---- SparseReduce ----

template <typename T>
T LargerOf(T a, T b) {
  return a < b ? b : a;
}

class SparseReduceKernel : public Kernel {
 public:
  SparseReduceKernel(bool maximum, bool sparse) : maximum_(maximum), sparse_(sparse) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(keep_, init.Attr<bool>("keep_dims"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const SparseValue x,
                     SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnordered));
    std::vector<bool> reduced(x.rank());
    for (const int32_t axis : context.input(3).flat<int32_t>()) {
      if (axis < -x.rank() || axis >= x.rank()) {
        return InvalidArgument("Invalid reduction dimension ", axis, ", for input with ", x.rank(), " dimensions.");
      }
      reduced[axis < 0 ? axis + x.rank() : axis] = true;
    }
    Dims dims;
    for (int d = 0; d < x.rank(); ++d) {
      if (!reduced[d]) dims.push_back(x.dims[d]);
      if (reduced[d] && keep_) dims.push_back(1);
    }
    // The elements of each place of the result, in the order of places.
    std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
    for (int64_t i = 0; i < x.count(); ++i) {
      std::vector<int64_t> place;
      for (int d = 0; d < x.rank(); ++d) {
        if (!reduced[d]) place.push_back(x.row(i)[d]);
        if (reduced[d] && keep_) place.push_back(0);
      }
      groups[std::move(place)].push_back(i);
    }
    Tensor* out = nullptr;
    Dims strides;
    if (sparse_) {
      const int64_t count = static_cast<int64_t>(groups.size()), rank = static_cast<int64_t>(dims.size());
      ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(0, Shape({count, rank})));
      ASSIGN_OR_RETURN(out, context.Allocate(1, Shape({count})));
      ASSIGN_OR_RETURN(Tensor * shape, context.Allocate(2, Shape({rank})));
      std::copy(dims.begin(), dims.end(), shape->mutable_data<int64_t>());
      int64_t* to = indices->mutable_data<int64_t>();
      for (const auto& [place, members] : groups) to = std::copy(place.begin(), place.end(), to);
    } else {
      ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
      ASSIGN_OR_RETURN(out, context.Allocate(0, shape));
      ClearElements(out);
      strides = RowMajorStrides(dims);
    }
    const auto reduce = [&]<typename T>(T (*combine)(T, T)) {
      int64_t k = 0;
      for (const auto& [place, members] : groups) {
        T value = x.values.data<T>()[members[0]];
        for (size_t i = 1; i < members.size(); ++i) value = combine(value, x.values.data<T>()[members[i]]);
        int64_t to = k++;
        if (!sparse_) {
          to = 0;
          for (size_t d = 0; d < place.size(); ++d) to += place[d] * strides[d];
        }
        out->mutable_data<T>()[to] = value;
      }
      return absl::OkStatus();
    };
    if (maximum_) {
      return Dispatch(RealTypes(), x.values.dtype(), [&]<typename T>() { return reduce(LargerOf<T>); });
    }
    return Dispatch(NumberTypes(), x.values.dtype(), [&]<typename T>() { return reduce(SumOf<T>); });
  }

 private:
  const bool maximum_;
  const bool sparse_;
  bool keep_ = false;
};

absl::Status SparseSoftmax(KernelContext& context) {
  ASSIGN_OR_RETURN(const SparseValue x,
                   SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnordered));
  if (x.rank() < 2) return InvalidArgument("Input should have rank >= 2, but received shape ", PartialShape(x.dims));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape({x.count()})));
  return Dispatch(Types<float, double, Half>(), x.values.dtype(), [&]<typename T>() {
    using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (int64_t begin = 0, end = 0; begin < x.count(); begin = end) {
      while (end < x.count() && std::equal(x.row(begin), x.row(begin) + x.rank() - 1, x.row(end))) ++end;
      F most = static_cast<F>(x.values.data<T>()[begin]), sum = 0;
      for (int64_t i = begin; i < end; ++i) most = std::max(most, static_cast<F>(x.values.data<T>()[i]));
      for (int64_t i = begin; i < end; ++i) sum += std::exp(static_cast<F>(x.values.data<T>()[i]) - most);
      for (int64_t i = begin; i < end; ++i) {
        out->mutable_data<T>()[i] = T(std::exp(static_cast<F>(x.values.data<T>()[i]) - most) / sum);
      }
    }
    return absl::OkStatus();
  });
}

// ---- Shapes and registration ----

absl::Status MatMulShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(3, 2));
  ASSIGN_OR_RETURN(const bool adjoint_a, c.Attr<bool>("adjoint_a"));
  ASSIGN_OR_RETURN(const bool adjoint_b, c.Attr<bool>("adjoint_b"));
  ASSIGN_OR_RETURN(const PartialShape a, c.ConstantAsShape(2));
  const int64_t rows = a.has_rank() && a.rank() == 2 ? a.dim(adjoint_a ? 1 : 0) : PartialShape::kUnknown;
  c.set_output(0, PartialShape({rows, b.dim(adjoint_b ? 0 : 1)}));
  return absl::OkStatus();
}
absl::Status LikeValues(ShapeContext& c) {
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

Op Reduce(const char* name, bool maximum, bool sparse) {
  Op op(name);
  op.Input("input_indices: int64").Input("input_values: T").Input("input_shape: int64").Input("reduction_axes: int32");
  if (sparse) {
    op.Output("output_indices: int64").Output("output_values: T").Output("output_shape: int64");
  } else {
    op.Output("output: T");
  }
  return op.Attr("keep_dims: bool = false")
      .Attr(maximum ? "T: realnumbertype" : "T: numbertype")
      .Shape(shapes::Unknown)
      .Kernel<SparseReduceKernel>(maximum, sparse);
}

// By b: the product with the adjoint of the sparse matrix. By each value, at row
// r and column c: row r of dy times row c of the other factor.
absl::Status MatMulGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const bool adjoint_a, g.Attr<bool>("adjoint_a"));
  ASSIGN_OR_RETURN(const bool adjoint_b, g.Attr<bool>("adjoint_b"));
  const auto integers = [&](std::vector<int32_t> values) {
    return Output(s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Vector<int32_t>(values)}}));
  };
  const auto adjoint = [&](Output x) { return Output(s.Add("ConjugateTranspose", {x, integers({1, 0})})); };
  const Output indices = g.input(0), values = g.input(1), b = g.input(3), dy = g.dy();
  const Output db = s.Add("SparseTensorDenseMatMul", {indices, values, g.input(2), dy}, {{"adjoint_a", !adjoint_a}});
  g.set_dx(3, adjoint_b ? adjoint(db) : db);
  const auto column = [&](int i) {
    const Output picked = s.Add("StridedSlice", {indices, integers({0, i}), integers({0, i + 1}), integers({1, 1})},
                                {{"begin_mask", 1}, {"end_mask", 1}, {"shrink_axis_mask", 2}});
    return picked;
  };
  const auto rows = [&](Output x, Output which) {
    return Output(
        s.Add("GatherV2",
              {x, which, Output(s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(0)}}))}));
  };
  const Output from_dy = rows(dy, column(adjoint_a ? 1 : 0));
  const Output from_b = rows(adjoint_b ? adjoint(b) : b, column(adjoint_a ? 0 : 1));
  const Output product = Mul(s, from_dy, Conj(s, from_b));
  g.set_dx(1, Output(s.Add("Sum", {product, integers({1})})));
  return absl::OkStatus();
}

const OpRegistration kSparseReduceOps[] = {
    Op("SparseTensorDenseMatMul")
        .Input("a_indices: Tindices")
        .Input("a_values: T")
        .Input("a_shape: int64")
        .Input("b: T")
        .Output("product: T")
        .Attr("T: type")
        .Attr("Tindices: {int32, int64} = DT_INT64")
        .Attr("adjoint_a: bool = false")
        .Attr("adjoint_b: bool = false")
        .Shape(MatMulShape)
        .Kernel<SparseMatMulKernel>()
        .Gradient(MatMulGradient),
    Reduce("SparseReduceSum", false, false),
    Reduce("SparseReduceMax", true, false),
    Reduce("SparseReduceSumSparse", false, true),
    Reduce("SparseReduceMaxSparse", true, true),
    Op("SparseSoftmax")
        .Input("sp_indices: int64")
        .Input("sp_values: T")
        .Input("sp_shape: int64")
        .Output("output: T")
        .Attr("T: {half, float, double}")
        .Shape(LikeValues)
        .Compute(SparseSoftmax),
};

}  // namespace
}  // namespace thalweg
