// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

const std::vector<Tensor>& Parts() {
  static const auto* const parts =
      new std::vector<Tensor>{Tensor::Of<float>({2, 1}, {1, 2}), Tensor::Of<float>({2, 2}, {3, 4, 5, 6})};
  return *parts;
}

TEST(ConcatTest, Values) {
  ExpectTensor(Result("ConcatV2", {Parts(), Int(1)}), Tensor::Of<float>({2, 3}, {1, 3, 4, 2, 5, 6}));
  ExpectTensor(Result("Concat", {Int(-1), Parts()}), Tensor::Of<float>({2, 3}, {1, 3, 4, 2, 5, 6}));
  ExpectTensor(Result("ConcatV2", {std::vector<Tensor>{Ints({1}), Ints({}), Ints({2, 3})}, Int(0)}), Ints({1, 2, 3}));
  ExpectTensor(Result("ConcatV2", {std::vector<Tensor>{Strings({"a"}), Strings({"b"})}, Tensor::Scalar<int64_t>(0)}),
               Strings({"a", "b"}));
}

TEST(ConcatTest, Large) {
  const Tensor a = TestValues(kFloat, {300, 200}), b = TestValues(kFloat, {300, 100}, -1, 1, 2);
  const Tensor y = Result("ConcatV2", {std::vector<Tensor>{a, b}, Int(1)});
  for (int64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(y.data<float>()[i * 300 + 7], a.data<float>()[i * 200 + 7]);
    ASSERT_EQ(y.data<float>()[i * 300 + 207], b.data<float>()[i * 100 + 7]);
  }
}

TEST(ConcatTest, BadInput) {
  ExpectInvalid(KernelError("ConcatV2", {Parts(), Int(2)}),
                "ConcatOp : Expected concatenating dimensions in the range [-2, 2), but got 2");
  ExpectInvalid(KernelError("ConcatV2", {Parts(), Int(0)}),
                "ConcatOp : Dimension 1 in both shapes must be equal: shape[0] = [2,1] vs. shape[1] = [2,2]");
  ExpectInvalid(KernelError("ConcatV2", {std::vector<Tensor>{Ints({1}), Int(1)}, Int(0)}),
                "ConcatOp : Ranks of all input tensors should match: shape[0] = [1] vs. shape[1] = []");
  ExpectInvalid(KernelError("ConcatV2", {std::vector<Tensor>{Int(1), Int(1)}, Int(0)}),
                "ConcatOp : Can't concatenate scalars (use tf.stack instead)");
  ExpectInvalid(KernelError("ConcatV2", {Parts(), Ints({0, 1})}), "axis tensor should be a scalar integer");
}

TEST(ConcatTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  const Output a = Placeholder(s, kFloat, {-1, 2}), b = Placeholder(s, kFloat, {3, 4}), c = Placeholder(s, kFloat);
  EXPECT_EQ(Concat(s, {a, b}, 1).shape().ToString(), "[3,6]");
  EXPECT_EQ(Concat(s, {a, c}, -1).shape().ToString(), "[?,?]");
  EXPECT_EQ(Concat(s, {a, b}, Placeholder(s, kInt32)).shape().ToString(), "[?,?]");
}

TEST(ConcatTest, Gradients) {
  const Tensor a = TestValues(kDouble, {2, 3}), b = TestValues(kDouble, {2, 1}, -1, 1, 2);
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Concat(s, x, 1); }, {a, b});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Concat(s, x, -1); }, {a, b});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Concat(s, x, Const(s, int64_t{0})); },
                 {a, a});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Output(s.Add("Concat", {Const(s, 1), std::vector<Output>(x)}));
      },
      {a, b});
}

TEST(ConcatOffsetTest, Values) {
  const auto y = RunOp("ConcatOffset", {Int(1), std::vector<Tensor>{Ints({2, 3}), Ints({2, 4}), Ints({2, 5})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Ints({0, 0}));
  ExpectTensor((*y)[1], Ints({0, 3}));
  ExpectTensor((*y)[2], Ints({0, 7}));
  ExpectInvalid(
      KernelError("ConcatOffset", {Int(0), std::vector<Tensor>{Ints({2, 3}), Ints({2, 4})}}),
      "All dimensions except 0 must match. Input 1 has shape [2 4] and doesn't match input 0 with shape [2 3].");
  ExpectInvalid(KernelError("ConcatOffset", {Int(0), std::vector<Tensor>{Ints({2, 3}), Ints({2})}}),
                "input 1 should contain 2 elements, but got 1");
  ExpectInvalid(KernelError("ConcatOffset", {Int(2), std::vector<Tensor>{Ints({2, 3}), Ints({2, 3})}}),
                "Concat dim is out of range: 2 vs. 2");
}

}  // namespace
}  // namespace thalweg
