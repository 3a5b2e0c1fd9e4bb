// SPDX-License-Identifier: Apache-2.0
// Ops whose generator is a value of the graph: a key and a counter, or seeds.
#include <set>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

const Tensor kKey = Tensor::Vector<uint64_t>({7}), kCounter = Tensor::Vector<uint64_t>({1, 2});
const Tensor kPhilox = Tensor::Scalar<int32_t>(1);

TEST(GeneratorOpsTest, ShuffleKeepsTheRows) {
  const Tensor rows = Tensor::Vector<int32_t>({0, 1, 2, 3, 4, 5, 6, 7});
  const auto out = RunOp("StatelessShuffle", {rows, kKey, kCounter, kPhilox});
  ASSERT_TRUE(out.ok()) << out.status();
  const auto flat = (*out)[0].flat<int32_t>();
  EXPECT_EQ(std::set<int32_t>(flat.begin(), flat.end()).size(), 8);
  ExpectTensor((*RunOp("StatelessShuffle", {rows, kKey, kCounter, kPhilox}))[0], (*out)[0]);
  EXPECT_FALSE(RunOp("StatelessShuffle", {rows, kKey, kCounter, Tensor::Scalar<int32_t>(2)}).ok());
  EXPECT_FALSE(RunOp("StatelessShuffle", {rows, kCounter, kCounter, kPhilox}).ok());
}

TEST(GeneratorOpsTest, IndexShuffleIsAPermutation) {
  for (const int32_t last : {0, 1, 9, 99}) {
    std::vector<int32_t> all(last + 1);
    for (int32_t i = 0; i <= last; ++i) all[i] = i;
    const auto out = RunOp("RandomIndexShuffle", {Tensor::Vector<int32_t>(all), Tensor::Vector<int32_t>({1, 2, 3}),
                                                  Tensor::Scalar<int32_t>(last)});
    ASSERT_TRUE(out.ok()) << out.status();
    const auto flat = (*out)[0].flat<int32_t>();
    EXPECT_EQ(std::set<int32_t>(flat.begin(), flat.end()).size(), all.size());
  }
  const auto bad = [](int32_t index, int32_t last, int rounds) {
    return RunOp("RandomIndexShuffle",
                 {Tensor::Scalar(index), Tensor::Vector<int32_t>({1, 2, 3}), Tensor::Scalar(last)},
                 {{"rounds", rounds}})
        .status();
  };
  EXPECT_THAT(bad(7, 6, 4).message(), testing::HasSubstr("larger than max_index"));
  EXPECT_FALSE(bad(1, 6, 5).ok());
  EXPECT_FALSE(bad(-1, 6, 4).ok());
}

TEST(GeneratorOpsTest, StochasticCastRoundsToANeighbour) {
  const auto out =
      RunOp("StochasticCastToInt", {Tensor::Vector<float>({-1.5f, 0.25f, 3, 1e9f, NAN}), kKey, kCounter, kPhilox},
            {{"Tout", kInt8}});
  ASSERT_TRUE(out.ok()) << out.status();
  const int8_t* const y = (*out)[0].data<int8_t>();
  EXPECT_TRUE(y[0] == -1 || y[0] == -2);
  EXPECT_TRUE(y[1] == 0 || y[1] == 1);
  EXPECT_EQ(y[2], 3);
  EXPECT_EQ(y[3], 127);
  EXPECT_EQ(y[4], 0);
}

TEST(GeneratorOpsTest, Shapes) {
  EXPECT_EQ(InferShape("StatelessShuffle",
                       {{kFloat, {2, -1}}, {kUint64, {1}}, {kUint64, {2}}, {kInt32, PartialShape(Shape())}})
                .value(),
            "[2,?]");
  EXPECT_EQ(InferShape("RandomIndexShuffle", {{kInt32, {5}}, {kInt32, {3}}, {kInt32, PartialShape(Shape())}}).value(),
            "[5]");
}

}  // namespace
}  // namespace thalweg
