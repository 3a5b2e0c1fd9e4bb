// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

const Tensor kOn = Tensor::Scalar<float>(5), kOff = Tensor::Scalar<float>(-1);

TEST(OneHotTest, Values) {
  ExpectTensor(Result("OneHot", {Ints({0, 2, -1, 9}), Int(3), kOn, kOff}),
               Tensor::Of<float>({4, 3}, {5, -1, -1, -1, -1, 5, -1, -1, -1, -1, -1, -1}));
  ExpectTensor(Result("OneHot", {Longs({1, 0}), Int(2), kOn, kOff}, {{"axis", 0}}),
               Tensor::Of<float>({2, 2}, {-1, 5, 5, -1}));
  ExpectTensor(Result("OneHot", {Tensor::Scalar<uint8_t>(1), Int(2), Tensor::Scalar<std::string>("y"),
                                 Tensor::Scalar<std::string>("n")}),
               Strings({"n", "y"}));
  ExpectTensor(Result("OneHot", {Ints({0}), Int(0), kOn, kOff}), Tensor(kFloat, {1, 0}));
}

// Shared between threads, along every axis.
TEST(OneHotTest, Large) {
  constexpr int64_t kRows = 600, kColumns = 50, kDepth = 30;
  Tensor indices(kInt32, {kRows, kColumns});
  for (int64_t i = 0; i < kRows * kColumns; ++i) indices.mutable_data<int32_t>()[i] = i * 7 % (kDepth + 2) - 1;
  for (const int axis : {-1, 0, 1}) {
    for (const float off : {0.0f, 0.5f}) {
      const Tensor y = Result("OneHot", {indices, Int(kDepth), kOn, Tensor::Scalar<float>(off)}, {{"axis", axis}});
      int64_t wrong = 0;
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t c = 0; c < kColumns; ++c) {
          for (int64_t d = 0; d < kDepth; ++d) {
            const int64_t at = axis == -1  ? (r * kColumns + c) * kDepth + d
                               : axis == 0 ? (d * kRows + r) * kColumns + c
                                           : (r * kDepth + d) * kColumns + c;
            wrong += y.data<float>()[at] != (indices.data<int32_t>()[r * kColumns + c] == d ? 5 : off);
          }
        }
      }
      EXPECT_EQ(wrong, 0) << "axis " << axis << " off " << off;
    }
  }
}

TEST(OneHotTest, BadInput) {
  ExpectInvalid(KernelError("OneHot", {Ints({0}), Int(-1), kOn, kOff}), "depth must be non-negative, got: -1");
  ExpectInvalid(KernelError("OneHot", {Ints({0}), Ints({2}), kOn, kOff}), "depth must be a scalar, but got: [1]");
  ExpectInvalid(KernelError("OneHot", {Ints({0}), Int(2), FloatVector({1}), kOff}),
                "on_value must be a scalar, but got: [1]");
  ExpectInvalid(KernelError("OneHot", {Ints({0}), Int(2), kOn, kOff}, {{"axis", 2}}),
                "Expected axis to be -1 or between [0, 2).  But received: 2");
}

TEST(OneHotTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kInt32, {-1, 3}), on = Const(s, 1.0f);
  EXPECT_EQ(OneHot(s, x, Const(s, 7), on, on).shape().ToString(), "[?,3,7]");
  EXPECT_EQ(OneHot(s, x, Placeholder(s, kInt32), on, on, 0).shape().ToString(), "[?,?,3]");
}

}  // namespace
}  // namespace thalweg
