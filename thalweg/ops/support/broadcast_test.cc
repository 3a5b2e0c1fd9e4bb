// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/broadcast.h"

#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BroadcastTest, NeighboursAreJoined) {
  const Broadcast b = *Broadcast::Make({2, 3, 4, 5}, {4, 5});
  EXPECT_EQ(b.shape.ToString(), "[2,3,4,5]");
  EXPECT_THAT(b.sizes, ElementsAre(20, 6));
  EXPECT_THAT(b.x_strides, ElementsAre(1, 20));
  EXPECT_THAT(b.y_strides, ElementsAre(1, 0));
}

TEST(BroadcastTest, SizesOfOneAreLeftOut) {
  const Broadcast b = *Broadcast::Make({2, 1, 3, 1}, {1, 5, 3, 1});
  EXPECT_EQ(b.shape.ToString(), "[2,5,3,1]");
  EXPECT_THAT(b.sizes, ElementsAre(3, 5, 2));
  EXPECT_THAT(b.x_strides, ElementsAre(1, 0, 3));
  EXPECT_THAT(b.y_strides, ElementsAre(1, 3, 0));
  EXPECT_THAT(Broadcast::Make({}, {1, 1})->sizes, ElementsAre(1));
}

TEST(BroadcastTest, ZeroIsASize) {
  EXPECT_EQ(Broadcast::Make({0, 3}, {1, 3})->shape.ToString(), "[0,3]");
  EXPECT_FALSE(Broadcast::Make({0}, {2}).ok());
}

TEST(BroadcastTest, ResultsThatAreTooLarge) {
  EXPECT_EQ(Broadcast::Make({int64_t{1} << 40, 1}, {int64_t{1} << 40}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// TensorFlow's answers.
TEST(BroadcastTest, GradientArgs) {
  const auto check = [](std::vector<int32_t> a, std::vector<int32_t> b, std::vector<int32_t> r0,
                        std::vector<int32_t> r1) {
    const auto vector = [](const std::vector<int32_t>& v) { return Tensor::Vector<int32_t>(absl::MakeConstSpan(v)); };
    absl::StatusOr<std::vector<Tensor>> r = RunOp("BroadcastGradientArgs", {vector(a), vector(b)});
    ASSERT_TRUE(r.ok()) << r.status();
    ExpectTensor((*r)[0], vector(r0));
    ExpectTensor((*r)[1], vector(r1));
  };
  check({2, 3}, {3}, {}, {0});
  check({1, 3}, {1, 3}, {}, {});
  check({1, 3}, {2, 1}, {0}, {1});
  check({1}, {1, 1}, {0, 1}, {0, 1});
  check({2, 1, 1}, {1}, {1, 2}, {0, 1, 2});
  check({0, 3}, {1, 3}, {}, {0});
  check({1, 1}, {2, 1}, {0, 1}, {1});
  check({}, {2}, {0}, {});
}

TEST(BroadcastTest, Args) {
  ExpectTensor((*RunOp("BroadcastArgs", {Tensor::Vector<int64_t>({2, 1}), Tensor::Vector<int64_t>({5, 1, 3})}))[0],
               Tensor::Vector<int64_t>({5, 2, 3}));
}

TEST(BroadcastTest, BadArgs) {
  for (const char* op : {"BroadcastArgs", "BroadcastGradientArgs"}) {
    const absl::Status status = RunOp(op, {Tensor::Vector<int32_t>({2, 3}), Tensor::Vector<int32_t>({4})}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("Incompatible shapes: [2,3] vs. [4]"));
    EXPECT_EQ(RunOp(op, {Tensor::Scalar<int32_t>(1), Tensor::Vector<int32_t>({4})}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace thalweg
