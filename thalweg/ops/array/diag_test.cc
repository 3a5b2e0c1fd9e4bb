// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(DiagTest, Values) {
  ExpectTensor(Result("Diag", {FloatVector({1, 2})}), Tensor::Of<float>({2, 2}, {1, 0, 0, 2}));
  EXPECT_EQ(Result("Diag", {Counting({2, 3})}).shape().ToString(), "[2,3,2,3]");
  ExpectTensor(Result("DiagPart", {Result("Diag", {Counting({2, 3})})}), Counting({2, 3}));
  ExpectInvalid(KernelError("Diag", {Tensor::Scalar<float>(1)}), "Input must be at least rank 1, got 0");
  ExpectInvalid(KernelError("DiagPart", {Counting({2, 3})}), "Invalid shape [2,3]: dimensions 0 and 1 do not match.");
  ExpectInvalid(KernelError("DiagPart", {Counting({2})}), "The rank of the tensor should be even and positive");
  EXPECT_EQ(*InferShape("DiagPart", {{kFloat, {-1, 3}}}), "[3]");
}

TEST(DiagTest, Gradients) {
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Diag(s, x[0]); },
                 {TestValues(kDouble, {3})});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return DiagPart(s, x[0]); },
                 {TestValues(kDouble, {3, 3})});
}

TEST(MatrixDiagTest, MainDiagonal) {
  ExpectTensor(Result("MatrixDiag", {Counting({2, 2})}), Tensor::Of<float>({2, 2, 2}, {1, 0, 0, 2, 3, 0, 0, 4}));
  ExpectTensor(Result("MatrixDiagPart", {Counting({2, 3})}), FloatVector({1, 5}));
  ExpectTensor(Result("MatrixSetDiag", {Counting({2, 3}), FloatVector({8, 9})}),
               Tensor::Of<float>({2, 3}, {8, 2, 3, 4, 9, 6}));
  ExpectTensor(Result("BatchMatrixDiagPart", {Counting({2, 3})}), FloatVector({1, 5}));
}

TEST(MatrixDiagTest, Bands) {
  const Tensor x = Counting({3, 3}), zero = Tensor::Scalar<float>(0), k = Ints({-1, 1});
  // The diagonals above end at the right, those below at the left.
  const Tensor band = Tensor::Of<float>({3, 3}, {0, 2, 6, 1, 5, 9, 4, 8, 0});
  ExpectTensor(Result("MatrixDiagPartV3", {x, k, zero}), band);
  ExpectTensor(Result("MatrixDiagPartV2", {x, k, zero}), Tensor::Of<float>({3, 3}, {2, 6, 0, 1, 5, 9, 4, 8, 0}));
  ExpectTensor(Result("MatrixDiagV3", {band, k, Int(-1), Int(-1), Tensor::Scalar<float>(7)}),
               Tensor::Of<float>({3, 3}, {1, 2, 7, 4, 5, 6, 7, 8, 9}));
  ExpectTensor(Result("MatrixSetDiagV3", {Tensor::Zeros(kFloat, {3, 3}), band, k}),
               Tensor::Of<float>({3, 3}, {1, 2, 0, 4, 5, 6, 0, 8, 9}));
  ExpectTensor(Result("MatrixDiagPartV3", {x, Int(2), zero}), FloatVector({3}));
  ExpectTensor(Result("MatrixDiagV3", {FloatVector({1}), Int(1), Int(2), Int(2), zero}),
               Tensor::Of<float>({2, 2}, {0, 1, 0, 0}));
}

TEST(MatrixDiagTest, BadInput) {
  const Tensor x = Counting({3, 3}), zero = Tensor::Scalar<float>(0);
  ExpectInvalid(KernelError("MatrixDiagPartV3", {x, Int(3), zero}), "lower_diag_index is out of bound: 3");
  ExpectInvalid(KernelError("MatrixDiagPartV3", {x, Ints({1, 0}), zero}),
                "lower_diag_index must not be larger than upper_diag_index");
  ExpectInvalid(KernelError("MatrixDiagPart", {FloatVector({1})}), "input must be at least 2-dim");
  ExpectInvalid(KernelError("MatrixDiagV3", {FloatVector({1, 2}), Int(0), Int(1), Int(-1), zero}),
                "The number of rows is too small.");
  ExpectInvalid(KernelError("MatrixDiagV3", {x, Ints({0, 1}), Int(-1), Int(-1), zero}),
                "The number of diagonals provided");
  ExpectInvalid(KernelError("MatrixSetDiag", {x, FloatVector({1})}), "Either first dimensions of diagonal don't match");
}

TEST(MatrixDiagTest, InferredShapes) {
  EXPECT_EQ(*InferShape("MatrixDiag", {{kFloat, {-1, 3}}}), "[?,3,3]");
  EXPECT_EQ(*InferShape("MatrixDiagPart", {{kFloat, {-1, 3, 4}}}), "[?,3]");
}

TEST(MatrixDiagTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 3, 3}), diagonal = TestValues(kDouble, {2, 3}, -1, 1, 5);
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return MatrixDiag(s, x[0]); }, {diagonal});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return MatrixDiagPart(s, x[0]); }, {x});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return MatrixSetDiag(s, x[0], x[1]); },
                 {x, diagonal});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Output(s.Add("MatrixDiagPartV3", {x[0], Const(s, {-1, 0}), Const(s, 0.0)}));
      },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Output(s.Add("MatrixDiagV2", {x[0], Const(s, 1), Const(s, -1), Const(s, -1), Const(s, 0.0)}));
      },
      {diagonal});
}

TEST(MatrixBandPartTest, Values) {
  const auto band = [](int lower, int upper) {
    return Result("MatrixBandPart", {Counting({3, 3}), Int(lower), Int(upper)});
  };
  ExpectTensor(band(0, 0), Tensor::Of<float>({3, 3}, {1, 0, 0, 0, 5, 0, 0, 0, 9}));
  ExpectTensor(band(-1, 0), Tensor::Of<float>({3, 3}, {1, 0, 0, 4, 5, 0, 7, 8, 9}));
  ExpectTensor(band(1, -1), Tensor::Of<float>({3, 3}, {1, 2, 3, 4, 5, 6, 0, 8, 9}));
  ExpectInvalid(KernelError("MatrixBandPart", {Counting({3, 3}), Int(4), Int(0)}),
                "num_lower must be negative or less or equal to number of rows (3) got: 4");
  ExpectInvalid(KernelError("MatrixBandPart", {Counting({3}), Int(0), Int(0)}), "input must be at least 2-dim");
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) { return MatrixBandPart(s, x[0], Const(s, 1), Const(s, 0)); },
      {TestValues(kDouble, {2, 3, 4})});
}

}  // namespace
}  // namespace thalweg
