// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(ReverseTest, Values) {
  const Tensor x = Counting({2, 3});
  ExpectTensor(Result("ReverseV2", {x, Ints({0})}), Tensor::Of<float>({2, 3}, {4, 5, 6, 1, 2, 3}));
  ExpectTensor(Result("ReverseV2", {x, Longs({-1, 0})}), Tensor::Of<float>({2, 3}, {6, 5, 4, 3, 2, 1}));
  ExpectTensor(Result("Reverse", {x, Tensor::Vector<bool>({false, true})}),
               Tensor::Of<float>({2, 3}, {3, 2, 1, 6, 5, 4}));
  ExpectTensor(Result("ReverseV2", {Strings({"a", "b"}), Ints({0})}), Strings({"b", "a"}));
  EXPECT_TRUE(Result("ReverseV2", {x, Ints({})}).SharesBufferWith(x));
  ExpectTensor(Result("ReverseV2", {Int(3), Ints({})}), Int(3));
}

TEST(ReverseTest, BadInput) {
  const Tensor x = Counting({2, 3});
  ExpectInvalid(KernelError("ReverseV2", {x, Ints({2})}), "'axis'[0] = 2 is out of valid range [0, 1");
  ExpectInvalid(KernelError("ReverseV2", {x, Ints({1, -1})}), "axis 1 specified more than once.");
  ExpectInvalid(KernelError("Reverse", {x, Tensor::Vector<bool>({true})}),
                "'dims' must have the same number of values");
}

TEST(ReverseSequenceTest, Values) {
  ExpectTensor(Result("ReverseSequence", {Counting({2, 3}), Longs({2, 0})}, {{"seq_dim", 1}}),
               Tensor::Of<float>({2, 3}, {2, 1, 3, 4, 5, 6}));
  ExpectTensor(Result("ReverseSequence", {Counting({3, 2}), Ints({3, 1})}, {{"seq_dim", 0}, {"batch_dim", 1}}),
               Tensor::Of<float>({3, 2}, {5, 2, 3, 4, 1, 6}));
}

TEST(ReverseSequenceTest, BadInput) {
  const auto error = [](Tensor lengths, int seq_dim) {
    return KernelError("ReverseSequence", {Counting({2, 3}), std::move(lengths)}, {{"seq_dim", seq_dim}});
  };
  ExpectInvalid(error(Ints({4, 0}), 1), "seq_lens(0) > input.dims(1)");
  ExpectInvalid(error(Ints({0, -1}), 1), "seq_lens(1) < 0");
  ExpectInvalid(error(Ints({0}), 1), "Length of seq_lens != input.dims(0), (1 vs. 2)");
  ExpectInvalid(error(Ints({0, 0}), 2), "seq_dim must be < input rank ( 2 vs. 2)");
  ExpectInvalid(error(Ints({0, 0}), 0), "batch_dim == seq_dim == 0");
}

TEST(ReverseTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 3});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Reverse(s, x[0], Const(s, {1})); }, {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return ReverseSequence(s, x[0], Const(s, {2, 3}));
      },
      {x});
}

}  // namespace
}  // namespace thalweg
