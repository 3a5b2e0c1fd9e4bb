// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(TransposeTest, Values) {
  ExpectTensor(Result("Transpose", {Counting({2, 3}), Ints({1, 0})}), Tensor::Of<float>({3, 2}, {1, 4, 2, 5, 3, 6}));
  ExpectTensor(Result("Transpose", {Counting({2, 1, 2}), Longs({2, 1, 0})}),
               Tensor::Of<float>({2, 1, 2}, {1, 3, 2, 4}));
  ExpectTensor(Result("Transpose", {Tensor::Of<std::string>({1, 2}, {"a", "b"}), Ints({1, 0})}),
               Tensor::Of<std::string>({2, 1}, {"a", "b"}));
  ExpectTensor(Result("Transpose", {Int(3), Ints({})}), Int(3));
  ExpectTensor(Result("Transpose", {Tensor(kFloat, {2, 0}), Ints({1, 0})}), Tensor(kFloat, {0, 2}));
}

// All permutations, over all element sizes, with sizes around that of a block.
TEST(TransposeTest, AgainstDefinition) {
  const Shape shape({17, 3, 33});
  for (const DType dtype : {kInt8, kHalf, kFloat, kDouble}) {
    const Tensor x = TestValues(dtype, shape, -100, 100);
    const int64_t size = static_cast<int64_t>(ElementSize(dtype));
    for (const std::vector<int32_t>& p : {std::vector<int32_t>{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
      const Tensor y = Result("Transpose", {x, Tensor::Vector<int32_t>(absl::MakeConstSpan(p))});
      int64_t at[3];
      for (at[0] = 0; at[0] < y.dim(0); ++at[0]) {
        for (at[1] = 0; at[1] < y.dim(1); ++at[1]) {
          for (at[2] = 0; at[2] < y.dim(2); ++at[2]) {
            int64_t from[3];
            for (int d = 0; d < 3; ++d) from[p[d]] = at[d];
            const int64_t i = (at[0] * y.dim(1) + at[1]) * y.dim(2) + at[2];
            const int64_t k = (from[0] * shape.dim(1) + from[1]) * shape.dim(2) + from[2];
            ASSERT_EQ(memcmp(static_cast<char*>(y.raw()) + i * size, static_cast<char*>(x.raw()) + k * size, size), 0);
          }
        }
      }
    }
  }
}

TEST(TransposeTest, SharesMemoryIfOrderStays) {
  const Tensor x = Counting({2, 1, 3});
  const Tensor y = Result("Transpose", {x, Ints({1, 0, 2})});
  ExpectTensor(y, Counting({1, 2, 3}));
  EXPECT_TRUE(y.SharesBufferWith(x));
}

TEST(TransposeTest, BadInput) {
  const Tensor x = Counting({2, 3});
  ExpectInvalid(KernelError("Transpose", {x, Ints({0})}),
                "transpose expects a vector of size 2. But input(1) is a vector of size 1");
  ExpectInvalid(KernelError("Transpose", {x, Ints({0, 0})}), "1 is missing from {0,0}.");
  ExpectInvalid(KernelError("Transpose", {x, Ints({0, 2})}), "2 is out of range [0 .. 2)");
  ExpectInvalid(KernelError("Transpose", {x, Int(0)}), "perm must be rank 1");
}

TEST(TransposeTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  EXPECT_EQ(Transpose(s, Placeholder(s, kFloat, {-1, 3, 4}), {2, 0, 1}).shape().ToString(), "[4,?,3]");
  EXPECT_EQ(Transpose(s, Placeholder(s, kFloat), Placeholder(s, kInt32, {2})).shape().ToString(), "[?,?]");
}

TEST(TransposeTest, Gradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Transpose(s, x[0], {2, 0, 1});
      },
      {TestValues(kDouble, {2, 3, 2})});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return ConjugateTranspose(s, x[0], Const(s, {1, 0}));
      },
      {TestValues(kDouble, {2, 3})});
}

TEST(ConjugateTransposeTest, Values) {
  using C = std::complex<float>;
  ExpectTensor(Result("ConjugateTranspose", {Tensor::Of<C>({1, 2}, {C(1, 2), C(3, -4)}), Ints({1, 0})}),
               Tensor::Of<C>({2, 1}, {C(1, -2), C(3, 4)}));
}

TEST(InvertPermutationTest, Values) {
  ExpectTensor(Result("InvertPermutation", {Ints({2, 0, 1})}), Ints({1, 2, 0}));
  ExpectTensor(Result("InvertPermutation", {Longs({})}), Longs({}));
  ExpectInvalid(KernelError("InvertPermutation", {Ints({0, 3, 1})}), "3 is not between 0 and 3");
  ExpectInvalid(KernelError("InvertPermutation", {Ints({0, 0})}), "0 is duplicated in the input.");
  ExpectInvalid(KernelError("InvertPermutation", {Int(0)}), "invert_permutation expects a 1D vector.");
}

}  // namespace
}  // namespace thalweg
