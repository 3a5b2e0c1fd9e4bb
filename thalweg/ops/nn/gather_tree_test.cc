// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

TEST(GatherTreeTest, FollowsParentsFromTheLastStep) {
  const Tensor tokens = Tensor::Of<int32_t>({3, 1, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor parents = Tensor::Of<int32_t>({3, 1, 2}, {0, 0, 1, 0, 1, 0});
  ExpectTensor(Result("GatherTree", {tokens, parents, Tensor::Vector<int32_t>({3}), Tensor::Scalar<int32_t>(9)}),
               Tensor::Of<int32_t>({3, 1, 2}, {1, 2, 4, 3, 5, 6}));
}

TEST(GatherTreeTest, EndsAfterTheFirstEndAndAfterTheLongestSequence) {
  const Tensor tokens = Tensor::Of<int32_t>({3, 1, 1}, {1, 9, 3}), parents = Tensor::Of<int32_t>({3, 1, 1}, {0, 0, 0});
  const auto gather = [&](int32_t length) {
    return Result("GatherTree", {tokens, parents, Tensor::Vector<int32_t>({length}), Tensor::Scalar<int32_t>(9)});
  };
  ExpectTensor(gather(3), Tensor::Of<int32_t>({3, 1, 1}, {1, 9, 9}));
  ExpectTensor(gather(1), Tensor::Of<int32_t>({3, 1, 1}, {1, 9, 9}));
  ExpectTensor(gather(-1), Tensor::Of<int32_t>({3, 1, 1}, {9, 9, 9}));
}

TEST(GatherTreeTest, ParentsMustBeBeams) {
  const Tensor tokens = Tensor::Of<int32_t>({2, 1, 1}, {1, 2}), parents = Tensor::Of<int32_t>({2, 1, 1}, {0, 1});
  const absl::Status status =
      KernelError("GatherTree", {tokens, parents, Tensor::Vector<int32_t>({2}), Tensor::Scalar<int32_t>(9)});
  EXPECT_THAT(status.message(), HasSubstr("Saw invalid parent id 1 at (batch, time, beam) == (0, 0, 0)"));
}

}  // namespace
}  // namespace thalweg
