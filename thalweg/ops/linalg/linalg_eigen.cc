// Eigenvalues: SelfAdjointEigV2 of Hermitian matrices (from their lower
// triangles, values increasing), Eig of any; and functions of matrices by
// Schur's form: MatrixSquareRoot, MatrixLogarithm.
#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/ops/linalg/linalg.h"

namespace thalweg {
namespace {

using Complex = std::complex<double>;

double Cubic(int64_t n) { return 10 + 20 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

// The eigenvectors of an upper triangular matrix, of length 1.
Matrix<Complex> TriangleVectors(const Matrix<Complex>& t) {
  const int64_t n = t.rows();
  double size = std::numeric_limits<double>::min();
  for (int64_t i = 0; i < t.size(); ++i) size = std::max(size, std::abs(t.data()[i]));
  Matrix<Complex> x(n, n);
  for (int64_t k = 0; k < n; ++k) {
    x(k, k) = 1;
    double norm = 1;
    for (int64_t i = k - 1; i >= 0; --i) {
      Complex sum = 0;
      for (int64_t j = i + 1; j <= k; ++j) sum -= t(i, j) * x(j, k);
      Complex gap = t(i, i) - t(k, k);
      if (std::abs(gap) < std::numeric_limits<double>::epsilon() * size) {
        gap = std::numeric_limits<double>::epsilon() * size;  // of a double eigenvalue
      }
      x(i, k) = sum / gap;
      norm = std::hypot(norm, std::abs(x(i, k)));
    }
    for (int64_t i = 0; i <= k; ++i) x(i, k) /= norm;
  }
  return x;
}

class EigKernel : public Kernel {
 public:
  explicit EigKernel(bool self_adjoint) : self_adjoint_(self_adjoint) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(vectors_, init.Attr<bool>("compute_v"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
    ASSIGN_OR_RETURN(const Shape shape, m.With(m.rows));
    ASSIGN_OR_RETURN(Tensor * values, context.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor * vectors, context.Allocate(1, vectors_ ? x.shape() : Shape()));
    if (!vectors_) std::fill_n(static_cast<char*>(vectors->raw()), ElementSize(vectors->dtype()), 0);
    if (x.num_elements() == 0) return absl::OkStatus();
    return ForEachMatrix(context, m.count, Cubic(m.rows), [&]<typename S>(int64_t i) -> absl::Status {
      const Matrix<S> a = LoadMatrix<S>(x, i, m.rows, m.rows);
      const auto failed = [&] {
        return InvalidArgument(self_adjoint_ ? "Self-adjoint eigen" : "Eigen",
                               " decomposition was not successful. The input might not be valid.");
      };
      if (!a.AllFinite()) return failed();
      if (self_adjoint_) {
        const HermitianFactors<S> f = FactorHermitian(a);
        Matrix<double> column(m.rows, 1);
        std::copy(f.values.begin(), f.values.end(), column.data());
        StoreMatrix<double>(column, i, values);
        if (vectors_) StoreMatrix<S>(f.vectors, i, vectors);
        return absl::OkStatus();
      }
      const SchurFactors f = FactorSchur(LoadMatrix<Complex>(x, i, m.rows, m.rows));
      if (!f.converged) return failed();
      Matrix<Complex> column(m.rows, 1);
      for (int64_t k = 0; k < m.rows; ++k) column(k, 0) = f.t(k, k);
      StoreMatrix<Complex>(column, i, values);
      if (vectors_) StoreMatrix<Complex>(Multiply(f.u, TriangleVectors(f.t)), i, vectors);
      return absl::OkStatus();
    });
  }

 private:
  const bool self_adjoint_;
  bool vectors_ = true;
};

// ---- Functions of an upper triangular matrix ----

using Triangle = Matrix<Complex>;

// Column by column, from r r = t (Bjorck and Hammarling, 1983).
Triangle SquareRoot(const Triangle& t) {
  const int64_t n = t.rows();
  Triangle r(n, n);
  for (int64_t j = 0; j < n; ++j) {
    r(j, j) = std::sqrt(t(j, j));
    for (int64_t i = j - 1; i >= 0; --i) {
      Complex sum = t(i, j);
      for (int64_t k = i + 1; k < j; ++k) sum -= r(i, k) * r(k, j);
      r(i, j) = sum == Complex(0) ? Complex(0) : sum / (r(i, i) + r(j, j));
    }
  }
  return r;
}

double DistanceFromOne(const Triangle& t) {
  double most = 0;
  for (int64_t i = 0; i < t.rows(); ++i) {
    double sum = 0;
    for (int64_t j = 0; j < t.rows(); ++j) sum += std::abs(t(i, j) - (i == j ? 1.0 : 0.0));
    most = std::max(most, sum);
  }
  return most;
}

// log t = 2^k log t^(1/2^k); near the identity it is the integral of x (1 + s
// x)^-1, x = t - 1, over s from 0 to 1, by Gauss and Legendre's rule.
Triangle Logarithm(const Triangle& input) {
  constexpr double kNodes[] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363};
  constexpr double kWeights[] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763};
  const int64_t n = input.rows();
  Triangle x = input;
  double scale = 1;
  for (int k = 0; k < 100 && DistanceFromOne(x) > 0.1; ++k, scale *= 2) x = SquareRoot(x);
  for (int64_t i = 0; i < n; ++i) x(i, i) -= 1;
  Triangle log(n, n);
  for (int j = 0; j < 4; ++j) {
    for (const double sign : {-1.0, 1.0}) {
      const double node = (1 + sign * kNodes[j]) / 2;
      Triangle denominator = x, term = x;
      for (int64_t i = 0; i < x.size(); ++i) denominator.data()[i] *= node;
      for (int64_t i = 0; i < n; ++i) denominator(i, i) += 1;
      SolveTriangular(denominator, false, &term);
      for (int64_t i = 0; i < x.size(); ++i) log.data()[i] += scale * kWeights[j] / 2 * term.data()[i];
    }
  }
  return log;
}

class MatrixFunctionKernel : public Kernel {
 public:
  explicit MatrixFunctionKernel(Triangle (*function)(const Triangle&)) : function_(function) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.shape()));
    if (x.num_elements() == 0) return absl::OkStatus();
    context.ParallelFor(m.count, Cubic(m.rows), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Matrix<Complex> a = LoadMatrix<Complex>(x, i, m.rows, m.rows);
        const double nan = std::numeric_limits<double>::quiet_NaN();
        Matrix<Complex> y(m.rows, m.rows, Complex(nan, nan));
        if (a.AllFinite()) {
          const SchurFactors f = FactorSchur(a);
          Matrix<Complex> result = Multiply(Multiply(f.u, function_(f.t)), f.u.Adjoint());
          double size = 0, imaginary = 0;
          for (int64_t k = 0; k < result.size(); ++k) {
            size = std::max(size, std::abs(result.data()[k]));
            imaginary = std::max(imaginary, std::fabs(result.data()[k].imag()));
          }
          // A real matrix without a real root has none.
          if (f.converged && (IsComplex(x.dtype()) || imaginary <= 1e-6 * (1 + size))) y = std::move(result);
        }
        StoreMatrix<Complex>(y, i, out);
      }
    });
    return absl::OkStatus();
  }

 private:
  Triangle (*const function_)(const Triangle&);
};

absl::Status EigShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, MatrixShape(c, 0, true));
  ASSIGN_OR_RETURN(const bool vectors, c.Attr<bool>("compute_v"));
  if (!x.has_rank()) return absl::OkStatus();
  c.set_output(0, BatchWith(x, {x.dim(x.rank() - 1)}));
  if (vectors) c.set_output(1, x);
  return absl::OkStatus();
}

absl::Status SquareShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, MatrixShape(c, 0, true));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

const OpRegistration kOps[] = {
    Op("SelfAdjointEigV2")
        .Input("input: T")
        .Output("e: T")
        .Output("v: T")
        .Attr("compute_v: bool = true")
        .Attr("T: {double, float, half, complex64, complex128}")
        .Shape(EigShape)
        .Kernel<EigKernel>(true),
    Op("Eig")
        .Input("input: T")
        .Output("e: Tout")
        .Output("v: Tout")
        .Attr("compute_v: bool = true")
        .Attr("T: {float, double, complex64, complex128}")
        .Attr("Tout: {complex64, complex128}")
        .Shape(EigShape)
        .Kernel<EigKernel>(false),
    Op("MatrixSquareRoot")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: {double, float, half, complex64, complex128}")
        .Shape(SquareShape)
        .Kernel<MatrixFunctionKernel>(SquareRoot),
    Op("MatrixLogarithm")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: {complex64, complex128}")
        .Shape(SquareShape)
        .Kernel<MatrixFunctionKernel>(Logarithm),
};

}  // namespace
}  // namespace thalweg
