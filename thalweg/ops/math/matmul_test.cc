// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/kernel/single_thread.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/gemm.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

// By definition, in double.
Tensor Reference(const Tensor& a, const Tensor& b, bool ta, bool tb) {
  const int64_t m = a.dim(ta ? 1 : 0), k = a.dim(ta ? 0 : 1), n = b.dim(tb ? 0 : 1);
  Tensor c(a.dtype(), {m, n});
  EXPECT_TRUE(Dispatch(RealTypes(), a.dtype(), [&]<typename T>() {
                for (int64_t i = 0; i < m; ++i) {
                  for (int64_t j = 0; j < n; ++j) {
                    double sum = 0;
                    for (int64_t p = 0; p < k; ++p) {
                      sum += static_cast<double>(a.data<T>()[ta ? p * m + i : i * k + p]) *
                             static_cast<double>(b.data<T>()[tb ? j * k + p : p * n + j]);
                    }
                    c.mutable_data<T>()[i * n + j] = static_cast<T>(sum);
                  }
                }
                return absl::OkStatus();
              }).ok());
  return c;
}

void CheckProduct(DType dtype, int64_t m, int64_t n, int64_t k, double tolerance) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      SCOPED_TRACE(absl::StrCat(ToString(dtype), " ", m, "x", n, "x", k, " ", ta, tb));
      const double range = IsInteger(dtype) ? 10 : 1;
      const Tensor a = TestValues(dtype, ta ? Shape({k, m}) : Shape({m, k}), IsInteger(dtype) ? 0 : -1, range);
      const Tensor b = TestValues(dtype, tb ? Shape({n, k}) : Shape({k, n}), IsInteger(dtype) ? 0 : -1, range, 2);
      absl::StatusOr<std::vector<Tensor>> c = RunOp("MatMul", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}});
      ASSERT_TRUE(c.ok()) << c.status();
      ExpectTensor((*c)[0], Reference(a, b, ta, tb), tolerance);
    }
  }
}

TEST(MatMulTest, Small) {
  ExpectTensor((*RunOp("MatMul", {Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
                                  Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6})}))[0],
               Tensor::Of<float>({2, 2}, {22, 28, 49, 64}));
}

TEST(MatMulTest, AllTransposesAndSizes) {
  CheckProduct(kFloat, 1, 1, 1, 1e-5);
  CheckProduct(kFloat, 3, 5, 7, 1e-5);
  CheckProduct(kFloat, 32, 10, 50, 1e-4);
  CheckProduct(kFloat, 33, 65, 130, 1e-4);
  CheckProduct(kFloat, 1, 100, 100, 1e-4);
  CheckProduct(kDouble, 3, 5, 7, 1e-12);
  CheckProduct(kDouble, 70, 300, 200, 1e-10);
  CheckProduct(kDouble, 65, 9, 400, 1e-10);
}

TEST(MatMulTest, LargeOnesAreSharedBetweenThreads) {
  CheckProduct(kFloat, 130, 150, 200, 1e-3);
  CheckProduct(kFloat, 200, 90, 200, 1e-3);
  CheckProduct(kFloat, 64, 500, 100, 1e-3);  // whole tiles of columns, and some that are left over
  CheckProduct(kFloat, 300, 200, 60, 1e-3);  // columns, though there are more rows
  CheckProduct(kFloat, 4, 1000, 500, 1e-3);  // too few rows to share what is left over
  CheckProduct(kFloat, 40, 40, 1300, 1e-2);  // less than a tile
  CheckProduct(kDouble, 130, 150, 100, 1e-10);
  CheckProduct(kInt32, 64, 64, 64, 0);
}

// Sums do not depend on how many threads came to help.
TEST(MatMulTest, AloneOrSharedIsTheSame) {
  for (const Shape& shape : {Shape({8, 1300}), Shape({64, 500}), Shape({300, 200})}) {
    const Tensor a = TestValues(kFloat, shape, -1, 1), b = TestValues(kFloat, {shape.dim(1), 500}, -1, 1, 2);
    const Tensor shared = (*RunOp("MatMul", {a, b}))[0];
    const ScopedSingleThread single_thread(true);
    EXPECT_EQ((*RunOp("MatMul", {a, b}))[0].flat<float>(), shared.flat<float>()) << shape.ToString();
  }
}

// Rows a multiple of 2 KB apart: panels of such matrices are copied.
TEST(MatMulTest, RowsThatCollideInCaches) {
  CheckProduct(kFloat, 40, 1024, 300, 1e-4);  // panels of B
  CheckProduct(kFloat, 1024, 40, 300, 1e-4);  // panels of A, if it is transposed
  CheckProduct(kFloat, 512, 512, 24, 1e-4);   // panels of both
  CheckProduct(kFloat, 15, 512, 300, 1e-4);   // too few rows for copies to pay
}

TEST(SingleThreadedSgemmTest, AddsAndLeavesGaps) {
  // B is the left part of rows of 1024 numbers, and so is C.
  constexpr int64_t kRows = 20, kColumns = 530, kDepth = 270, kStride = 1024;
  const Tensor a = TestValues(kFloat, {kRows, kDepth}, -1, 1), b = TestValues(kFloat, {kDepth, kStride}, -1, 1, 2);
  Tensor c = TestValues(kFloat, {kRows, kStride}, -1, 1, 3);
  Tensor expected = Reference(a, b, false, false);
  for (int64_t i = 0; i < c.num_elements(); ++i) {
    float& value = expected.mutable_data<float>()[i];
    value = c.data<float>()[i] + (i % kStride < kColumns ? value : 0);
  }
  SingleThreadedSgemm(false, false, kRows, kColumns, kDepth, a.data<float>(), kDepth, b.data<float>(), kStride, 1,
                      c.mutable_data<float>(), kStride);
  ExpectTensor(c, expected, 1e-4);
}

TEST(MatMulTest, OtherTypes) {
  for (const DType t : {kInt32, kInt64, kUint8, kUint16, kUint32, kUint64}) CheckProduct(t, 2, 3, 2, 0);
  CheckProduct(kHalf, 5, 6, 7, 1e-2);
  CheckProduct(kBfloat16, 5, 6, 7, 3e-2);
  using C = std::complex<float>;
  ExpectTensor(
      (*RunOp("MatMul", {Tensor::Of<C>({1, 2}, {C(1, 1), C(0, 2)}), Tensor::Of<C>({2, 1}, {C(1, 0), C(0, 1)})}))[0],
      Tensor::Of<C>({1, 1}, {C(-1, 1)}));
}

TEST(MatMulTest, Empty) {
  ExpectTensor((*RunOp("MatMul", {Tensor(kFloat, {0, 3}), Tensor(kFloat, {3, 2})}))[0], Tensor(kFloat, {0, 2}));
  ExpectTensor((*RunOp("MatMul", {Tensor(kFloat, {2, 0}), Tensor(kFloat, {0, 2})}))[0], Tensor::Zeros(kFloat, {2, 2}));
}

TEST(MatMulTest, BadInput) {
  absl::Status status = RunOp("MatMul", {Tensor(kFloat, {2, 3}), Tensor(kFloat, {4, 5})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("3 and 4"));
  EXPECT_EQ(RunOp("MatMul", {Tensor(kFloat, {2}), Tensor(kFloat, {2, 5})}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MatMulTest, Shapes) {
  EXPECT_EQ(*InferShape("MatMul", {{kFloat, {-1, 784}}, {kFloat, {784, 10}}}), "[?,10]");
  EXPECT_EQ(
      *InferShape("MatMul", {{kFloat, {784, -1}}, {kFloat, {10, 784}}}, {{"transpose_a", true}, {"transpose_b", true}}),
      "[?,10]");
  EXPECT_FALSE(InferShape("MatMul", {{kFloat, {2, 3, 4}}, {kFloat, {4, 5}}}).ok());
}

TEST(MatMulTest, Gradients) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      ExpectGradient(
          [&](const Scope& s, const std::vector<Output>& in) {
            return MatMul(s, in[0], in[1], {.transpose_a = ta, .transpose_b = tb});
          },
          {TestValues(kDouble, ta ? Shape({3, 2}) : Shape({2, 3})),
           TestValues(kDouble, tb ? Shape({4, 3}) : Shape({3, 4}), -1, 1, 2)});
    }
  }
}

TEST(BatchMatMulTest, Batches) {
  const Tensor x = TestValues(kFloat, {2, 3, 4}), y = TestValues(kFloat, {2, 4, 5}, -1, 1, 2);
  for (const char* op : {"BatchMatMul", "BatchMatMulV2"}) {
    absl::StatusOr<std::vector<Tensor>> z = RunOp(op, {x, y});
    ASSERT_TRUE(z.ok()) << z.status();
    ASSERT_EQ((*z)[0].shape().ToString(), "[2,3,5]");
    for (int b = 0; b < 2; ++b) {
      ExpectTensor((*z)[0].Rows(b, b + 1).WithShape({3, 5}),
                   Reference(x.Rows(b, b + 1).WithShape({3, 4}), y.Rows(b, b + 1).WithShape({4, 5}), false, false));
    }
  }
}

TEST(BatchMatMulTest, BroadcastsBatches) {
  const Tensor x = TestValues(kFloat, {2, 1, 3, 4}), y = TestValues(kFloat, {5, 4, 2}, -1, 1, 2);
  absl::StatusOr<std::vector<Tensor>> z = RunOp("BatchMatMulV2", {x, y});
  ASSERT_TRUE(z.ok()) << z.status();
  ASSERT_EQ((*z)[0].shape().ToString(), "[2,5,3,2]");
  const Tensor flat = (*z)[0].WithShape({10, 3, 2});
  for (int i = 0; i < 10; ++i) {
    const Tensor a = x.WithShape({2, 3, 4}).Rows(i / 5, i / 5 + 1).WithShape({3, 4});
    const Tensor b = y.Rows(i % 5, i % 5 + 1).WithShape({4, 2});
    ExpectTensor(flat.Rows(i, i + 1).WithShape({3, 2}), Reference(a, b, false, false));
  }
  EXPECT_EQ(RunOp("BatchMatMul", {x, y}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("BatchMatMulV2", {x, Tensor(kFloat, {3, 5, 4, 2})}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("BatchMatMulV2", {Tensor(kFloat, {2}), y}).status().code(), absl::StatusCode::kInvalidArgument);
}

// tf.matmul(a_is_sparse=True) sends SparseMatMul: a float product of float and bfloat16.
TEST(SparseMatMulTest, ValuesAndGradients) {
  const Tensor a = Tensor::Of<float>({2, 3}, {0, 1, 0, 2, 0, 3}), b = Tensor::Of<float>({3, 1}, {4, 5, 6});
  const std::vector<AttrArg> sparse = {{"a_is_sparse", true}};
  ExpectTensor((*RunOp("SparseMatMul", {a, b}, sparse))[0], Tensor::Of<float>({2, 1}, {5, 26}));
  const Tensor narrow = (*RunOp("Cast", {b}, {{"DstT", kBfloat16}}))[0];
  ExpectTensor((*RunOp("SparseMatMul", {a, narrow}, sparse))[0], Tensor::Of<float>({2, 1}, {5, 26}));
  EXPECT_FALSE(RunOp("SparseMatMul", {a, a}, sparse).ok());
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      ExpectGradient(
          [&](const Scope& s, const std::vector<Output>& in) {
            return Output(s.Add("SparseMatMul", {in[0], in[1]},
                                {{"transpose_a", ta}, {"transpose_b", tb}, {"b_is_sparse", true}}));
          },
          {TestValues(kFloat, ta ? Shape({3, 2}) : Shape({2, 3})),
           TestValues(kFloat, tb ? Shape({4, 3}) : Shape({3, 4}), -1, 1, 2)},
          1e-2);
    }
  }
}

TEST(BatchMatMulTest, AdjointsConjugate) {
  using C = std::complex<double>;
  const Tensor x = Tensor::Of<C>({1, 2, 1}, {C(1, 2), C(0, 1)}), y = Tensor::Of<C>({1, 2, 1}, {C(1, 1), C(2, 0)});
  ExpectTensor((*RunOp("BatchMatMulV2", {x, y}, {{"adj_x", true}}))[0], Tensor::Of<C>({1, 1, 1}, {C(3, -3)}));
}

TEST(BatchMatMulTest, MixedTypes) {
  ExpectTensor(
      (*RunOp("BatchMatMulV3", {Tensor::Of<int8_t>({1, 2}, {100, 100}), Tensor::Of<int8_t>({2, 1}, {100, 100})},
              {{"Tout", kInt32}}))[0],
      Tensor::Of<int32_t>({1, 1}, {20000}));
}

TEST(BatchMatMulTest, Gradients) {
  for (const bool ax : {false, true}) {
    for (const bool ay : {false, true}) {
      const auto build = [&](const Scope& s, const std::vector<Output>& in) {
        return BatchMatMul(s, in[0], in[1], {.adj_x = ax, .adj_y = ay});
      };
      ExpectGradient(build, {TestValues(kDouble, ax ? Shape({2, 3, 2}) : Shape({2, 2, 3})),
                             TestValues(kDouble, ay ? Shape({2, 2, 3}) : Shape({2, 3, 2}), -1, 1, 2)});
      ExpectGradient(build, {TestValues(kDouble, ax ? Shape({2, 1, 3, 2}) : Shape({2, 1, 2, 3})),
                             TestValues(kDouble, ay ? Shape({2, 2, 3}) : Shape({2, 3, 2}), -1, 1, 2)});
    }
  }
}

}  // namespace
}  // namespace thalweg
