// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

// A line through points, as a problem of one dense feature and a bias.
struct Line {
  Tensor features = Tensor::Of<float>({4, 2}, {0, 1, 1, 1, 2, 1, 3, 1});
  Tensor weights = Tensor::Vector<float>({1, 1, 1, 1});
  Tensor labels = Tensor::Vector<float>({1, 3, 5, 7});
};

// The weights after `rounds` calls.
std::vector<float> Train(const Line& line, bool adaptive, int rounds) {
  Tensor model = Tensor::Vector<float>({0, 0}), state = Tensor::Zeros(kFloat, {4, 4});
  for (int i = 0; i < rounds; ++i) {
    const absl::StatusOr<std::vector<Tensor>> y = RunOp(
        "SdcaOptimizerV2",
        {std::vector<Tensor>{}, std::vector<Tensor>{}, std::vector<Tensor>{}, std::vector<Tensor>{line.features},
         line.weights, line.labels, std::vector<Tensor>{}, std::vector<Tensor>{}, std::vector<Tensor>{model}, state},
        {{"loss_type", "squared_loss"},
         {"adaptive", adaptive},
         {"num_sparse_features", 0},
         {"num_sparse_features_with_values", 0},
         {"num_dense_features", 1},
         {"l1", 0.0f},
         {"l2", 0.01f},
         {"num_loss_partitions", 1},
         {"num_inner_iterations", 1}});
    EXPECT_TRUE(y.ok()) << y.status();
    if (!y.ok()) break;
    state = (*y)[0];
    model = Tensor::Vector<float>(
        {model.data<float>()[0] + (*y)[1].data<float>()[0], model.data<float>()[1] + (*y)[1].data<float>()[1]});
  }
  return {model.data<float>()[0], model.data<float>()[1]};
}

TEST(SdcaTest, FindsTheLine) {
  for (const bool adaptive : {false, true}) {
    const std::vector<float> model = Train(Line(), adaptive, 300);
    EXPECT_NEAR(model[0], 2, 0.05) << adaptive;
    EXPECT_NEAR(model[1], 1, 0.05) << adaptive;
  }
}

TEST(KmeansTest, NearestNeighbors) {
  const Tensor points = Tensor::Of<float>({2, 2}, {0, 0, 5, 5}),
               centers = Tensor::Of<float>({3, 2}, {5, 4, 0, 1, 9, 9});
  const auto y = RunOp("NearestNeighbors", {points, centers, Tensor::Scalar<int64_t>(2)});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Of<int64_t>({2, 2}, {1, 0, 0, 2}));
  ExpectTensor((*y)[1], Tensor::Of<float>({2, 2}, {1, 41, 1, 32}));
}

// All points are the same: there is nothing to choose by, and it ends.
TEST(KmeansTest, EqualPoints) {
  const Tensor points = Tensor::Zeros(kFloat, {5, 2});
  const auto y = RunOp("KmeansPlusPlusInitialization",
                       {points, Tensor::Scalar<int64_t>(5), Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(2)});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].num_elements(), 10);
}

}  // namespace
}  // namespace thalweg
