// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

template <typename T>
std::vector<OpArg> Args(T a, T b, T c) {
  return {Tensor::Scalar<T>(a), Tensor::Scalar<T>(b), Tensor::Scalar<T>(c)};
}

TEST(RangeTest, Values) {
  ExpectTensor(Result("Range", Args<int32_t>(2, 9, 3)), Ints({2, 5, 8}));
  ExpectTensor(Result("Range", Args<int64_t>(5, 0, -2)), Longs({5, 3, 1}));
  ExpectTensor(Result("Range", Args<float>(0, 1, 0.25)), FloatVector({0, 0.25, 0.5, 0.75}));
  ExpectTensor(Result("Range", Args<int32_t>(3, 3, 1)), Ints({}));
  ExpectTensor(Result("Range", Args<int64_t>(INT64_MAX - 1, INT64_MAX, 5)), Longs({INT64_MAX - 1}));
}

TEST(RangeTest, BadInput) {
  ExpectInvalid(KernelError("Range", Args<int32_t>(3, 1, 1)), "Requires start <= limit when delta > 0: 3/1");
  ExpectInvalid(KernelError("Range", Args<int32_t>(1, 3, -1)), "Requires start >= limit when delta < 0: 1/3");
  ExpectInvalid(KernelError("Range", Args<int32_t>(1, 3, 0)), "Requires delta != 0: 0");
  ExpectInvalid(KernelError("Range", {Ints({0, 1}), Int(3), Int(1)}), "start must be a scalar, not shape [2]");
  ExpectInvalid(KernelError("Range", Args<double>(0, INFINITY, 1)), "Requires ((limit - start) / delta) <= ");
  ExpectInvalid(KernelError("Range", Args<int64_t>(INT64_MIN, INT64_MAX, 1)), "Requires ((limit - start) / delta) <= ");
}

TEST(RangeTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  EXPECT_EQ(Range(s, Const(s, 0), Const(s, 7), Const(s, 2)).shape().ToString(), "[4]");
  EXPECT_EQ(Range(s, Const(s, 0), Placeholder(s, kInt32), Const(s, 2)).shape().ToString(), "[?]");
}

TEST(LinSpaceTest, Values) {
  const Tensor one = Tensor::Scalar<float>(1), three = Tensor::Scalar<float>(3);
  ExpectTensor(Result("LinSpace", {one, three, Int(5)}), FloatVector({1, 1.5, 2, 2.5, 3}));
  ExpectTensor(Result("LinSpace", {one, three, Int(1)}), FloatVector({1}));
  ExpectInvalid(KernelError("LinSpace", {one, three, Int(0)}), "Requires num > 0: 0");
  ExpectInvalid(KernelError("LinSpace", {one, three, Ints({2})}), "num must be a scalar");
}

}  // namespace
}  // namespace thalweg
