// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/trainers/tree_ensemble.h"

#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/trainers/quantiles.h"

namespace thalweg {
namespace {

using tensorflow::boosted_trees::TreeEnsemble;

BucketizedBatch Batch(std::initializer_list<int32_t> buckets) {
  return *BucketizedBatch::Of({Tensor::Vector<int32_t>(buckets)});
}

// Two splits of one feature, the second of which loses.
std::unique_ptr<thalweg::TreeEnsemble> Grown(thalweg::TreeEnsemble::Pruning pruning) {
  auto trees = std::make_unique<thalweg::TreeEnsemble>();
  const TreeSplit good{.gain = 1, .threshold = 4, .left_contribution = -1, .right_contribution = 2};
  const TreeSplit bad{.gain = -1, .threshold = 6, .left_contribution = 10, .right_contribution = 20};
  EXPECT_TRUE(trees->Grow({{0, good}}, 2, pruning).ok());
  EXPECT_TRUE(trees->Grow({{2, bad}}, 2, pruning).ok());
  return trees;
}

TEST(TreeEnsembleTest, GrowsAndPredicts) {
  const auto trees = Grown(thalweg::TreeEnsemble::Pruning::kNone);
  EXPECT_EQ(*trees->Predict(Batch({0, 5, 7}), 0), -1);
  EXPECT_EQ(*trees->Predict(Batch({0, 5, 7}), 1), 12);
  EXPECT_EQ(*trees->Predict(Batch({0, 5, 7}), 2), 22);
  // From where it was before the second layer, only what has changed.
  EXPECT_EQ(trees->PredictFrom({0, 2}, Batch({7}), 0)->logit, 20);
  EXPECT_EQ(trees->GetStates().finalized_trees, 1);
}

TEST(TreeEnsembleTest, PrunesAndRemembers) {
  const auto trees = Grown(thalweg::TreeEnsemble::Pruning::kPost);
  EXPECT_EQ(*trees->Predict(Batch({7}), 0), 2);
  // A prediction that ended in a leaf that is gone is corrected.
  EXPECT_EQ(trees->PredictFrom({0, 4}, Batch({7}), 0)->logit, -20);
}

// Nothing that a client sends leads outside of the trees.
TEST(TreeEnsembleTest, BadInput) {
  const auto trees = Grown(thalweg::TreeEnsemble::Pruning::kNone);
  EXPECT_FALSE(trees->PredictFrom({7, 0}, Batch({7}), 0).ok());
  EXPECT_FALSE(trees->PredictFrom({0, 99}, Batch({7}), 0).ok());
  EXPECT_FALSE(trees->Grow({{99, TreeSplit()}}, 2, thalweg::TreeEnsemble::Pruning::kNone).ok());
  TreeEnsemble other;
  EXPECT_FALSE(trees->Deserialize("x", 0).ok());
  other.add_trees();
  EXPECT_FALSE(trees->Deserialize(other.SerializeAsString(), 0).ok());
  other.add_tree_weights(1);
  other.add_tree_metadata();
  EXPECT_FALSE(trees->Deserialize(other.SerializeAsString(), 0).ok());
  // A split that leads to itself would never end.
  other.mutable_trees(0)->add_nodes()->mutable_bucketized_split();
  EXPECT_FALSE(trees->Deserialize(other.SerializeAsString(), 0).ok());
  // One by a feature that the batch does not have.
  auto& split = *other.mutable_trees(0)->mutable_nodes(0)->mutable_bucketized_split();
  split.set_feature_id(5);
  split.set_left_id(1);
  split.set_right_id(1);
  other.mutable_trees(0)->add_nodes()->mutable_leaf();
  EXPECT_TRUE(trees->Deserialize(other.SerializeAsString(), 0).ok());
  EXPECT_FALSE(trees->Predict(Batch({7}), 0).ok());
}

TEST(QuantileStreamTest, Quantiles) {
  QuantileStream stream(0.01, 100000);
  for (int i = 0; i < 20000; ++i) stream.Push(static_cast<float>(i * 7919 % 20000), 1);
  const std::vector<float> quantiles = stream.Finish().Quantiles(4);
  ASSERT_EQ(quantiles.size(), 5);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(quantiles[i], 5000 * i, 300);
  EXPECT_EQ(stream.Finish().size(), 0);
}

// As TensorFlow's: sums of floats would lose the small gradient.
TEST(BoostedTreesStatsTest, SumsAreMadeOfDoubles) {
  const Tensor nodes = Tensor::Vector<int32_t>({0, 0, 0}), gradients = Tensor::Of<float>({3, 1}, {1e8, 1, -1e8}),
               hessians = Tensor::Of<float>({3, 1}, {1, 1, 1});
  const auto first = RunOp("BoostedTreesMakeStatsSummary", {nodes, gradients, hessians, std::vector<Tensor>{nodes}},
                           {{"max_splits", 1}, {"num_buckets", 1}});
  ASSERT_TRUE(first.ok()) << first.status();
  ExpectTensor((*first)[0], Tensor::Of<float>({1, 1, 1, 2}, {1, 3}));
  const auto second = RunOp("BoostedTreesAggregateStats", {nodes, gradients, hessians, nodes.WithShape(Shape({3, 1}))},
                            {{"max_splits", 1}, {"num_buckets", 1}});
  ASSERT_TRUE(second.ok()) << second.status();
  ExpectTensor((*second)[0], Tensor::Of<float>({1, 1, 2, 2}, {1, 3, 0, 0}));
}

}  // namespace
}  // namespace thalweg
