// SPDX-License-Identifier: Apache-2.0
// Cholesky, the factor of a positive definite matrix, and its gradient. Batch...
// are their names in graphs from before 2016.
#include "thalweg/ops/linalg/linalg.h"
#include "thalweg/ops/linalg_ops.h"

namespace thalweg {
namespace {

// L with L L^H = input, from the lower triangle. NaN if the matrix is not positive definite.
absl::Status ComputeCholesky(KernelContext& context) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.shape()));
  if (x.num_elements() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSides({m.rows}));
  const int n = static_cast<int>(m.rows);
  return ForEachMatrix(context, x.dtype(), m.count, LinalgCost(n, n, n),
                       [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) {
                         const int64_t size = m.rows * m.rows;
                         scratch.a.resize(size);
                         S* const a = scratch.a.data();
                         LoadRows(x, i, size, a);
                         const bool good = lapack::CholeskyRows(n, a);
                         for (int64_t j = 0; j < n; ++j) {
                           if (!good) std::fill_n(a + j * n, j + 1, NaN<S>());
                           std::fill(a + j * n + j + 1, a + (j + 1) * n, S(0));
                         }
                         StoreRows(a, i, size, out);
                         return absl::OkStatus();
                       });
}

// The lower triangle stays, the rest becomes zero.
template <typename S>
void KeepLower(S* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) std::fill(a + j * n + j + 1, a + (j + 1) * n, S(0));
}

template <typename S>
void Adjoint(const S* a, int64_t n, S* b) {
  Transpose(a, n, n, b);
  for (int64_t j = 0; j < n * n; ++j) b[j] = lapack::Conj(b[j]);
}

// The gradient of the input, symmetric, given L and its gradient (Murray,
// "Differentiation of the Cholesky decomposition", 2016): with P the lower
// triangle with half the diagonal, the symmetric part of L^-H P(L^H dL) L^-1.
absl::Status ComputeCholeskyGrad(KernelContext& context) {
  const Tensor &l = context.input(0), &grad = context.input(1);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::Of(l));
  if (m.rows != m.columns) return InvalidArgument("Inputs must be a square matrices.");
  if (grad.shape() != l.shape()) return InvalidArgument("Inputs must have the same shape.");
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, l.shape()));
  if (l.num_elements() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSides({m.rows}));
  const int n = static_cast<int>(m.rows);
  return ForEachMatrix(context, l.dtype(), m.count, LinalgCost(n, n, n, 4),
                       [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) {
                         using lapack::Form;
                         const int64_t size = m.rows * m.rows;
                         for (PoolVector<S>* v : {&scratch.a, &scratch.b, &scratch.c}) v->resize(size);
                         S *const factor = scratch.a.data(), *const d = scratch.b.data(), *const p = scratch.c.data();
                         LoadRows(l, i, size, factor);
                         LoadRows(grad, i, size, d);
                         KeepLower(factor, n);
                         KeepLower(d, n);
                         // By rows L^H dL is to LAPACK its transpose, dL^T conj(L).
                         lapack::Multiply(Form::kPlain, Form::kAdjoint, n, n, n, d, factor, p);
                         KeepLower(p, n);
                         for (int64_t j = 0; j < n; ++j) p[j * n + j] *= S(0.5);
                         lapack::SolveTriangleRows(lapack::Triangle::kLower, true, n, n, factor, p);
                         Adjoint(p, n, d);
                         lapack::SolveTriangleRows(lapack::Triangle::kLower, true, n, n, factor, d);
                         Adjoint(d, n, p);
                         for (int64_t j = 0; j < size; ++j) d[j] = S(0.5) * (d[j] + p[j]);
                         StoreRows(d, i, size, out);
                         return absl::OkStatus();
                       });
}

absl::Status CholeskyGradient(GradientContext& g) {
  g.set_dx(0, Output(g.scope().Add("CholeskyGrad", {g.output(0), g.dy()})));
  return absl::OkStatus();
}

Op CholeskyOp(absl::string_view name, absl::string_view types) {
  return Op(name).Input("input: T").Output("output: T").Attr(types).Shape(SquareMatrixShape).Compute(ComputeCholesky);
}
Op CholeskyGradOp(absl::string_view name, absl::string_view types) {
  return Op(name)
      .Input("l: T")
      .Input("grad: T")
      .Output("output: T")
      .Attr(types)
      .Shape(SquareMatrixShape)
      .Compute(ComputeCholeskyGrad);
}

const OpRegistration kCholeskyOps[] = {
    CholeskyOp("Cholesky", "T: {double, float, half, complex64, complex128}").Gradient(CholeskyGradient),
    CholeskyOp("BatchCholesky", "T: {double, float}"),
    CholeskyGradOp("CholeskyGrad", "T: {half, float, double}"),
    CholeskyGradOp("BatchCholeskyGrad", "T: {float, double}"),
};

}  // namespace

Output Cholesky(const Scope& s, Output input) { return s.Add("Cholesky", {input}); }

}  // namespace thalweg
