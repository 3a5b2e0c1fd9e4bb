// SPDX-License-Identifier: Apache-2.0
// MatrixSolveLs: least squares. BatchMatrixSolveLs is its name in graphs from
// before 2016.
#include <algorithm>

#include "thalweg/ops/linalg/linalg.h"

namespace thalweg {
namespace {

// The x of least |matrix x - rhs|^2 + l2 |x|^2: fast by the normal equations, or
// by an orthogonal decomposition, which ignores l2 and gives the smallest of
// several.
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
    RETURN_IF_ERROR(CheckSides({a.rows, a.columns, b.columns}));
    const System system{static_cast<int>(a.rows), static_cast<int>(a.columns), static_cast<int>(b.columns)};
    const double cost = LinalgCost(a.rows, a.columns, std::min(a.rows, a.columns) + b.columns, fast_ ? 2 : 5);
    return ForEachMatrix(context, rhs.dtype(), a.count, cost,
                         [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) -> absl::Status {
                           if (system.m == 0) {
                             scratch.c.assign(a.columns * b.columns, S(0));
                           } else if (!fast_) {
                             SolveSlowly(matrix, rhs, i, system, scratch);
                           } else if (!SolveFast(matrix, rhs, i, system, l2, scratch)) {
                             return InvalidArgument(
                                 "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or "
                                 "provide an l2_regularizer > 0.");
                           }
                           StoreRows(scratch.c.data(), i, a.columns * b.columns, out);
                           return absl::OkStatus();
                         });
  }

 private:
  // m equations for n unknowns, with k right-hand sides.
  struct System {
    int m, n, k;
  };

  // The solution, by rows, into scratch.c. False if the Gram matrix has no
  // Cholesky factor. The tensors, by rows, are transposes to LAPACK: a is A^T
  // (n x m) and b is B^T (k x m).
  template <typename S>
  static bool SolveFast(const Tensor& matrix, const Tensor& rhs, int64_t i, const System& s, double l2,
                        MatrixScratch<S>& scratch) {
    using lapack::Form;
    const bool tall = s.m >= s.n;
    const int side = tall ? s.n : s.m;
    const int64_t a_size = int64_t{s.m} * s.n, b_size = int64_t{s.m} * s.k, x_size = int64_t{s.n} * s.k,
                  gram_size = int64_t{side} * side;
    scratch.work.resize(gram_size);
    scratch.b.resize(b_size);
    scratch.c.resize(x_size);
    const S* const a = RowsOf(matrix, i, a_size, scratch.a);
    S *const gram = scratch.work.data(), *const b = scratch.b.data(), *const x = scratch.c.data();
    LoadRows(rhs, i, b_size, b);
    lapack::Gram(tall ? Form::kPlain : Form::kAdjoint, side, tall ? s.m : s.n, a, gram);
    for (int64_t j = 0; j < side; ++j) gram[j * side + j] += static_cast<lapack::Real<S>>(l2);
    if (!lapack::CholeskyRows(side, gram)) return false;
    const auto solve = [&](S* right) {  // L L^H x = right
      lapack::SolveTriangleRows(lapack::Triangle::kLower, false, side, s.k, gram, right);
      lapack::SolveTriangleRows(lapack::Triangle::kLower, true, side, s.k, gram, right);
    };
    if (!tall) solve(b);
    lapack::Multiply(Form::kPlain, Form::kAdjoint, s.k, s.n, s.m, b, a, x);  // (A^H b)^T = b^T conj(A)
    if (tall) solve(x);
    return true;
  }

  template <typename S>
  static void SolveSlowly(const Tensor& matrix, const Tensor& rhs, int64_t i, const System& s,
                          MatrixScratch<S>& scratch) {
    const int64_t rows = std::max(s.m, s.n);
    scratch.a.resize(int64_t{s.m} * s.n);
    scratch.b.resize(rows * s.k);
    scratch.c.resize(std::max<int64_t>(int64_t{s.n} * s.k, int64_t{s.m} * s.k));
    LoadColumns(matrix, i, s.m, s.n, scratch.a.data());
    LoadColumns(rhs, i, s.m, s.k, scratch.c.data());
    for (int64_t j = 0; j < s.k; ++j) std::copy_n(scratch.c.data() + j * s.m, s.m, scratch.b.data() + j * rows);
    if (AllFinite(scratch.a.data(), int64_t{s.m} * s.n)) {
      lapack::LeastSquares(s.m, s.n, s.k, scratch.a.data(), scratch.b.data(), scratch.work);
    } else {
      std::fill(scratch.b.begin(), scratch.b.end(), NaN<S>());
    }
    for (int64_t j = 0; j < s.n; ++j) {
      for (int64_t l = 0; l < s.k; ++l) scratch.c[j * s.k + l] = scratch.b[l * rows + j];
    }
  }

  bool fast_ = true;
};

absl::Status SolveLsShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape a, MatrixShape(c, 0, false));
  ASSIGN_OR_RETURN(const PartialShape b, MatrixShape(c, 1, false));
  RETURN_IF_ERROR(c.RequireScalar(2));
  if (a.has_rank() && b.has_rank()) {
    c.set_output(0, BatchWith(a, {a.dim(a.rank() - 1), b.dim(b.rank() - 1)}));
  }
  return absl::OkStatus();
}

Op LeastSquaresOp(absl::string_view name, absl::string_view types) {
  return Op(name)
      .Input("matrix: T")
      .Input("rhs: T")
      .Input("l2_regularizer: double")
      .Output("output: T")
      .Attr(types)
      .Attr("fast: bool = true")
      .Shape(SolveLsShape)
      .Kernel<MatrixSolveLsKernel>();
}

const OpRegistration kLeastSquaresOps[] = {
    LeastSquaresOp("MatrixSolveLs", "T: {double, float, half, complex64, complex128}"),
    LeastSquaresOp("BatchMatrixSolveLs", "T: {double, float}"),
};

}  // namespace
}  // namespace thalweg
