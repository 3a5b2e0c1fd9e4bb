// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/stateful_graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/proto/boosted_trees.pb.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

class TensorForestTest : public StatefulGraphTest {
 protected:
  static tensorflow::boosted_trees::Tree OneSplit(int32_t right) {
    tensorflow::boosted_trees::Tree tree;
    auto* const split = tree.add_nodes()->mutable_dense_split();
    split->set_feature_id(1);
    split->set_threshold(0.5f);
    split->set_left_id(1);
    split->set_right_id(right);
    for (const float value : {1.0f, 2.0f}) tree.add_nodes()->mutable_leaf()->mutable_vector()->add_value(value);
    return tree;
  }
  Output Config(const tensorflow::boosted_trees::Tree& tree) {
    return Const(s_, Tensor::Scalar<std::string>(tree.SerializeAsString()));
  }
  Output Predict(Output features, int64_t logits) {
    return Output(s_.Add("TensorForestTreePredict", {handle_, features}, {{"logits_dimension", logits}}));
  }
  void Do(const char* op, const tensorflow::boosted_trees::Tree& tree) {
    const auto done = Try(s_.Add(op, {handle_, Config(tree)}));
    EXPECT_TRUE(done.ok()) << done.status();
  }

  const Output handle_ = Output(s_.Add("TensorForestTreeResourceHandleOp", {}, {{"shared_name", "t"}}));
  const Output features_ = Const(s_, Tensor::Of<float>({2, 2}, {9, 0.5f, 0, 0.6f}));
};

TEST_F(TensorForestTest, PredictsSavesAndRestores) {
  const Output known = Output(s_.Add("TensorForestTreeIsInitializedOp", {handle_}));
  const Output size = Output(s_.Add("TensorForestTreeSize", {handle_}));
  ExpectTensor(Run(known), Tensor::Scalar(false));
  EXPECT_THAT(Error(size), HasSubstr("NOT_FOUND"));
  Do("TensorForestCreateTreeVariable", OneSplit(2));
  Do("TensorForestCreateTreeVariable", {});  // there is one already
  ExpectTensor(Run(known), Tensor::Scalar(true));
  ExpectTensor(Run(size), Tensor::Scalar<int32_t>(3));
  ExpectTensor(Run(Predict(features_, 1)), Tensor::Of<float>({2, 1}, {1, 2}));
  EXPECT_EQ(Run(Output(s_.Add("TensorForestTreeSerialize", {handle_}))).scalar<std::string>(),
            OneSplit(2).SerializeAsString());
  Do("TensorForestTreeDeserialize", {});
  ExpectTensor(Run(Predict(features_, 2)), Tensor::Of<float>({2, 2}, {0, 0, 0, 0}));
}

TEST_F(TensorForestTest, BadTreesAreErrors) {
  EXPECT_THAT(Error(s_.Add("TensorForestCreateTreeVariable", {handle_, Config(OneSplit(3))})),
              HasSubstr("node 0 of a tree of 3 nodes has node 3 as a child"));
  Do("TensorForestCreateTreeVariable", OneSplit(0));
  EXPECT_THAT(Error(Predict(features_, 1)), HasSubstr("the nodes of a tree form a circle"));
  Do("TensorForestTreeDeserialize", OneSplit(2));
  EXPECT_THAT(Error(Predict(features_, 2)), HasSubstr("a leaf has 1 values, but logits_dimension is 2"));
  EXPECT_THAT(Error(Predict(Const(s_, Tensor(kFloat, {1, 1})), 1)),
              HasSubstr("a split is by feature 1, but examples have 1"));
}

}  // namespace
}  // namespace thalweg
