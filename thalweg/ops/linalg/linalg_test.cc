// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <complex>

#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/linalg_ops.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

std::vector<Tensor> Results(absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs = {}) {
  absl::StatusOr<std::vector<Tensor>> y = RunOp(op, std::move(inputs), std::move(attrs));
  EXPECT_TRUE(y.ok()) << op << ": " << y.status();
  return y.ok() ? *y : std::vector<Tensor>(3);
}

// a b, or with the adjoint of b.
Tensor Product(const Tensor& a, const Tensor& b, bool transpose = false) {
  return Results("MatMul", {a, b}, {{"transpose_b", transpose}})[0];
}

const Tensor kMatrix = Tensor::Of<double>({3, 3}, {4, 1, 2, 1, 5, 3, 2, 3, 6});
const Tensor kIdentity = Tensor::Of<double>({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});

TEST(LinalgTest, Solving) {
  ExpectTensor(Product(kMatrix, Results("MatrixInverse", {kMatrix})[0]), kIdentity);
  ExpectTensor(Results("MatrixSolve", {kMatrix, kMatrix})[0], kIdentity);
  ExpectTensor(Results("MatrixDeterminant", {kMatrix})[0], Tensor::Scalar<double>(70));
  const Tensor l = Results("Cholesky", {kMatrix})[0];
  ExpectTensor(Product(l, l, true), kMatrix);
  ExpectTensor(Results("MatrixTriangularSolve", {l, l})[0], kIdentity);
  ExpectTensor(Results("Lu", {Tensor::Of<double>({2, 2}, {0, 1, 2, 3})})[1], Tensor::Vector<int32_t>({1, 0}));
}

TEST(LinalgTest, Decompositions) {
  for (const Shape& shape : {Shape({3, 3}), Shape({5, 3}), Shape({2, 4})}) {
    const Tensor x = TestValues(kDouble, shape);
    const std::vector<Tensor> qr = Results("Qr", {x}, {{"full_matrices", true}});
    ExpectTensor(Product(qr[0], qr[1]), x);
    const std::vector<Tensor> svd = Results("Svd", {x});
    const Tensor s = Results("Diag", {svd[0]})[0];
    ExpectTensor(Product(Product(svd[1], s), svd[2], true), x);
  }
  const std::vector<Tensor> eig = Results("SelfAdjointEigV2", {kMatrix});
  ExpectTensor(Product(Product(eig[1], Results("Diag", {eig[0]})[0]), eig[1], true), kMatrix);
  const Tensor root = Results("MatrixSquareRoot", {kMatrix})[0];
  ExpectTensor(Product(root, root), kMatrix);
  // A rotation has the eigenvalues +-i.
  const Tensor e = Results("Eig", {Tensor::Of<double>({2, 2}, {0, 1, -1, 0})}, {{"Tout", kComplex128}})[0];
  EXPECT_NEAR(std::abs(e.data<std::complex<double>>()[0].imag()), 1, 1e-12);
}

// Tiny matrices have algorithms of their own. Singular ones, and those of very large or small elements, do not.
TEST(LinalgTest, TinyDecompositions) {
  const Tensor singular = Tensor::Of<double>({3, 3}, {1, 2, 3, 2, 4, 6, 1, 0, 1});
  std::vector<Tensor> matrices = {singular, Tensor::Zeros(kDouble, {4, 4}), kIdentity, kMatrix};
  for (const double scale : {1.0, 1e-200, 1e200}) {
    for (int64_t n = 1; n <= 5; ++n) {
      matrices.push_back(Results("Mul", {TestValues(kDouble, {n, n}, -1, 1), Tensor::Scalar<double>(scale)})[0]);
    }
  }
  for (const Tensor& x : matrices) {
    double largest = 1e-300;
    for (const double value : x.flat<double>()) largest = std::max(largest, std::abs(value));
    const double tolerance = 1e-13 * largest;
    const std::vector<Tensor> svd = Results("Svd", {x});
    ExpectTensor(Product(Product(svd[1], Results("Diag", {svd[0]})[0]), svd[2], true), x, tolerance);
    ExpectTensor(Results("Svd", {x}, {{"compute_uv", false}})[0], svd[0], tolerance);
    for (int64_t i = 1; i < svd[0].dim(0); ++i) EXPECT_LE(svd[0].flat<double>()[i], svd[0].flat<double>()[i - 1]);
    const Tensor transposed = Results("Transpose", {x, Tensor::Vector<int32_t>({1, 0})})[0];
    const Tensor symmetric = Results("AddV2", {x, transposed})[0];
    const std::vector<Tensor> eig = Results("SelfAdjointEigV2", {symmetric});
    ExpectTensor(Product(Product(eig[1], Results("Diag", {eig[0]})[0]), eig[1], true), symmetric, 2 * tolerance);
    for (int64_t i = 1; i < eig[0].dim(0); ++i) EXPECT_GE(eig[0].flat<double>()[i], eig[0].flat<double>()[i - 1]);
    for (const Tensor& vectors : {svd[1], svd[2], eig[1]}) {
      const Tensor product = Product(vectors, vectors, true);
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        EXPECT_NEAR(product.data<double>()[i], i % (x.dim(0) + 1) == 0 ? 1 : 0, 1e-13);
      }
    }
  }
}

// a v = v diag(e), and columns of v of length 1. Pairs of eigenvalues are exact conjugates.
TEST(LinalgTest, SmallEigen) {
  using Number = std::complex<double>;
  std::vector<Tensor> matrices = {
      kMatrix,
      kIdentity,
      Tensor::Zeros(kDouble, {4, 4}),
      Tensor::Of<double>({2, 2}, {0, 1, 0, 0}),                                      // defective
      Tensor::Of<double>({4, 4}, {0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}),  // where equal shifts go in circles
      Tensor::Of<double>({4, 4}, {1, 2, 3, 4, 0, 5, 6, 7, 0, 0, 0, 9, 0, 0, -9, 0}),  // a block on the diagonal
      Tensor::Of<double>({3, 3}, {1, 1e8, 1e-8, 1e-8, 2, 1e8, 1e8, 1e-8, 3})};        // badly scaled
  for (int seed = 0; seed < 20; ++seed) {
    for (int64_t n = 1; n <= 5; ++n) matrices.push_back(TestValues(kDouble, {n, n}, -1, 1, seed));
  }
  for (const Tensor& x : matrices) {
    const int64_t n = x.dim(0);
    double largest = 0;
    for (const double value : x.flat<double>()) largest = std::max(largest, std::abs(value));
    const std::vector<Tensor> eig = Results("Eig", {x}, {{"Tout", kComplex128}});
    const Number *const values = eig[0].data<Number>(), *const vectors = eig[1].data<Number>();
    for (int64_t k = 0; k < n; ++k) {
      double length = 0;
      for (int64_t i = 0; i < n; ++i) {
        Number sum = -values[k] * vectors[i * n + k];
        for (int64_t j = 0; j < n; ++j) sum += x.data<double>()[i * n + j] * vectors[j * n + k];
        EXPECT_LE(std::abs(sum), 1e-13 * largest);
        length += std::norm(vectors[i * n + k]);
      }
      EXPECT_NEAR(length, 1, 1e-13);
      if (values[k].imag() > 0) {
        ASSERT_LT(k + 1, n);
        EXPECT_EQ(values[k + 1], std::conj(values[k]));
        EXPECT_EQ(vectors[k + 1], std::conj(vectors[k]));
      }
    }
  }
}

// The square root of a symmetric matrix comes from its eigenvectors, that of another from its Schur form.
TEST(LinalgTest, SquareRoots) {
  for (const int64_t n : {1, 2, 3, 4, 5, 20}) {
    const Tensor x = TestValues(kDouble, {n, n}, -1, 1), gram = Product(x, x, true);
    Tensor near = Results("Mul", {x, Tensor::Scalar<double>(1.0 / 20)})[0];
    for (int64_t i = 0; i < n; ++i) near.mutable_data<double>()[i * n + i] += 1;
    for (const Tensor& matrix : {gram, near}) {
      const Tensor root = Results("MatrixSquareRoot", {matrix})[0];
      ExpectTensor(Product(root, root), matrix, 1e-12);
    }
  }
}

// Sizes around those of the blocks that LU is cut into.
TEST(LinalgTest, LuOfAllSizes) {
  for (const DType type : {kFloat, kDouble, kComplex128}) {
    for (const int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 40, 65}) {
      SCOPED_TRACE(n);
      Tensor x = TestValues(type == kFloat ? kFloat : kDouble, {n, n}, -1, 1);
      if (type == kComplex128) {
        x = Results("Complex", {x, TestValues(kDouble, {n, n}, -1, 1, 2)}, {{"Tout", kComplex128}})[0];
      }
      Tensor identity = Tensor::Zeros(kDouble, {n, n});
      for (int64_t i = 0; i < n; ++i) identity.mutable_data<double>()[i * n + i] = 1;
      const Tensor product = Product(x, Results("MatrixInverse", {x})[0]);
      ExpectTensor(Results("Cast", {product}, {{"DstT", kDouble}})[0], identity, type == kFloat ? 1e-2 : 1e-10);
      // Row p[i] of x is row i of l u, and no factor of l is above 1.
      const std::vector<Tensor> lu = Results("Lu", {x});
      const Tensor below =
          Results("MatrixBandPart", {lu[0], Tensor::Scalar<int64_t>(-1), Tensor::Scalar<int64_t>(0)})[0];
      const Tensor upper =
          Results("MatrixBandPart", {lu[0], Tensor::Scalar<int64_t>(0), Tensor::Scalar<int64_t>(-1)})[0];
      const Tensor ones = Results("Cast", {identity}, {{"DstT", type}})[0];
      const Tensor diagonal = Results("Mul", {lu[0], ones})[0];
      const Tensor lower = Results("AddV2", {Results("Sub", {below, diagonal})[0], ones})[0];
      ExpectTensor(Product(lower, upper), Results("GatherV2", {x, lu[1], Tensor::Scalar<int32_t>(0)})[0],
                   type == kFloat ? 1e-5 : 1e-13);
      const Tensor sizes =
          type == kComplex128 ? Results("ComplexAbs", {lower}, {{"Tout", kDouble}})[0] : Results("Abs", {lower})[0];
      const Tensor wide = Results("Cast", {sizes}, {{"DstT", kDouble}})[0];
      for (const double size : wide.flat<double>()) EXPECT_LE(size, 1 + 1e-14);
    }
  }
}

// Diagonals whose pivots are below them, on them, and zero; one, four and other numbers of right-hand sides.
TEST(LinalgTest, Tridiagonal) {
  for (const int64_t n : {1, 2, 3, 50}) {
    for (const int64_t k : {1, 3, 4}) {
      Tensor diagonals = TestValues(kDouble, {3, n}, -1, 1);
      const Tensor rhs = TestValues(kDouble, {n, k}, -1, 1, 2);
      if (n > 2) diagonals.mutable_data<double>()[n + 1] = 0;
      const double* const d = diagonals.data<double>();
      const Tensor x = Results("TridiagonalSolve", {diagonals, rhs})[0];
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          const double* const at = x.data<double>() + i * k + j;
          double sum = d[n + i] * at[0];
          if (i + 1 < n) sum += d[i] * at[k];
          if (i > 0) sum += d[2 * n + i] * at[-k];
          EXPECT_NEAR(sum, rhs.data<double>()[i * k + j], 1e-9);
        }
      }
    }
  }
  const Tensor zero = Tensor::Of<double>({3, 2}, {1, 0, 0, 1, 0, 1}), one = Tensor::Of<double>({2, 1}, {2, 3});
  ExpectTensor(Results("TridiagonalSolve", {zero, one})[0], Tensor::Of<double>({2, 1}, {1, 2}));
  EXPECT_TRUE(std::isnan(Results("TridiagonalSolve", {zero, one}, {{"partial_pivoting", false}})[0].data<double>()[0]));
}

// Larger than the blocks that solvers cut matrices into.
TEST(LinalgTest, LargeSystems) {
  for (const DType type : {kFloat, kDouble}) {
    const Tensor x = TestValues(type, {130, 130}, -1, 1), b = TestValues(type, {130, 70}, -1, 1, 2);
    const double tolerance = type == kFloat ? 2e-2 : 1e-9;
    ExpectTensor(Product(x, Results("MatrixSolve", {x, b})[0]), b, tolerance);
    ExpectTensor(Product(Results("MatrixInverse", {x})[0], b), Results("MatrixSolve", {x, b})[0], tolerance);
    const std::vector<Tensor> svd = Results("Svd", {x});
    ExpectTensor(Product(Product(svd[1], Results("Diag", {svd[0]})[0]), svd[2], true), x, 1e-3);
  }
}

TEST(LinalgTest, MatrixExponential) {
  // The series of a nilpotent matrix ends. The exponential of a rotation's generator is the rotation.
  ExpectTensor(Results("MatrixExponential", {Tensor::Of<double>({2, 2}, {0, 3, 0, 0})})[0],
               Tensor::Of<double>({2, 2}, {1, 3, 0, 1}));
  for (const double angle : {0.5, 100.0}) {
    ExpectTensor(Results("MatrixExponential", {Tensor::Of<double>({2, 2}, {0, -angle, angle, 0})})[0],
                 Tensor::Of<double>({2, 2}, {std::cos(angle), -std::sin(angle), std::sin(angle), std::cos(angle)}),
                 1e-9);
  }
}

// Bands are solved as they are: as a matrix this would have 40 billion elements.
TEST(LinalgTest, LongBands) {
  const int64_t n = 200000;
  Tensor bands(kFloat, {2, n});
  std::fill_n(bands.mutable_data<float>(), n, 2.0f);
  std::fill_n(bands.mutable_data<float>() + n, n, -1.0f);
  Tensor ones(kFloat, {n, 1});
  std::fill_n(ones.mutable_data<float>(), n, 1.0f);
  // 2 x_i - x_(i-1) = 1 goes to 1.
  const Tensor x = Results("BandedTriangularSolve", {bands, ones})[0];
  EXPECT_FLOAT_EQ(x.data<float>()[0], 0.5f);
  EXPECT_FLOAT_EQ(x.data<float>()[1], 0.75f);
  EXPECT_FLOAT_EQ(x.data<float>()[n - 1], 1);
}

// All zero: no direction is better than another, but the bases are complete.
TEST(LinalgTest, RankZero) {
  const std::vector<Tensor> svd = Results("Svd", {Tensor::Zeros(kDouble, {3, 2})}, {{"full_matrices", true}});
  ExpectTensor(svd[0], Tensor::Vector<double>({0, 0}));
  ExpectTensor(Product(svd[1], svd[1], true), kIdentity);
}

TEST(LinalgTest, Gradients) {
  const auto symmetric = [](const Scope& s, Output x) {
    return Output(s.Add("BatchMatMulV2", {x, x}, {{"adj_y", true}}));
  };
  ExpectGradient([&](const Scope& s, const std::vector<Output>& v) { return Cholesky(s, symmetric(s, v[0])); },
                 {TestValues(kDouble, {3, 3}, 0.5, 2)}, 1e-4);
  ExpectGradient([](const Scope& s, const std::vector<Output>& v) { return MatrixInverse(s, v[0]); }, {kMatrix});
  for (const bool adjoint : {false, true}) {
    ExpectGradient([&](const Scope& s, const std::vector<Output>& v) { return MatrixSolve(s, v[0], v[1], {adjoint}); },
                   {kMatrix, TestValues(kDouble, {3, 2})});
    for (const bool lower : {false, true}) {
      ExpectGradient(
          [&](const Scope& s, const std::vector<Output>& v) {
            return Output(s.Add("MatrixTriangularSolve", {v[0], v[1]}, {{"lower", lower}, {"adjoint", adjoint}}));
          },
          {TestValues(kDouble, {2, 3, 3}, 1, 2), TestValues(kDouble, {2, 3, 2})}, 1e-4);
    }
  }
  const Tensor matrices = TestValues(kDouble, {2, 3, 3}, -2, 2);
  ExpectGradient([](const Scope& s, const std::vector<Output>& v) { return MatrixDeterminant(s, v[0]); }, {matrices},
                 1e-4);
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) { return s.Add("LogMatrixDeterminant", {v[0]})->out(1); },
      {matrices}, 1e-4);
}

TEST(LinalgTest, BadInput) {
  const Tensor flat = TestValues(kFloat, {2, 3}), zero = Tensor::Zeros(kFloat, {2, 2});
  for (const char* op : {"Cholesky", "MatrixInverse", "MatrixDeterminant", "Lu", "SelfAdjointEigV2"}) {
    EXPECT_FALSE(RunOp(op, {flat}).ok()) << op;
    EXPECT_FALSE(RunOp(op, {TestValues(kFloat, {3})}).ok()) << op;
  }
  EXPECT_THAT(RunOp("MatrixInverse", {zero}).status().message(), HasSubstr("not invertible"));
  EXPECT_FALSE(RunOp("MatrixSolve", {zero, flat}).ok());
  EXPECT_FALSE(RunOp("MatrixTriangularSolve", {TestValues(kFloat, {2, 2, 2}), TestValues(kFloat, {3, 2, 2})}).ok());
  EXPECT_FALSE(RunOp("BandedTriangularSolve", {Tensor(kFloat, {0, 2}), zero}).ok());
  EXPECT_FALSE(RunOp("TridiagonalSolve", {flat, zero}).ok());
  // Sides of nothing, and no memory for vectors that nobody wants.
  const Tensor none(kDouble, Shape({0, int64_t{1} << 40}));
  EXPECT_EQ(Results("Svd", {none}, {{"full_matrices", true}, {"compute_uv", false}})[0].num_elements(), 0);
  EXPECT_FALSE(RunOp("Svd", {none}, {{"full_matrices", true}}).ok());
  EXPECT_EQ(Results("Qr", {Tensor(kDouble, Shape({int64_t{1} << 40, 0}))})[0].num_elements(), 0);
  Results("Svd", {Tensor::Zeros(kDouble, {1, 1 << 20})}, {{"full_matrices", true}, {"compute_uv", false}});
  EXPECT_FALSE(RunOp("Eig", {TestValues(kFloat, {2, 2})}, {{"Tout", kComplex128}}).ok());
  // NaN comes back, and does not loop for ever.
  const Tensor nan = Tensor::Of<double>({2, 2}, {NAN, 1, 1, 1});
  EXPECT_FALSE(RunOp("Eig", {nan}, {{"Tout", kComplex128}}).ok());
  EXPECT_TRUE(std::isnan(Results("Svd", {nan})[0].data<double>()[0]));
}

}  // namespace
}  // namespace thalweg
