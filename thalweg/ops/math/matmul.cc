// SPDX-License-Identifier: Apache-2.0
// MatMul: product = a b, where a is [m, k] and b is [k, n], each perhaps stored
// transposed. SparseMatMul: the same in float, for a or b of which many elements
// are said to be 0; dense products are faster here all the same. BatchMatMul: the same for the last two dimensions of
// higher ranks; V2 and V3 broadcast the others.
#include <algorithm>
#include <atomic>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/fused/fused_epilogue.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/gemm.h"

namespace thalweg {
namespace {

using ProductTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                           std::complex<float>, std::complex<double>>;

// Unknown sizes fit everything.
absl::Status CheckInner(int64_t x, int64_t y, const PartialShape& a, const PartialShape& b) {
  if (x < 0 || y < 0 || x == y) return absl::OkStatus();
  return InvalidArgument("Dimensions must be equal, but are ", x, " and ", y, " with input shapes: ", a, ", ", b);
}

absl::Status MatMulShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape a, c.WithRank(0, 2));
  ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(1, 2));
  ASSIGN_OR_RETURN(const bool ta, c.Attr<bool>("transpose_a"));
  ASSIGN_OR_RETURN(const bool tb, c.Attr<bool>("transpose_b"));
  RETURN_IF_ERROR(CheckInner(a.dim(ta ? 0 : 1), b.dim(tb ? 1 : 0), a, b));
  c.set_output(0, PartialShape({a.dim(ta ? 1 : 0), b.dim(tb ? 0 : 1)}));
  return absl::OkStatus();
}

PartialShape BatchOf(const PartialShape& shape) {
  return PartialShape(Dims(shape.dims().begin(), shape.dims().end() - 2));
}

absl::Status BatchShape(ShapeContext& c, bool broadcasts) {
  const PartialShape& x = c.input(0);
  const PartialShape& y = c.input(1);
  for (int i = 0; i < 2; ++i) {
    if (c.input(i).has_rank() && c.input(i).rank() < 2) {
      return InvalidArgument("Shape must be at least rank 2 but is rank ", c.input(i).rank(), " for input ", i);
    }
  }
  if (!x.has_rank() || !y.has_rank()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool adj_x, c.Attr<bool>("adj_x"));
  ASSIGN_OR_RETURN(const bool adj_y, c.Attr<bool>("adj_y"));
  RETURN_IF_ERROR(CheckInner(x.dim(x.rank() - (adj_x ? 2 : 1)), y.dim(y.rank() - (adj_y ? 1 : 2)), x, y));
  ASSIGN_OR_RETURN(const PartialShape batch,
                   broadcasts ? BroadcastShape(BatchOf(x), BatchOf(y)) : PartialShape::Merge(BatchOf(x), BatchOf(y)));
  Dims dims(batch.dims().begin(), batch.dims().end());
  dims.push_back(x.dim(x.rank() - (adj_x ? 1 : 2)));
  dims.push_back(y.dim(y.rank() - (adj_y ? 2 : 1)));
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}
absl::Status EqualBatchShape(ShapeContext& c) { return BatchShape(c, /*broadcasts=*/false); }
absl::Status BroadcastBatchShape(ShapeContext& c) { return BatchShape(c, /*broadcasts=*/true); }

// Several products of one size. Matrix i of the result is that of matrix
// a_index(i) and b_index(i).
struct Products {
  Gemm gemm;
  int64_t count = 1;
  const Broadcast* batch = nullptr;  // nullptr: all in order

  std::pair<int64_t, int64_t> Operands(int64_t i) const {
    if (batch == nullptr) return {i, i};
    int64_t x = 0, y = 0;
    for (size_t d = 0; d < batch->sizes.size(); ++d) {
      const int64_t at = i % batch->sizes[d];
      i /= batch->sizes[d];
      x += at * batch->x_strides[d];
      y += at * batch->y_strides[d];
    }
    return {x, y};
  }

  template <typename T>
  absl::Status Run(KernelContext& context, const T* a, const T* b, T* c) const {
    if (count == 1) return gemm.Run(context, a, b, c);
    const double nanos = gemm.flops() / (std::is_same_v<T, float> ? 50 : std::is_same_v<T, double> ? 15 : 1) + 50;
    std::atomic<bool> failed = false;
    context.ParallelFor(count, nanos, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto [x, y] = Operands(i);
        if (!gemm.Run(a + x * gemm.m * gemm.k, b + y * gemm.k * gemm.n, c + i * gemm.m * gemm.n).ok()) failed = true;
      }
    });
    return failed ? ResourceExhausted("no memory to pack matrices into") : absl::OkStatus();
  }
};

absl::StatusOr<Tensor> AsType(KernelContext& context, const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  ASSIGN_OR_RETURN(Tensor copy, context.AllocateTemporary(dtype, t.shape()));
  if (IsHalfPrecision(t.dtype()) && dtype == kFloat) {
    HalfToFloat(t.dtype(), t.raw(), copy.mutable_data<float>(), t.num_elements());
    return copy;
  }
  RETURN_IF_ERROR(Dispatch(NumberTypes(), t.dtype(), [&]<typename From>() {
    return Dispatch(ProductTypes(), dtype, [&]<typename To>() -> absl::Status {
      if constexpr (std::is_convertible_v<From, To> || std::is_arithmetic_v<To>) {
        if constexpr (requires(From f) { static_cast<To>(f); }) {
          std::transform(t.data<From>(), t.data<From>() + t.num_elements(), copy.mutable_data<To>(),
                         [](From f) { return static_cast<To>(f); });
          return absl::OkStatus();
        }
      }
      return Unimplemented("no product of ", DTypeOf<From>, " in ", DTypeOf<To>);
    });
  }));
  return copy;
}

absl::Status Multiply(KernelContext& context, const Products& products, const Tensor& a, const Tensor& b, Tensor* c) {
  // Half precision is computed in float, mixed types in the type of the result.
  const DType work = IsHalfPrecision(c->dtype()) ? kFloat : c->dtype();
  if (a.dtype() == work && b.dtype() == work && c->dtype() == work) {
    return Dispatch(ProductTypes(), work, [&]<typename T>() {
      return products.Run(context, a.data<T>(), b.data<T>(), c->mutable_data<T>());
    });
  }
  ASSIGN_OR_RETURN(const Tensor wa, AsType(context, a, work));
  ASSIGN_OR_RETURN(const Tensor wb, AsType(context, b, work));
  if (work == c->dtype()) return Multiply(context, products, wa, wb, c);
  ASSIGN_OR_RETURN(Tensor wc, context.AllocateTemporary(kFloat, c->shape()));
  RETURN_IF_ERROR(Multiply(context, products, wa, wb, &wc));
  FloatToHalf(c->dtype(), wc.data<float>(), c->raw(), c->num_elements());
  return absl::OkStatus();
}

class MatMulKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(transpose_a_, init.Attr<bool>("transpose_a"));
    ASSIGN_OR_RETURN(transpose_b_, init.Attr<bool>("transpose_b"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    for (int i = 0; i < 2; ++i) {
      if (context.input(i).rank() != 2) {
        return InvalidArgument("In[0] and In[1] ndims must be == 2: In[", i, "] has shape ", context.input(i).shape());
      }
    }
    Products products{.gemm = {.transpose_a = transpose_a_,
                               .transpose_b = transpose_b_,
                               .m = a.dim(transpose_a_ ? 1 : 0),
                               .n = b.dim(transpose_b_ ? 0 : 1),
                               .k = a.dim(transpose_a_ ? 0 : 1)}};
    if (products.gemm.k != b.dim(transpose_b_ ? 1 : 0)) {
      return InvalidArgument("Matrix size-incompatible: In[0]: ", a.shape(), ", In[1]: ", b.shape());
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({products.gemm.m, products.gemm.n}));
    ASSIGN_OR_RETURN(Tensor * c, context.Allocate(0, shape));
    RETURN_IF_ERROR(Multiply(context, products, a, b, c));
    return Finish(context, c);
  }

 protected:
  // What a fused op does to the result.
  virtual absl::Status Finish(KernelContext& context, Tensor* c) { return absl::OkStatus(); }

 private:
  bool transpose_a_ = false;
  bool transpose_b_ = false;
};

// _FusedMatMul: a product with the ops that follow it.
class FusedMatMulKernel final : public MatMulKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(MatMulKernel::Init(init));
    ASSIGN_OR_RETURN(epilogue_, FusedEpilogue::Read(init.node().def()));
    return absl::OkStatus();
  }

 private:
  absl::Status Finish(KernelContext& context, Tensor* c) override { return epilogue_.Apply(context, c); }

  FusedEpilogue epilogue_;
};

class BatchMatMulKernel : public Kernel {
 public:
  explicit BatchMatMulKernel(bool broadcasts) : broadcasts_(broadcasts) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(adj_x_, init.Attr<bool>("adj_x"));
    ASSIGN_OR_RETURN(adj_y_, init.Attr<bool>("adj_y"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& y = context.input(1);
    for (int i = 0; i < 2; ++i) {
      if (context.input(i).rank() < 2) {
        return InvalidArgument("In[", i, "] ndims must be >= 2: ", context.input(i).rank());
      }
    }
    if (!broadcasts_ && x.rank() != y.rank()) {
      return InvalidArgument("In[0] and In[1] has different ndims: ", x.shape(), " vs. ", y.shape());
    }
    const Shape x_batch(x.shape().dims().first(x.rank() - 2)), y_batch(y.shape().dims().first(y.rank() - 2));
    if (!broadcasts_ && x_batch != y_batch) {
      return InvalidArgument("In[0] and In[1] must have compatible batch dimensions: ", x.shape(), " vs. ", y.shape());
    }
    absl::StatusOr<Broadcast> batch = Broadcast::Make(x_batch, y_batch);
    if (!batch.ok()) {
      return InvalidArgument("In[0] and In[1] must have compatible batch dimensions: ", x.shape(), " vs. ", y.shape());
    }
    const bool is_complex = IsComplex(x.dtype());
    Products products{.gemm = {.transpose_a = adj_x_,
                               .transpose_b = adj_y_,
                               .conjugate_a = is_complex && adj_x_,
                               .conjugate_b = is_complex && adj_y_,
                               .m = x.dim(x.rank() - (adj_x_ ? 1 : 2)),
                               .n = y.dim(y.rank() - (adj_y_ ? 2 : 1)),
                               .k = x.dim(x.rank() - (adj_x_ ? 2 : 1))},
                      .count = batch->shape.num_elements(),
                      .batch = x_batch == y_batch ? nullptr : &*batch};
    if (products.gemm.k != y.dim(y.rank() - (adj_y_ ? 1 : 2))) {
      return InvalidArgument("Matrix size-incompatible: In[0]: ", x.shape(), ", In[1]: ", y.shape());
    }
    Dims dims(batch->shape.dims().begin(), batch->shape.dims().end());
    dims.push_back(products.gemm.m);
    dims.push_back(products.gemm.n);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();  // products of nothing may be many
    return Multiply(context, products, x, y, out);
  }

 private:
  const bool broadcasts_;
  bool adj_x_ = false;
  bool adj_y_ = false;
};

absl::Status MatMulGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const bool ta, g.Attr<bool>("transpose_a"));
  ASSIGN_OR_RETURN(const bool tb, g.Attr<bool>("transpose_b"));
  const Output a = Conj(s, g.input(0)), b = Conj(s, g.input(1)), dc = g.dy();
  g.set_dx(0, ta ? MatMul(s, b, dc, {.transpose_a = tb, .transpose_b = true})
                 : MatMul(s, dc, b, {.transpose_a = false, .transpose_b = !tb}));
  g.set_dx(1, tb ? MatMul(s, dc, a, {.transpose_a = true, .transpose_b = ta})
                 : MatMul(s, a, dc, {.transpose_a = !ta, .transpose_b = false}));
  return absl::OkStatus();
}

absl::Status SparseMatMulGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const bool ta, g.Attr<bool>("transpose_a"));
  ASSIGN_OR_RETURN(const bool tb, g.Attr<bool>("transpose_b"));
  ASSIGN_OR_RETURN(const bool a_is_sparse, g.Attr<bool>("a_is_sparse"));
  ASSIGN_OR_RETURN(const bool b_is_sparse, g.Attr<bool>("b_is_sparse"));
  struct Factor {
    Output value;
    bool transpose, is_sparse;
  };
  const auto product = [&](const Factor& l, const Factor& r, DType dtype) {
    const Output y = s.Add("SparseMatMul", {l.value, r.value},
                           {{"transpose_a", l.transpose},
                            {"transpose_b", r.transpose},
                            {"a_is_sparse", l.is_sparse},
                            {"b_is_sparse", r.is_sparse}});
    return dtype == kFloat ? y : Cast(s, y, dtype);
  };
  const Output a = g.input(0), b = g.input(1), dc = g.dy();
  g.set_dx(0, ta ? product({b, tb, b_is_sparse}, {dc, true, false}, a.dtype())
                 : product({dc, false, false}, {b, !tb, b_is_sparse}, a.dtype()));
  g.set_dx(1, tb ? product({dc, true, false}, {a, ta, a_is_sparse}, b.dtype())
                 : product({a, !ta, a_is_sparse}, {dc, false, false}, b.dtype()));
  return absl::OkStatus();
}

Output LeadingSizes(const Scope& s, Output shape) {
  const int32_t zero[] = {0}, last[] = {-2}, one[] = {1};
  return s.Add("StridedSlice", {shape, IntsConst(s, zero), IntsConst(s, last), IntsConst(s, one)});
}

absl::Status BatchMatMulGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const bool ax, g.Attr<bool>("adj_x"));
  ASSIGN_OR_RETURN(const bool ay, g.Attr<bool>("adj_y"));
  const Output x = g.input(0), y = g.input(1), dz = g.dy();
  const bool mixed_types = g.node()->op() == "BatchMatMulV3";
  const auto product = [&](Output l, Output r, bool al, bool ar, Output like) {
    std::vector<AttrArg> attrs = {{"adj_x", al}, {"adj_y", ar}};
    if (mixed_types) attrs.emplace_back("Tout", RemoveRef(like.dtype()));
    return Output(s.Add(g.node()->op(), {l, r}, std::move(attrs)));
  };
  Output dx = ax ? product(y, dz, ay, true, x) : product(dz, y, false, !ay, x);
  Output dy = ay ? product(dz, x, true, ax, y) : product(x, dz, !ax, false, y);
  const bool same_batch =
      x.shape().fully_known() && y.shape().fully_known() && BatchOf(x.shape()) == BatchOf(y.shape());
  const bool matrices = x.shape().rank() == 2 && y.shape().rank() == 2;
  if (g.node()->op() != "BatchMatMul" && !same_batch && !matrices) {
    // Sums over the batch dimensions that were repeated.
    const Output x_shape = s.Add("Shape", {x}), y_shape = s.Add("Shape", {y});
    Node* const args = s.Add("BroadcastGradientArgs", {LeadingSizes(s, x_shape), LeadingSizes(s, y_shape)});
    if (args == nullptr) return s.status();
    dx = s.Add("Reshape", {Output(s.Add("Sum", {dx, args->out(0)})), x_shape});
    dy = s.Add("Reshape", {Output(s.Add("Sum", {dy, args->out(1)})), y_shape});
  }
  g.set_dx(0, dx);
  g.set_dx(1, dy);
  return absl::OkStatus();
}

const OpRegistration kMatmulOps[] = {
    Op("MatMul")
        .Input("a: T")
        .Input("b: T")
        .Output("product: T")
        .Attr("transpose_a: bool = false")
        .Attr("transpose_b: bool = false")
        .Attr("T: {bfloat16, half, float, double, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}")
        .Shape(MatMulShape)
        .Kernel<MatMulKernel>()
        .Gradient(MatMulGradient),
    Op("_FusedMatMul")
        .Input("a: T")
        .Input("b: T")
        .Input("args: num_args * T")
        .Output("product: T")
        .Attr("transpose_a: bool = false")
        .Attr("transpose_b: bool = false")
        .Attr("T: {bfloat16, half, float}")
        .Attr("num_args: int >= 0")
        .Attr("fused_ops: list(string) = []")
        .Attr("epsilon: float = 0.0001")
        .Attr("leakyrelu_alpha: float = 0.2")
        .Shape(MatMulShape)
        .Kernel<FusedMatMulKernel>()
        .NotDifferentiable(),
    Op("SparseMatMul")
        .Input("a: Ta")
        .Input("b: Tb")
        .Output("product: float")
        .Attr("transpose_a: bool = false")
        .Attr("transpose_b: bool = false")
        .Attr("a_is_sparse: bool = false")
        .Attr("b_is_sparse: bool = false")
        .Attr("Ta: {float, bfloat16} = DT_FLOAT")
        .Attr("Tb: {float, bfloat16} = DT_FLOAT")
        .Shape(MatMulShape)
        .Kernel<MatMulKernel>()
        .Gradient(SparseMatMulGradient),
    Op("BatchMatMul")
        .Input("x: T")
        .Input("y: T")
        .Output("output: T")
        .Attr("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
        .Attr("adj_x: bool = false")
        .Attr("adj_y: bool = false")
        .Shape(EqualBatchShape)
        .Kernel<BatchMatMulKernel>(false)
        .Gradient(BatchMatMulGradient),
    Op("BatchMatMulV2")
        .Input("x: T")
        .Input("y: T")
        .Output("output: T")
        .Attr("T: {bfloat16, half, float, double, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, "
              "complex128}")
        .Attr("adj_x: bool = false")
        .Attr("adj_y: bool = false")
        .Shape(BroadcastBatchShape)
        .Kernel<BatchMatMulKernel>(true)
        .Gradient(BatchMatMulGradient),
    Op("BatchMatMulV3")
        .Input("x: Ta")
        .Input("y: Tb")
        .Output("output: Tout")
        .Attr("Ta: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}")
        .Attr("Tb: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}")
        .Attr("Tout: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}")
        .Attr("adj_x: bool = false")
        .Attr("adj_y: bool = false")
        .Shape(BroadcastBatchShape)
        .Kernel<BatchMatMulKernel>(true)
        .Gradient(BatchMatMulGradient),
};

}  // namespace

Output MatMul(const Scope& s, Output a, Output b, const MatMulOptions& options) {
  return s.Add("MatMul", {a, b}, {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}});
}
Output BatchMatMul(const Scope& s, Output x, Output y, const BatchMatMulOptions& options) {
  return s.Add("BatchMatMulV2", {x, y}, {{"adj_x", options.adj_x}, {"adj_y", options.adj_y}});
}

}  // namespace thalweg
