// SPDX-License-Identifier: Apache-2.0
// Names, slices and values are those of TensorFlow 2.15.1 (tf.compat.v1) on the
// same graph.
#include "thalweg/train/layers/partitioned_variable.h"

#include "thalweg/kernel/stateful_graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/train/checkpoints/variable_slice.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PartitionedVariableTest : public StatefulGraphTest {};

TEST_F(PartitionedVariableTest, TrainsAsTensorFlows) {
  const PartitionedVariable w = MakePartitionedVariable(
      s_, "w", {5, 2},
      {.partitioner = partitioners::FixedSize(2), .initializer = initializers::GlorotUniform({.seed = 42})});
  const Output rows = EmbeddingLookup(s_, w, Const(s_, {{0, 4}, {2, 3}}));
  const Output loss = Add(s_, ReduceSum(s_, Square(s_, rows)), ReduceSum(s_, w));
  const Output train = Adam({.learning_rate = 0.1})->Minimize(s_, loss);
  ASSERT_TRUE(s_.ok()) << s_.status();
  EXPECT_EQ(w.value.node->name(), "w");
  EXPECT_NE(graph_.FindNode("w/ConcatPartitions/concat"), nullptr);
  std::vector<std::string> variables;
  for (const Var& v : GlobalVariables(graph_)) {
    const auto slice = VariableSliceOf(v);
    variables.push_back(slice ? v.name() + ": " + slice->full_name + " " + slice->Spec() : v.name());
  }
  EXPECT_THAT(variables, ElementsAre("w/part_0: w 5 2 0,3:0,2", "w/part_1: w 5 2 3,2:0,2", "beta1_power", "beta2_power",
                                     "w/part_0/Adam: w/Adam 5 2 0,3:0,2", "w/part_0/Adam_1: w/Adam_1 5 2 0,3:0,2",
                                     "w/part_1/Adam: w/Adam 5 2 3,2:0,2", "w/part_1/Adam_1: w/Adam_1 5 2 3,2:0,2"));
  // The slices go where the graph goes.
  EXPECT_EQ(VariableSliceOf(GetVariable(graph_.Clone(), "w/part_1"))->Spec(), "5 2 3,2:0,2");
  Run(InitializeVariables(s_));
  ExpectTensor(Run(w),
               Tensor::Of<float>({5, 2}, {0.83744407f, 0.32849526f, 0.54682314f, 0.47361577f, -0.04452157f, 0.24259233f,
                                          0.83744407f, 0.32849526f, 0.54682314f, 0.47361577f}),
               1e-6);
  ExpectTensor(Run(rows),
               Tensor::Of<float>({2, 2, 2}, {0.83744407f, 0.32849526f, 0.54682314f, 0.47361577f, -0.04452157f,
                                             0.24259233f, 0.83744407f, 0.32849526f}),
               1e-6);
  Run(train);
  ExpectTensor(Run(w),
               Tensor::Of<float>({5, 2}, {0.7374441f, 0.22849527f, 0.44682318f, 0.3736158f, -0.14452153f, 0.14259236f,
                                          0.7374441f, 0.22849527f, 0.44682315f, 0.37361577f}),
               1e-6);
}

TEST_F(PartitionedVariableTest, PartsBySize) {
  const auto parts = [](int64_t max_bytes, int64_t max_parts) {
    return partitioners::MaxBytes(max_bytes, 0, max_parts)(Shape({5, 2}), kFloat)[0];
  };
  EXPECT_EQ(parts(16, 0), 3);
  EXPECT_EQ(parts(16, 2), 2);
  EXPECT_EQ(parts(1, 0), 5);
  EXPECT_EQ(parts(1000, 0), 1);
  EXPECT_EQ(partitioners::FixedSize(9)(Shape({5, 2}), kFloat)[0], 5);
  const PartitionedVariable whole = MakePartitionedVariable(s_, "small", {5, 2});
  ASSERT_EQ(whole.parts.size(), 1u);
  EXPECT_EQ(whole.parts[0].name(), "small/part_0");
}

TEST_F(PartitionedVariableTest, EveryRowIsFound) {
  for (int n = 1; n <= 4; ++n) {
    const PartitionedVariable table = MakePartitionedVariable(
        s_, "table", {7, 1}, {.partitioner = partitioners::FixedSize(n), .initializer = initializers::Zeros()});
    // Row i of part p says 10 p + i.
    std::vector<Output> fill;
    for (int p = 0; p < n; ++p) {
      Tensor rows(kFloat, Shape({table.parts[p].shape().dim(0), 1}));
      for (int i = 0; i < rows.dim(0); ++i) rows.mutable_data<float>()[i] = static_cast<float>(10 * p + i);
      fill.push_back(s_.Add("Assign", {table.parts[p].ref, Const(s_, rows)}));
    }
    Run(Group(s_, fill));
    const Tensor whole = Run(table);
    const Output ids = Const(s_, std::vector<int64_t>{6, 0, 5, 1, 4, 2, 3, 3});
    const Tensor div = Run(EmbeddingLookup(s_, table, ids));
    const Tensor mod = Run(EmbeddingLookup(s_, table.parts, ids, ShardStrategy::kMod));
    for (int i = 0; i < 8; ++i) {
      const int64_t id = std::vector<int64_t>{6, 0, 5, 1, 4, 2, 3, 3}[i];
      EXPECT_EQ(div.data<float>()[i], whole.data<float>()[id]) << n << " parts, row " << id;
      EXPECT_EQ(mod.data<float>()[i], static_cast<float>(id % n * 10 + id / n)) << n << " parts, row " << id;
    }
  }
}

TEST_F(PartitionedVariableTest, AlongAnotherDimension) {
  const PartitionedVariable w = MakePartitionedVariable(
      s_, "w", {2, 3}, {.partitioner = partitioners::FixedSize(2, 1), .initializer = initializers::Ones()});
  EXPECT_EQ(VariableSliceOf(w.parts[1])->Spec(), "2 3 0,2:2,1");
  Run(InitializeVariables(s_));
  ExpectTensor(Run(w), Tensor::Of<float>({2, 3}, {1, 1, 1, 1, 1, 1}));
  EmbeddingLookup(s_, w, Const(s_, {0}));
  EXPECT_THAT(s_.status().message(), HasSubstr("'w' is divided along dimension 1, expected 0"));
}

TEST_F(PartitionedVariableTest, WrongDivisions) {
  const auto error = [](const Shape& shape, std::vector<int64_t> counts) {
    Graph graph;
    MakePartitionedVariable(graph.root(), "w", shape, {.partitioner = [=](const Shape&, DType) { return counts; }});
    return std::string(graph.build_status().message());
  };
  EXPECT_THAT(error({4, 4}, {2, 2}), HasSubstr("'w' of [4,4]: parts along more than one dimension: 2 x 2"));
  EXPECT_THAT(error({4, 4}, {2}), HasSubstr("gave 1 numbers of parts, expected one per dimension"));
  EXPECT_THAT(error({4, 4}, {5, 1}), HasSubstr("5 parts along dimension 0"));
  EXPECT_THAT(error({4, 4}, {0, 1}), HasSubstr("0 parts along dimension 0"));
  EXPECT_THAT(error({}, {}), HasSubstr("a scalar has no parts"));
}

}  // namespace
}  // namespace thalweg
