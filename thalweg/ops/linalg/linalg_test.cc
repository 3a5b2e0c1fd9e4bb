// SPDX-License-Identifier: Apache-2.0
#include <cmath>

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
  // Of a nilpotent matrix the series ends; of a rotation's generator it is the rotation.
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
