// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(WhereTest, Values) {
  ExpectTensor(Result("Where", {Tensor::Of<bool>({2, 2}, {true, false, true, true})}),
               Tensor::Of<int64_t>({3, 2}, {0, 0, 1, 0, 1, 1}));
  ExpectTensor(Result("Where", {FloatVector({0, 2, -1})}), Tensor::Of<int64_t>({2, 1}, {1, 2}));
  ExpectTensor(Result("Where", {Tensor::Vector<bool>({false})}), Tensor(kInt64, {0, 1}));
  ExpectTensor(Result("Where", {Tensor(kBool, {0, 3})}), Tensor(kInt64, {0, 2}));
  ExpectInvalid(KernelError("Where", {Tensor::Scalar<bool>(true)}), "WhereOp : Unhandled input dimensions: 0");
  EXPECT_EQ(*InferShape("Where", {{kBool, {2, -1, 3}}}), "[?,3]");
}

}  // namespace
}  // namespace thalweg
