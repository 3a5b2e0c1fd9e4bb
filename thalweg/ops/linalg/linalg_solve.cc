// Factorizations and systems of equations: Cholesky, Lu, MatrixInverse, the
// determinants, MatrixSolve, MatrixTriangularSolve, BandedTriangularSolve.
#include <cmath>
#include <limits>

#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/linalg/linalg.h"
#include "thalweg/ops/linalg_ops.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

double Cubic(int64_t n) { return 10 + static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

// ---- One square matrix in, one of the same shape out ----

// L with L L^H = input, from its lower triangle. NaN where there is none.
absl::Status Cholesky(KernelContext& context) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.shape()));
  if (x.num_elements() == 0) return absl::OkStatus();
  return ForEachMatrix(context, m.count, Cubic(m.rows), [&]<typename S>(int64_t i) {
    Matrix<S> a = LoadMatrix<S>(x, i, m.rows, m.rows);
    const bool good = FactorCholesky(&a);
    for (int64_t j = 0; j < m.rows; ++j) {
      for (int64_t k = 0; k < m.rows && !good; ++k) a(j, k) = S(k <= j ? std::numeric_limits<double>::quiet_NaN() : 0);
    }
    StoreMatrix<S>(a, i, out);
    return absl::OkStatus();
  });
}

// The gradient of the input, symmetric, given L and its gradient (Murray,
// "Differentiation of the Cholesky decomposition", 2016): with P the lower
// triangle with half the diagonal, the symmetric part of L^-H P(L^H dL) L^-1.
absl::Status CholeskyGrad(KernelContext& context) {
  const Tensor &l = context.input(0), &grad = context.input(1);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::Of(l));
  if (m.rows != m.columns) return InvalidArgument("Inputs must be a square matrices.");
  if (grad.shape() != l.shape()) return InvalidArgument("Inputs must have the same shape.");
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, l.shape()));
  if (l.num_elements() == 0) return absl::OkStatus();
  return ForEachMatrix(context, m.count, 4 * Cubic(m.rows), [&]<typename S>(int64_t i) {
    const auto lower = [&](Matrix<S> a) {
      for (int64_t j = 0; j < m.rows; ++j) {
        for (int64_t k = j + 1; k < m.rows; ++k) a(j, k) = S(0);
      }
      return a;
    };
    const Matrix<S> adjoint = lower(LoadMatrix<S>(l, i, m.rows, m.rows)).Adjoint();
    Matrix<S> p = lower(Multiply(adjoint, lower(LoadMatrix<S>(grad, i, m.rows, m.rows))));
    for (int64_t j = 0; j < m.rows; ++j) p(j, j) *= 0.5;
    SolveTriangular(adjoint, false, &p);
    Matrix<S> q = p.Adjoint();
    SolveTriangular(adjoint, false, &q);
    const Matrix<S> other = q.Adjoint();
    for (int64_t j = 0; j < q.size(); ++j) q.data()[j] = 0.5 * (q.data()[j] + other.data()[j]);
    StoreMatrix<S>(q, i, out);
    return absl::OkStatus();
  });
}

class AdjointKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(adjoint_, init.Attr<bool>("adjoint"));
    return absl::OkStatus();
  }

 protected:
  bool adjoint_ = false;
};

class MatrixInverseKernel : public AdjointKernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.shape()));
    if (x.num_elements() == 0) return absl::OkStatus();
    return ForEachMatrix(context, m.count, 3 * Cubic(m.rows), [&]<typename S>(int64_t i) -> absl::Status {
      Matrix<S> a = LoadMatrix<S>(x, i, m.rows, m.rows);
      const LuFactors<S> lu = FactorLu(adjoint_ ? a.Adjoint() : std::move(a));
      if (lu.singular) return InvalidArgument("Input is not invertible.");
      StoreMatrix<S>(SolveLu(lu, Matrix<S>::Identity(m.rows, m.rows)), i, out);
      return absl::OkStatus();
    });
  }
};

class MatrixSolveKernel : public AdjointKernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    const Tensor &matrix = context.input(0), &rhs = context.input(1);
    if (matrix.rank() != rhs.rank()) return InvalidArgument("All input tensors must have the same rank.");
    ASSIGN_OR_RETURN(const MatrixBatch a, MatrixBatch::Of(matrix));
    ASSIGN_OR_RETURN(const MatrixBatch b, MatrixBatch::Of(rhs, 1));
    if (a.batch != b.batch) return InvalidArgument("All input tensors must have the same outer dimensions.");
    if (a.rows != a.columns) return InvalidArgument("First input (lhs) must be a square matrix.");
    if (a.rows != b.rows) return InvalidArgument("Input matrix and rhs are incompatible.");
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, rhs.shape()));
    if (rhs.num_elements() == 0) return absl::OkStatus();
    return ForEachMatrix(context, a.count, Cubic(a.rows), [&]<typename S>(int64_t i) -> absl::Status {
      Matrix<S> m = LoadMatrix<S>(matrix, i, a.rows, a.rows);
      const LuFactors<S> lu = FactorLu(adjoint_ ? m.Adjoint() : std::move(m));
      if (lu.singular) return InvalidArgument("Input matrix is not invertible.");
      StoreMatrix<S>(SolveLu(lu, LoadMatrix<S>(rhs, i, b.rows, b.columns)), i, out);
      return absl::OkStatus();
    });
  }
};

// Batch dimensions of two operands broadcast: which matrix of each belongs to
// matrix i of the result.
struct BroadcastBatch {
  Dims dims;
  Dims a_strides, b_strides;  // 0 where one repeats

  static absl::StatusOr<BroadcastBatch> Of(const Dims& a, const Dims& b) {
    BroadcastBatch result;
    const size_t rank = std::max(a.size(), b.size());
    result.dims.resize(rank);
    result.a_strides.resize(rank);
    result.b_strides.resize(rank);
    int64_t a_step = 1, b_step = 1;
    for (size_t i = 0; i < rank; ++i) {  // from the last
      const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
      if (x != y && x != 1 && y != 1) {
        return InvalidArgument("In[0] and In[1] must have compatible batch dimensions: ", PartialShape(a), " vs. ",
                               PartialShape(b));
      }
      result.dims[rank - 1 - i] = x == 1 ? y : x;
      result.a_strides[rank - 1 - i] = x == 1 ? 0 : a_step;
      result.b_strides[rank - 1 - i] = y == 1 ? 0 : b_step;
      a_step *= x;
      b_step *= y;
    }
    return result;
  }
  std::pair<int64_t, int64_t> At(int64_t i) const {
    int64_t a = 0, b = 0;
    for (size_t d = dims.size(); d-- > 0; i /= dims[d]) {
      a += i % dims[d] * a_strides[d];
      b += i % dims[d] * b_strides[d];
    }
    return {a, b};
  }
};

// Both solves with triangular matrices: dense ones, or bands [bands, n], the
// diagonal first for lower and last for upper ones.
class TriangularSolveKernel : public AdjointKernel {
 public:
  explicit TriangularSolveKernel(bool banded) : banded_(banded) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(lower_, init.Attr<bool>("lower"));
    return AdjointKernel::Init(init);
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &matrix = context.input(0), &rhs = context.input(1);
    for (int i = 0; i < 2; ++i) {
      if (context.input(i).rank() < 2)
        return InvalidArgument("In[", i, "] ndims must be >= 2: ", context.input(i).rank());
    }
    ASSIGN_OR_RETURN(const MatrixBatch a, MatrixBatch::Of(matrix));
    ASSIGN_OR_RETURN(const MatrixBatch b, MatrixBatch::Of(rhs, 1));
    if (!banded_ && a.rows != a.columns) {
      return InvalidArgument("In[0] matrices in the last dimensions must be square (", a.columns, " =/= ", a.rows, ")");
    }
    if (banded_ && a.rows < 1) return InvalidArgument("Input matrix must have at least one band");
    if (a.columns != b.rows) {
      return InvalidArgument("In[0] mismatch In[1] shape: ", a.columns, " vs. ", b.rows, ": ", matrix.shape(), " ",
                             rhs.shape(), " ", lower_, " ", adjoint_);
    }
    ASSIGN_OR_RETURN(const BroadcastBatch batch, BroadcastBatch::Of(a.batch, b.batch));
    Dims dims = batch.dims;
    dims.insert(dims.end(), {b.rows, b.columns});
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const int64_t count = shape.num_elements() / (b.rows * b.columns);
    return ForEachMatrix(context, count, Cubic(b.rows), [&]<typename S>(int64_t i) -> absl::Status {
      const auto [x, y] = batch.At(i);
      Matrix<S> m = LoadMatrix<S>(matrix, x, a.rows, a.columns);
      if (banded_) {
        for (int64_t j = 0; j < a.columns; ++j) {
          if (!(std::abs(m(lower_ ? 0 : a.rows - 1, j)) > 0)) return InvalidArgument("Input matrix is not invertible.");
        }
        m = Unband(m);
      }
      Matrix<S> solution = LoadMatrix<S>(rhs, y, b.rows, b.columns);
      SolveTriangular(adjoint_ ? m.Adjoint() : m, lower_ != adjoint_, &solution);
      StoreMatrix<S>(solution, i, out);
      return absl::OkStatus();
    });
  }

 private:
  template <typename S>
  Matrix<S> Unband(const Matrix<S>& bands) const {
    const int64_t n = bands.columns(), count = bands.rows();
    Matrix<S> m(n, n);
    for (int64_t k = 0; k < std::min(count, n); ++k) {
      for (int64_t i = 0; i < n; ++i) {
        if (lower_ && i - k >= 0) m(i, i - k) = bands(k, i);
        if (!lower_ && i + k < n) m(i, i + k) = bands(count - 1 - k, i);
      }
    }
    return m;
  }

  const bool banded_;
  bool lower_ = true;
};

// The determinant as sign (of size 1, or 0) and logarithm of its size.
template <typename S>
std::pair<S, double> SignAndLog(const Matrix<S>& a) {
  if (a.rows() == 0) return {S(1), 0.0};
  const LuFactors<S> lu = FactorLu(a);
  S sign(static_cast<double>(lu.sign));
  double log = 0;
  for (int64_t i = 0; i < a.rows(); ++i) {
    const S pivot = lu.lu(i, i);
    const double size = std::abs(pivot);
    if (!(size > 0)) return {S(0), -std::numeric_limits<double>::infinity()};
    sign *= pivot / size;
    log += std::log(size);
  }
  return {sign, log};
}

absl::Status MatrixDeterminant(KernelContext& context) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
  ASSIGN_OR_RETURN(const Shape shape, m.With());
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
  return ForEachMatrix(context, m.count, Cubic(m.rows), [&]<typename S>(int64_t i) {
    const auto [sign, log] = SignAndLog<S>(LoadMatrix<S>(x, i, m.rows, m.rows));
    StoreMatrix<S>(Matrix<S>(1, 1, sign * std::exp(log)), i, out);
    return absl::OkStatus();
  });
}

absl::Status LogMatrixDeterminant(KernelContext& context) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
  ASSIGN_OR_RETURN(const Shape shape, m.With());
  ASSIGN_OR_RETURN(Tensor * signs, context.Allocate(0, shape));
  ASSIGN_OR_RETURN(Tensor * logs, context.Allocate(1, shape));
  return ForEachMatrix(context, m.count, Cubic(m.rows), [&]<typename S>(int64_t i) {
    const auto [sign, log] = SignAndLog<S>(LoadMatrix<S>(x, i, m.rows, m.rows));
    StoreMatrix<S>(Matrix<S>(1, 1, sign), i, signs);
    StoreMatrix<S>(Matrix<S>(1, 1, S(log)), i, logs);
    return absl::OkStatus();
  });
}

// L (below the diagonal, which is 1) and U in one matrix, and which row of the
// input each row is.
absl::Status Lu(KernelContext& context) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
  ASSIGN_OR_RETURN(const Shape shape, m.With(m.rows));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.shape()));
  ASSIGN_OR_RETURN(Tensor * rows, context.Allocate(1, shape));
  if (x.num_elements() == 0) return absl::OkStatus();
  return ForEachMatrix(context, m.count, Cubic(m.rows), [&]<typename S>(int64_t i) -> absl::Status {
    const LuFactors<S> lu = FactorLu(LoadMatrix<S>(x, i, m.rows, m.rows));
    if (lu.singular) return InvalidArgument("Input is not invertible.");
    StoreMatrix<S>(lu.lu, i, out);
    for (int64_t k = 0; k < m.rows; ++k) {
      if (rows->dtype() == kInt64) {
        rows->mutable_data<int64_t>()[i * m.rows + k] = lu.rows[k];
      } else {
        rows->mutable_data<int32_t>()[i * m.rows + k] = static_cast<int32_t>(lu.rows[k]);
      }
    }
    return absl::OkStatus();
  });
}

// ---- Shapes ----

absl::Status SquareShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, MatrixShape(c, 0, true));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status DeterminantShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape shape, MatrixShape(c, 0, true));
  if (!shape.has_rank()) return absl::OkStatus();
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, BatchWith(shape, {}));
  return absl::OkStatus();
}

absl::Status LuShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape shape, MatrixShape(c, 0, true));
  if (!shape.has_rank()) return absl::OkStatus();
  c.set_output(0, shape);
  c.set_output(1, BatchWith(shape, {shape.dim(shape.rank() - 1)}));
  return absl::OkStatus();
}

// Like the right hand side.
absl::Status SolveShape(ShapeContext& c) {
  RETURN_IF_ERROR(MatrixShape(c, 0, true).status());
  ASSIGN_OR_RETURN(PartialShape rhs, MatrixShape(c, 1, false));
  c.set_output(0, std::move(rhs));
  return absl::OkStatus();
}

// The same, if the batches need no broadcasting.
absl::Status TriangularSolveShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape matrix, MatrixShape(c, 0, false));
  ASSIGN_OR_RETURN(const PartialShape rhs, MatrixShape(c, 1, false));
  if (!matrix.has_rank() || !rhs.has_rank()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const PartialShape batch, BroadcastShape(BatchWith(matrix, {}), BatchWith(rhs, {})));
  if (!batch.has_rank()) return absl::OkStatus();
  Dims dims(batch.dims().begin(), batch.dims().end());
  dims.insert(dims.end(), rhs.dims().end() - 2, rhs.dims().end());
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

// ---- Gradients ----

Output Product(const Scope& s, Output a, Output b, bool adjoint_a, bool adjoint_b) {
  return s.Add("BatchMatMulV2", {a, b}, {{"adj_x", adjoint_a}, {"adj_y", adjoint_b}});
}

// d(A^-1) = -A^-1 dA A^-1.
absl::Status MatrixInverseGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const bool adjoint, g.Attr<bool>("adjoint"));
  if (adjoint) return Unimplemented("gradient of MatrixInverse with adjoint");
  const Scope& s = g.scope();
  const Output y = g.output(0);
  g.set_dx(0, Neg(s, Product(s, y, Product(s, g.dy(), y, false, true), true, false)));
  return absl::OkStatus();
}

absl::Status CholeskyGradient(GradientContext& g) {
  g.set_dx(0, Output(g.scope().Add("CholeskyGrad", {g.output(0), g.dy()})));
  return absl::OkStatus();
}

// For A x = b: db = A^-H dx, dA = -db x^H; for the adjoint the other way round.
absl::Status MatrixSolveGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const bool adjoint, g.Attr<bool>("adjoint"));
  const Scope& s = g.scope();
  const Output db = s.Add("MatrixSolve", {g.input(0), g.dy()}, {{"adjoint", !adjoint}});
  const Output x = g.output(0);
  g.set_dx(0, Neg(s, adjoint ? Product(s, x, db, false, true) : Product(s, db, x, false, true)));
  g.set_dx(1, db);
  return absl::OkStatus();
}

// A number for each matrix, to be multiplied with its elements.
Output PerMatrix(const Scope& s, Output x) {
  const Output last = s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(-1)}});
  return s.Add("ExpandDims", {Output(s.Add("ExpandDims", {x, last})), last});
}
Output AdjointInverse(const Scope& s, Output matrix) { return s.Add("MatrixInverse", {matrix}, {{"adjoint", true}}); }

// d det(A) = det(A) tr(A^-1 dA), and d log|det(A)| is that without the factor.
absl::Status DeterminantGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output factor = Mul(s, g.dy(), Conj(s, g.output(0)));
  g.set_dx(0, Mul(s, PerMatrix(s, factor), AdjointInverse(s, g.input(0))));
  return absl::OkStatus();
}
absl::Status LogDeterminantGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, PerMatrix(s, g.dy(1)), AdjointInverse(s, g.input(0))));
  return absl::OkStatus();
}

// As MatrixSolve, for the triangle that was read.
absl::Status TriangularSolveGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const bool lower, g.Attr<bool>("lower"));
  ASSIGN_OR_RETURN(const bool adjoint, g.Attr<bool>("adjoint"));
  const PartialShape &a = g.input(0).shape(), &b = g.input(1).shape();
  if (!a.has_rank() || a.rank() != b.rank() ||
      !std::equal(a.dims().begin(), a.dims().end() - 2, b.dims().begin(), b.dims().end() - 2)) {
    return Unimplemented("gradient of MatrixTriangularSolve of batches that are not known to be the same: ", a, " and ",
                         b);
  }
  const Scope& s = g.scope();
  const Output x = g.output(0);
  const Output db = s.Add("MatrixTriangularSolve", {g.input(0), g.dy()}, {{"lower", lower}, {"adjoint", !adjoint}});
  const Output da = Neg(s, adjoint ? Product(s, x, db, false, true) : Product(s, db, x, false, true));
  const auto number = [&](int64_t n) {
    return Output(s.Add("Const", {}, {{"dtype", kInt64}, {"value", Tensor::Scalar(n)}}));
  };
  g.set_dx(0, Output(s.Add("MatrixBandPart", {da, number(lower ? -1 : 0), number(lower ? 0 : -1)})));
  g.set_dx(1, db);
  return absl::OkStatus();
}

constexpr char kTypes[] = "T: {double, float, half, complex64, complex128}";
constexpr char kOtherTypes[] = "T: {half, float, double, complex64, complex128}";

const OpRegistration kOps[] = {
    Op("Cholesky")
        .Input("input: T")
        .Output("output: T")
        .Attr(kTypes)
        .Shape(SquareShape)
        .Compute(Cholesky)
        .Gradient(CholeskyGradient),
    Op("CholeskyGrad")
        .Input("l: T")
        .Input("grad: T")
        .Output("output: T")
        .Attr("T: {half, float, double}")
        .Shape(SquareShape)
        .Compute(CholeskyGrad),
    Op("MatrixInverse")
        .Input("input: T")
        .Output("output: T")
        .Attr("adjoint: bool = false")
        .Attr(kTypes)
        .Shape(SquareShape)
        .Kernel<MatrixInverseKernel>()
        .Gradient(MatrixInverseGradient),
    Op("MatrixDeterminant")
        .Input("input: T")
        .Output("output: T")
        .Attr(kOtherTypes)
        .Shape(DeterminantShape)
        .Compute(MatrixDeterminant)
        .Gradient(DeterminantGradient),
    Op("LogMatrixDeterminant")
        .Input("input: T")
        .Output("sign: T")
        .Output("log_abs_determinant: T")
        .Attr(kOtherTypes)
        .Shape(DeterminantShape)
        .Compute(LogMatrixDeterminant)
        .Gradient(LogDeterminantGradient),
    Op("MatrixSolve")
        .Input("matrix: T")
        .Input("rhs: T")
        .Output("output: T")
        .Attr("adjoint: bool = false")
        .Attr(kTypes)
        .Shape(SolveShape)
        .Kernel<MatrixSolveKernel>()
        .Gradient(MatrixSolveGradient),
    Op("MatrixTriangularSolve")
        .Input("matrix: T")
        .Input("rhs: T")
        .Output("output: T")
        .Attr("lower: bool = true")
        .Attr("adjoint: bool = false")
        .Attr("T: {bfloat16, double, float, half, complex64, complex128}")
        .Shape(TriangularSolveShape)
        .Kernel<TriangularSolveKernel>(false)
        .Gradient(TriangularSolveGradient),
    Op("BandedTriangularSolve")
        .Input("matrix: T")
        .Input("rhs: T")
        .Output("output: T")
        .Attr("lower: bool = true")
        .Attr("adjoint: bool = false")
        .Attr(kTypes)
        .Shape(TriangularSolveShape)
        .Kernel<TriangularSolveKernel>(true),
    Op("Lu")
        .Input("input: T")
        .Output("lu: T")
        .Output("p: output_idx_type")
        .Attr(kTypes)
        .Attr("output_idx_type: {int32, int64} = DT_INT32")
        .Shape(LuShape)
        .Compute(Lu),
};

}  // namespace

Output Cholesky(const Scope& s, Output input) { return s.Add("Cholesky", {input}); }
Output MatrixInverse(const Scope& s, Output input, AdjointOptions options) {
  return s.Add("MatrixInverse", {input}, {{"adjoint", options.adjoint}});
}
Output MatrixDeterminant(const Scope& s, Output input) { return s.Add("MatrixDeterminant", {input}); }
Output MatrixSolve(const Scope& s, Output matrix, Output rhs, AdjointOptions options) {
  return s.Add("MatrixSolve", {matrix, rhs}, {{"adjoint", options.adjoint}});
}

}  // namespace thalweg
