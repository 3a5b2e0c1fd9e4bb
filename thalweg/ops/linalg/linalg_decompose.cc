// Orthogonal decompositions: Qr, Svd, and least squares by them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/ops/linalg/linalg.h"

namespace thalweg {
namespace {

double Cubic(int64_t m, int64_t n) {
  return 10 + 5 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::min(m, n));
}

// input = q r, where the columns of q are orthonormal and r is upper triangular.
// With full_matrices q is square.
class QrKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(full_, init.Attr<bool>("full_matrices"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::Of(x));
    const int64_t inner = full_ ? m.rows : std::min(m.rows, m.columns);
    ASSIGN_OR_RETURN(const Shape q_shape, m.With(m.rows, inner));
    ASSIGN_OR_RETURN(const Shape r_shape, m.With(inner, m.columns));
    ASSIGN_OR_RETURN(Tensor * q, context.Allocate(0, q_shape));
    ASSIGN_OR_RETURN(Tensor * r, context.Allocate(1, r_shape));
    if (q->num_elements() == 0 && r->num_elements() == 0) return absl::OkStatus();
    return ForEachMatrix(context, m.count, Cubic(m.rows, m.columns), [&]<typename S>(int64_t i) {
      const QrFactors<S> factors = FactorQr(LoadMatrix<S>(x, i, m.rows, m.columns), inner);
      StoreMatrix<S>(factors.q, i, q);
      StoreMatrix<S>(factors.r, i, r);
      return absl::OkStatus();
    });
  }

 private:
  bool full_ = false;
};

// input = u diag(s) v^H, s decreasing.
class SvdKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(full_, init.Attr<bool>("full_matrices"));
    ASSIGN_OR_RETURN(vectors_, init.Attr<bool>("compute_uv"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::Of(x));
    const int64_t rank = std::min(m.rows, m.columns);
    const bool full = full_ && vectors_;
    ASSIGN_OR_RETURN(const Shape s_shape, m.With(rank));
    ASSIGN_OR_RETURN(Tensor * s, context.Allocate(0, s_shape));
    Shape u_shape({0}), v_shape({0});
    if (vectors_) {
      ASSIGN_OR_RETURN(u_shape, m.With(m.rows, full ? m.rows : rank));
      ASSIGN_OR_RETURN(v_shape, m.With(m.columns, full ? m.columns : rank));
    } else {
      u_shape = v_shape = Shape();
    }
    ASSIGN_OR_RETURN(Tensor * u, context.Allocate(1, u_shape));
    ASSIGN_OR_RETURN(Tensor * v, context.Allocate(2, v_shape));
    if (!vectors_) {
      for (Tensor* t : {u, v}) std::fill_n(static_cast<char*>(t->raw()), ElementSize(t->dtype()), 0);
    }
    // Matrices of nothing may be many, and have any number of rows or columns.
    if (rank == 0 && (!full || u->num_elements() + v->num_elements() == 0)) return absl::OkStatus();
    return ForEachMatrix(context, m.count, 10 * Cubic(m.rows, m.columns), [&]<typename S>(int64_t i) {
      const Matrix<S> a = LoadMatrix<S>(x, i, m.rows, m.columns);
      const S nan(std::numeric_limits<double>::quiet_NaN());
      Matrix<S> values(rank, 1, nan);
      SvdFactors<S> factors{
          Matrix<S>(m.rows, full ? m.rows : rank, nan), {}, Matrix<S>(m.columns, full ? m.columns : rank, nan)};
      if (a.AllFinite()) {
        factors = FactorSvd(a, full);
        std::copy(factors.s.begin(), factors.s.end(), values.data());
      }
      StoreMatrix<S>(values, i, s);
      if (vectors_) {
        StoreMatrix<S>(factors.u, i, u);
        StoreMatrix<S>(factors.v, i, v);
      }
      return absl::OkStatus();
    });
  }

 private:
  bool full_ = false;
  bool vectors_ = true;
};

// v s^-1 u^H b, without the singular values that are nothing but rounding.
template <typename S>
Matrix<S> PseudoSolve(const Matrix<S>& a, const Matrix<S>& b) {
  const SvdFactors<S> f = FactorSvd(a, false);
  Matrix<S> x = Multiply(f.u.Adjoint(), b);
  const double least = f.s.empty() ? 0
                                   : f.s[0] * std::numeric_limits<double>::epsilon() *
                                         static_cast<double>(std::max(a.rows(), a.columns()));
  for (int64_t i = 0; i < x.rows(); ++i) {
    for (int64_t j = 0; j < x.columns(); ++j) x(i, j) = f.s[i] > least ? x(i, j) / f.s[i] : S(0);
  }
  return Multiply(f.v, x);
}

// The x of least |matrix x - rhs|^2 + l2 |x|^2: fast by the normal equations, or
// by singular values, which ignores l2 and gives the smallest of several.
class MatrixSolveLsKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(fast_, init.Attr<bool>("fast"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &matrix = context.input(0), &rhs = context.input(1);
    if (matrix.rank() != rhs.rank()) return InvalidArgument("All input tensors must have the same rank.");
    ASSIGN_OR_RETURN(const MatrixBatch a, MatrixBatch::Of(matrix));
    ASSIGN_OR_RETURN(const MatrixBatch b, MatrixBatch::Of(rhs, 1));
    if (a.batch != b.batch) return InvalidArgument("All input tensors must have the same outer dimensions.");
    if (a.rows != b.rows) return InvalidArgument("Input matrix and rhs are incompatible.");
    if (context.input(2).num_elements() != 1) return InvalidArgument("l2_regularizer must be a scalar");
    const double l2 = context.input(2).scalar<double>();
    if (!(l2 >= 0)) return InvalidArgument("l2_regularizer must be >= 0.");
    ASSIGN_OR_RETURN(const Shape shape, a.With(a.columns, b.columns));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return ForEachMatrix(context, a.count, Cubic(a.rows, a.columns), [&]<typename S>(int64_t i) -> absl::Status {
      const Matrix<S> m = LoadMatrix<S>(matrix, i, a.rows, a.columns), y = LoadMatrix<S>(rhs, i, b.rows, b.columns);
      Matrix<S> x(a.columns, b.columns);
      if (fast_) {
        const bool tall = a.rows >= a.columns;
        const Matrix<S> adjoint = m.Adjoint();
        Matrix<S> gram = tall ? Multiply(adjoint, m) : Multiply(m, adjoint);
        for (int64_t j = 0; j < gram.rows(); ++j) gram(j, j) += l2;
        if (!FactorCholesky(&gram)) {
          return InvalidArgument(
              "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide an l2_regularizer "
              "> "
              "0.");
        }
        Matrix<S> z = tall ? Multiply(adjoint, y) : y;
        SolveTriangular(gram, true, &z);
        SolveTriangular(gram.Adjoint(), false, &z);
        x = tall ? std::move(z) : Multiply(adjoint, z);
      } else if (m.AllFinite()) {
        x = PseudoSolve(m, y);
      } else {
        x = Matrix<S>(a.columns, b.columns, S(std::numeric_limits<double>::quiet_NaN()));
      }
      StoreMatrix<S>(x, i, out);
      return absl::OkStatus();
    });
  }

 private:
  bool fast_ = true;
};

int64_t Smaller(int64_t a, int64_t b) { return a < 0 || b < 0 ? PartialShape::kUnknown : std::min(a, b); }

absl::Status QrShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, MatrixShape(c, 0, false));
  ASSIGN_OR_RETURN(const bool full, c.Attr<bool>("full_matrices"));
  if (!x.has_rank()) return absl::OkStatus();
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
  const int64_t inner = full ? rows : Smaller(rows, columns);
  c.set_output(0, BatchWith(x, {rows, inner}));
  c.set_output(1, BatchWith(x, {inner, columns}));
  return absl::OkStatus();
}

absl::Status SvdShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, MatrixShape(c, 0, false));
  ASSIGN_OR_RETURN(const bool full, c.Attr<bool>("full_matrices"));
  ASSIGN_OR_RETURN(const bool vectors, c.Attr<bool>("compute_uv"));
  if (!x.has_rank()) return absl::OkStatus();
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1), rank = Smaller(rows, columns);
  c.set_output(0, BatchWith(x, {rank}));
  if (!vectors) return absl::OkStatus();
  c.set_output(1, BatchWith(x, {rows, full ? rows : rank}));
  c.set_output(2, BatchWith(x, {columns, full ? columns : rank}));
  return absl::OkStatus();
}

absl::Status SolveLsShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape a, MatrixShape(c, 0, false));
  ASSIGN_OR_RETURN(const PartialShape b, MatrixShape(c, 1, false));
  RETURN_IF_ERROR(c.RequireScalar(2));
  if (a.has_rank() && b.has_rank()) {
    c.set_output(0, BatchWith(a, {a.dim(a.rank() - 1), b.dim(b.rank() - 1)}));
  }
  return absl::OkStatus();
}

constexpr char kTypes[] = "T: {double, float, half, complex64, complex128}";

const OpRegistration kOps[] = {
    Op("Qr")
        .Input("input: T")
        .Output("q: T")
        .Output("r: T")
        .Attr("full_matrices: bool = false")
        .Attr(kTypes)
        .Shape(QrShape)
        .Kernel<QrKernel>(),
    Op("Svd")
        .Input("input: T")
        .Output("s: T")
        .Output("u: T")
        .Output("v: T")
        .Attr("compute_uv: bool = true")
        .Attr("full_matrices: bool = false")
        .Attr(kTypes)
        .Shape(SvdShape)
        .Kernel<SvdKernel>(),
    Op("MatrixSolveLs")
        .Input("matrix: T")
        .Input("rhs: T")
        .Input("l2_regularizer: double")
        .Output("output: T")
        .Attr(kTypes)
        .Attr("fast: bool = true")
        .Shape(SolveLsShape)
        .Kernel<MatrixSolveLsKernel>(),
};

}  // namespace
}  // namespace thalweg
