// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(BitcastTest, Values) {
  const Tensor x = FloatVector({1, -2});
  const Tensor y = Result("Bitcast", {x}, {{"type", kInt32}});
  ExpectTensor(y, Ints({0x3f800000, static_cast<int32_t>(0xc0000000)}));
  EXPECT_TRUE(y.SharesBufferWith(x));
  ExpectTensor(Result("Bitcast", {Tensor::Scalar<int32_t>(0x04030201)}, {{"type", kUint8}}),
               Tensor::Vector<uint8_t>({1, 2, 3, 4}));
  ExpectTensor(Result("Bitcast", {Tensor::Of<uint8_t>({1, 4}, {1, 2, 3, 4})}, {{"type", kInt32}}), Ints({0x04030201}));
}

TEST(BitcastTest, BadShape) {
  ExpectInvalid(KernelError("Bitcast", {FloatVector({1, 2, 3})}, {{"type", kDouble}}),
                "Cannot bitcast from float to double: shape [3]");
  ExpectInvalid(KernelError("Bitcast", {Tensor::Scalar<float>(1)}, {{"type", kDouble}}),
                "Cannot bitcast from float to double");
  EXPECT_EQ(*InferShape("Bitcast", {{kFloat, {-1, 2}}}, {{"type", kDouble}}), "[?]");
  EXPECT_EQ(*InferShape("Bitcast", {{kDouble, {-1}}}, {{"type", kHalf}}), "[?,4]");
}

TEST(CheckNumericsTest, Finds) {
  const std::vector<AttrArg> message = {{"message", "loss"}};
  ExpectTensor(Result("CheckNumerics", {Counting({40})}, message), Counting({40}));
  for (const int at : {0, 5, 39}) {
    Tensor x = Counting({40});
    x.flat<float>()[at] = NAN;
    ExpectInvalid(KernelError("CheckNumerics", {x}, message), "loss : Tensor had NaN values\n");
    x.flat<float>()[at] = -INFINITY;
    ExpectInvalid(KernelError("CheckNumerics", {x}, message), "loss : Tensor had Inf values\n");
    ExpectInvalid(KernelError("CheckNumericsV2", {x}, message), "loss : Tensor had -Inf values\n");
  }
  const Tensor all = Tensor::Vector<double>({NAN, INFINITY, -INFINITY});
  ExpectInvalid(KernelError("CheckNumerics", {all}, message), "loss : Tensor had Inf and NaN values\n");
  ExpectInvalid(KernelError("CheckNumericsV2", {all}, message), "loss : Tensor had -Inf, +Inf, and NaN values\n");
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return CheckNumerics(s, x[0], "m"); },
                 {TestValues(kDouble, {3})});
}

}  // namespace
}  // namespace thalweg
