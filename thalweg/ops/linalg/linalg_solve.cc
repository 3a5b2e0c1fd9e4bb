// SPDX-License-Identifier: Apache-2.0
// Ops that use LU factors: Lu, MatrixInverse, MatrixSolve and the determinants. Batch... are their
// names in graphs from before 2016.
#include <cmath>
#include <limits>
#include <utility>

#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/linalg/linalg.h"
#include "thalweg/ops/linalg_ops.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

// The factors of matrix i of x, or of its adjoint, in scratch.a and
// scratch.pivots. False if it is singular.
template <typename S>
bool Factor(const Tensor& x, int64_t i, int n, bool adjoint, MatrixScratch<S>& scratch) {
  const int64_t size = int64_t{n} * n;
  scratch.a.resize(size);
  scratch.pivots.resize(n);
  S* const a = scratch.a.data();
  if (adjoint) {  // by rows, which to LAPACK is the transpose already
    LoadRows(x, i, size, a);
    for (int64_t j = 0; j < size; ++j) a[j] = lapack::Conj(a[j]);
  } else {
    LoadColumns(x, i, n, n, a);
  }
  return lapack::Lu(n, a, scratch.pivots.data());
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
    RETURN_IF_ERROR(CheckSides({m.rows}));
    const int n = static_cast<int>(m.rows);
    return ForEachMatrix(context, x.dtype(), m.count, LinalgCost(n, n, n, 3),
                         [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) -> absl::Status {
                           if (!Factor(x, i, n, adjoint_, scratch)) return InvalidArgument("Input is not invertible.");
                           S* const inverse = MutableRowsOf(out, i, m.rows * m.rows, scratch.b);
                           lapack::InvertLuRows(n, scratch.a.data(), scratch.pivots.data(), inverse);
                           StoreIfCopied(inverse, i, m.rows * m.rows, out);
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
    RETURN_IF_ERROR(CheckSides({b.rows, b.columns}));
    const int n = static_cast<int>(b.rows), k = static_cast<int>(b.columns);
    return ForEachMatrix(context, rhs.dtype(), a.count, LinalgCost(n, n, int64_t{n} + k),
                         [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) -> absl::Status {
                           if (!Factor(matrix, i, n, adjoint_, scratch)) {
                             return InvalidArgument("Input matrix is not invertible.");
                           }
                           S* const solution = MutableRowsOf(out, i, b.rows * b.columns, scratch.b);
                           LoadRows(rhs, i, b.rows * b.columns, solution);
                           lapack::SolveLuRows(n, k, scratch.a.data(), scratch.pivots.data(), solution);
                           StoreIfCopied(solution, i, b.rows * b.columns, out);
                           return absl::OkStatus();
                         });
  }
};

// The determinant as sign (of size 1, or 0) and logarithm of its size.
template <typename S>
std::pair<S, lapack::Real<S>> SignAndLog(const Tensor& x, int64_t i, int n, MatrixScratch<S>& scratch) {
  using R = lapack::Real<S>;
  if (n == 0) return {S(1), 0};
  Factor(x, i, n, false, scratch);
  S sign(1);
  R log = 0;
  for (int64_t j = 0; j < n; ++j) {
    const S pivot = scratch.a[j * n + j];
    const R size = std::abs(pivot);
    if (!(size > 0)) return {S(0), -std::numeric_limits<R>::infinity()};
    sign *= (scratch.pivots[j] == j + 1 ? pivot : -pivot) / size;
    log += std::log(size);
  }
  return {sign, log};
}

absl::Status MatrixDeterminant(KernelContext& context) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
  ASSIGN_OR_RETURN(const Shape shape, m.With());
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
  RETURN_IF_ERROR(CheckSides({m.rows}));
  const int n = static_cast<int>(m.rows);
  return ForEachMatrix(context, x.dtype(), m.count, LinalgCost(n, n, n),
                       [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) {
                         const auto [sign, log] = SignAndLog<S>(x, i, n, scratch);
                         const S determinant = sign * std::exp(log);
                         StoreRows(&determinant, i, 1, out);
                         return absl::OkStatus();
                       });
}

absl::Status LogMatrixDeterminant(KernelContext& context) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
  ASSIGN_OR_RETURN(const Shape shape, m.With());
  ASSIGN_OR_RETURN(Tensor * signs, context.Allocate(0, shape));
  ASSIGN_OR_RETURN(Tensor * logs, context.Allocate(1, shape));
  RETURN_IF_ERROR(CheckSides({m.rows}));
  const int n = static_cast<int>(m.rows);
  return ForEachMatrix(context, x.dtype(), m.count, LinalgCost(n, n, n),
                       [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) {
                         const auto [sign, log] = SignAndLog<S>(x, i, n, scratch);
                         const S size(log);
                         StoreRows(&sign, i, 1, signs);
                         StoreRows(&size, i, 1, logs);
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
  RETURN_IF_ERROR(CheckSides({m.rows}));
  const int n = static_cast<int>(m.rows);
  return ForEachMatrix(context, x.dtype(), m.count, LinalgCost(n, n, n),
                       [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) -> absl::Status {
                         if (!Factor(x, i, n, false, scratch)) return InvalidArgument("Input is not invertible.");
                         StoreColumns(scratch.a.data(), i, n, n, out);
                         const auto permute = [&](auto* order) {
                           for (int j = 0; j < n; ++j) order[j] = j;
                           for (int j = 0; j < n; ++j) std::swap(order[j], order[scratch.pivots[j] - 1]);
                         };
                         if (rows->dtype() == kInt64) {
                           permute(rows->mutable_data<int64_t>() + i * n);
                         } else {
                           permute(rows->mutable_data<int32_t>() + i * n);
                         }
                         return absl::OkStatus();
                       });
}

// ---- Shapes ----

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

Op InverseOp(absl::string_view name, absl::string_view types) {
  return Op(name)
      .Input("input: T")
      .Output("output: T")
      .Attr("adjoint: bool = false")
      .Attr(types)
      .Shape(SquareMatrixShape)
      .Kernel<MatrixInverseKernel>();
}
Op DeterminantOp(absl::string_view name, absl::string_view types) {
  return Op(name).Input("input: T").Output("output: T").Attr(types).Shape(DeterminantShape).Compute(MatrixDeterminant);
}
Op SolveOp(absl::string_view name, absl::string_view types) {
  return Op(name)
      .Input("matrix: T")
      .Input("rhs: T")
      .Output("output: T")
      .Attr("adjoint: bool = false")
      .Attr(types)
      .Shape(SolveShape)
      .Kernel<MatrixSolveKernel>();
}

constexpr char kTypes[] = "T: {double, float, half, complex64, complex128}";
constexpr char kOtherTypes[] = "T: {half, float, double, complex64, complex128}";

const OpRegistration kLinalgSolveOps[] = {
    InverseOp("MatrixInverse", kTypes).Gradient(MatrixInverseGradient),
    InverseOp("BatchMatrixInverse", "T: {double, float}"),
    DeterminantOp("MatrixDeterminant", kOtherTypes).Gradient(DeterminantGradient),
    DeterminantOp("BatchMatrixDeterminant", "T: {float, double, complex64, complex128}"),
    SolveOp("MatrixSolve", kTypes).Gradient(MatrixSolveGradient),
    SolveOp("BatchMatrixSolve", "T: {double, float}"),
    Op("LogMatrixDeterminant")
        .Input("input: T")
        .Output("sign: T")
        .Output("log_abs_determinant: T")
        .Attr(kOtherTypes)
        .Shape(DeterminantShape)
        .Compute(LogMatrixDeterminant)
        .Gradient(LogDeterminantGradient),
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

Output MatrixInverse(const Scope& s, Output input, const AdjointOptions& options) {
  return s.Add("MatrixInverse", {input}, {{"adjoint", options.adjoint}});
}
Output MatrixDeterminant(const Scope& s, Output input) { return s.Add("MatrixDeterminant", {input}); }
Output MatrixSolve(const Scope& s, Output matrix, Output rhs, const AdjointOptions& options) {
  return s.Add("MatrixSolve", {matrix, rhs}, {{"adjoint", options.adjoint}});
}

}  // namespace thalweg
