// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

Tensor Paddings(std::initializer_list<int32_t> v) {
  return Tensor::Of<int32_t>(Shape({static_cast<int64_t>(v.size()) / 2, 2}), v);
}

TEST(PadTest, Values) {
  ExpectTensor(Result("Pad", {Counting({1, 2}), Paddings({1, 0, 0, 2})}),
               Tensor::Of<float>({2, 4}, {0, 0, 0, 0, 1, 2, 0, 0}));
  ExpectTensor(Result("PadV2", {Ints({1, 2}), Paddings({1, 1}), Int(9)}), Ints({9, 1, 2, 9}));
  ExpectTensor(Result("PadV2", {Strings({"a"}), Paddings({0, 1}), Tensor::Scalar<std::string>("z")}),
               Strings({"a", "z"}));
  ExpectTensor(Result("Pad", {Tensor(kFloat, {0}), Paddings({1, 1})}), FloatVector({0, 0}));
  const Tensor x = Counting({2});
  EXPECT_TRUE(Result("Pad", {x, Paddings({0, 0})}).SharesBufferWith(x));
}

TEST(PadTest, BadInput) {
  const Tensor x = Counting({2, 2});
  ExpectInvalid(KernelError("Pad", {x, Paddings({1, 1})}),
                "The first dimension of paddings must be the rank of inputs");
  ExpectInvalid(KernelError("Pad", {x, Ints({1, 1})}), "paddings must be a matrix with 2 columns: [2]");
  ExpectInvalid(KernelError("Pad", {x, Paddings({1, -1, 0, 0})}), "Paddings must be non-negative: 1 -1");
  ExpectInvalid(KernelError("PadV2", {x, Paddings({1, 1, 0, 0}), FloatVector({1})}),
                "constant_values must be a scalar.");
  ExpectInvalid(KernelError("Pad", {FloatVector({1}), Tensor::Of<int64_t>({1, 2}, {INT64_MAX, INT64_MAX})}),
                "Paddings overflow");
}

TEST(PadTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  EXPECT_EQ(Pad(s, Placeholder(s, kFloat, {-1, 3}), Const(s, {{1, 1}, {0, 2}})).shape().ToString(), "[?,5]");
  EXPECT_EQ(Pad(s, Placeholder(s, kFloat), Placeholder(s, kInt32, {2, 2})).shape().ToString(), "[?,?]");
}

TEST(PadTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 3});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Pad(s, x[0], Const(s, {{1, 0}, {2, 1}}));
      },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Pad(s, x[0], Const(s, {{1, 0}, {2, 1}}), Const(s, 3.0));
      },
      {x});
}

TEST(MirrorPadTest, Values) {
  const std::vector<AttrArg> reflect = {{"mode", "REFLECT"}}, symmetric = {{"mode", "SYMMETRIC"}};
  ExpectTensor(Result("MirrorPad", {Ints({1, 2, 3}), Paddings({2, 1})}, reflect), Ints({3, 2, 1, 2, 3, 2}));
  ExpectTensor(Result("MirrorPad", {Ints({1, 2, 3}), Paddings({2, 1})}, symmetric), Ints({2, 1, 1, 2, 3, 3}));
  ExpectTensor(Result("MirrorPad", {Counting({2, 2}), Paddings({0, 1, 1, 0})}, symmetric),
               Tensor::Of<float>({3, 3}, {1, 1, 2, 3, 3, 4, 3, 3, 4}));
  ExpectTensor(Result("MirrorPadGrad", {FloatVector({1, 2, 3, 4, 5, 6}), Paddings({2, 1})}, reflect),
               FloatVector({3, 12, 6}));
}

TEST(MirrorPadTest, BadInput) {
  const auto error = [](Tensor paddings, const char* mode) {
    return KernelError("MirrorPad", {Ints({1, 2, 3}), std::move(paddings)}, {{"mode", mode}});
  };
  ExpectInvalid(error(Paddings({3, 0}), "REFLECT"),
                "paddings must be less than the dimension size: 3, 0 not less than 3");
  ExpectInvalid(error(Paddings({4, 0}), "SYMMETRIC"),
                "paddings must be no greater than the dimension size: 4, 0 greater than 3");
  ExpectInvalid(error(Paddings({-1, 0}), "SYMMETRIC"), "paddings must be non-negative: -1 0");
  ExpectInvalid(error(Paddings({1, 1, 1, 1}), "SYMMETRIC"),
                "The first dimension of paddings must be the rank of inputs");
  ExpectInvalid(KernelError("MirrorPadGrad", {FloatVector({1, 2}), Paddings({2, 1})}, {{"mode", "REFLECT"}}),
                "Total paddings must be less than the input dimension size");
}

TEST(MirrorPadTest, Gradients) {
  for (const MirrorMode mode : {MirrorMode::kReflect, MirrorMode::kSymmetric}) {
    ExpectGradient(
        [mode](const Scope& s, const std::vector<Output>& x) {
          return MirrorPad(s, x[0], Const(s, {{1, 0}, {2, 1}}), mode);
        },
        {TestValues(kDouble, {2, 3})});
    ExpectGradient(
        [mode](const Scope& s, const std::vector<Output>& x) {
          return Output(s.Add("MirrorPadGrad", {x[0], Const(s, {{1, 0}, {2, 1}})},
                              {{"mode", mode == MirrorMode::kReflect ? "REFLECT" : "SYMMETRIC"}}));
        },
        {TestValues(kDouble, {3, 6})});
  }
}

}  // namespace
}  // namespace thalweg
