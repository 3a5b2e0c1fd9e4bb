// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/variable.h"

#include <cmath>
#include <set>

#include "thalweg/client/session.h"
#include "thalweg/kernel/stateful_graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/operators.h"
#include "thalweg/ops/random_ops.h"
#include "thalweg/train/layers/layers.h"

namespace thalweg {
namespace {

class TrainTest : public StatefulGraphTest {};

TEST_F(TrainTest, AVariableIsInitializedAndRead) {
  const Var v = MakeVariable(s_.SubScope("layer"), "w", {2, 3}, {.initializer = initializers::Constant(1.5)});
  ASSERT_TRUE(s_.ok()) << s_.status();
  EXPECT_EQ(v.name(), "layer/w");
  EXPECT_EQ(v.read.node->name(), "layer/w/read");
  EXPECT_EQ(v.initializer.node->name(), "layer/w/Assign");
  EXPECT_EQ(v.shape().ToString(), "[2,3]");
  EXPECT_EQ(v.dtype(), kFloat);
  Run(InitializeVariables(s_));
  ExpectTensor(Run(v), Tensor::Of<float>({2, 3}, {1.5, 1.5, 1.5, 1.5, 1.5, 1.5}));
}

TEST_F(TrainTest, ReadingBeforeIsAnError) {
  const Var v = MakeVariable(s_, "w", Shape({1}));
  const auto r = Evaluate(graph_, {}, {v}, device_);
  EXPECT_EQ(r.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TrainTest, NamesAreUnique) {
  const Var a = MakeVariable(s_, "w", Shape({1})), b = MakeVariable(s_, "w", Shape({1}));
  EXPECT_EQ(b.name(), "w_1");
  EXPECT_EQ(b.read.node->name(), "w_1/read");
  EXPECT_EQ(GetVariable(graph_, "w_1").initializer, b.initializer);
  EXPECT_FALSE(GetVariable(graph_, "w_2"));
  EXPECT_NE(a.ref, b.ref);
}

TEST_F(TrainTest, BracesAreDimensions) {
  EXPECT_EQ(MakeVariable(s_, "slope", {}).shape().ToString(), "[]");
  EXPECT_EQ(MakeVariable(s_, "row", {7}).shape().ToString(), "[7]");
}

TEST_F(TrainTest, IntegersAndBoolsBeginAsZeros) {
  const Var n = MakeVariable(s_, "n", {}, {.dtype = kInt64}), yes = MakeVariable(s_, "yes", {2}, {.dtype = kBool});
  Run(InitializeVariables(s_));
  ExpectTensor(Run(n), Tensor::Scalar<int64_t>(0));
  ExpectTensor(Run(yes), Tensor::Vector<bool>({false, false}));
}

TEST_F(TrainTest, UpdatesTakeTheVariable) {
  const Var v = MakeVariable(s_, "v", {2}, {.initializer = initializers::Zeros()});
  const Output two = Const(s_, {2.f, 4.f}), row = Const(s_, {1}), eight = Const(s_, {8.f});
  Run(v.initializer);
  Run(Assign(s_, v, two));
  Run(AssignAdd(s_, v, two));
  Run(AssignSub(s_, v, v));
  Run(AssignAdd(s_, v, two));
  ExpectTensor(Run(v), Tensor::Vector<float>({2, 4}));
  Run(ScatterUpdate(s_, v, row, eight));
  Run(ScatterDiv(s_, v, row, Const(s_, {2.f})));
  ExpectTensor(Run(v), Tensor::Vector<float>({2, 4}));
  ExpectTensor(Run(IsVariableInitialized(s_, v)), Tensor::Scalar(true));
}

// The values of TensorFlow's tf.set_random_seed(7), tf.random_uniform([2]).
TEST_F(TrainTest, ASeedOfTheGraphMakesARunRepeatable) {
  graph_.set_seed(7);
  const Output drawn = RandomUniform(s_, Const(s_, {2}));
  ExpectTensor(Run(drawn), Tensor::Vector<float>({0.7537285f, 0.0779376f}));
  const auto run = [](std::optional<int64_t> seed) {
    Graph graph;
    if (seed) graph.set_seed(*seed);
    const Scope s = graph.root();
    const Var v = MakeVariable(s, "v", {4, 4}), w = MakeVariable(s, "w", {4, 4});
    const Output y = layers::Dropout(s, MatMul(s, v, w), {.training = true});
    Device device(*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool());
    EXPECT_TRUE(Evaluate(graph, {}, {InitializeVariables(s)}, device).ok());
    return (*Evaluate(graph, {}, {y}, device))[0];
  };
  const auto equal = [](const Tensor& a, const Tensor& b) {
    return std::equal(a.data<float>(), a.data<float>() + 16, b.data<float>());
  };
  EXPECT_TRUE(equal(run(1), run(1)));
  EXPECT_FALSE(equal(run(1), run(2)));
  EXPECT_FALSE(equal(run({}), run({})));
}

TEST_F(TrainTest, FromAValue) {
  const Var v = MakeVariable(s_, "v", Const(s_, {1, 2, 3}));
  EXPECT_EQ(v.dtype(), kInt32);
  EXPECT_EQ(v.shape().ToString(), "[3]");
  Run(v.initializer);
  ExpectTensor(Run(v), Tensor::Vector<int32_t>({1, 2, 3}));
}

TEST_F(TrainTest, TheGraphKnowsItsVariables) {
  MakeVariable(s_, "a", Shape({1}));
  MakeVariable(s_, "b", Shape({1}), {.trainable = false});
  MakeVariable(s_, "c", Shape({1}), {.local = true});
  const auto names = [](const std::vector<Var>& vars) {
    std::vector<std::string> result;
    for (const Var& v : vars) result.push_back(v.name());
    return result;
  };
  EXPECT_THAT(names(GlobalVariables(graph_)), testing::ElementsAre("a", "b"));
  EXPECT_THAT(names(TrainableVariables(graph_)), testing::ElementsAre("a"));
  EXPECT_THAT(names(LocalVariables(graph_)), testing::ElementsAre("c"));
  EXPECT_THAT(names(GlobalVariables(graph_.Clone())), testing::ElementsAre("a", "b"));
}

TEST_F(TrainTest, OperationsOfAVariableAreWhereItIs) {
  const Scope placed = s_.WithDevice(
      [](const NewOperation& def) { return def.op() == "VariableV2" ? "/job:ps/task:1" : "/job:worker/task:0"; });
  const Var v = MakeVariable(placed, "v", Shape({2, 2}));
  EXPECT_EQ(v.ref.node->device(), "/job:ps/task:1");
  for (const auto& node : graph_.nodes()) EXPECT_EQ(node->device(), "/job:ps/task:1") << node->name();
  EXPECT_EQ(*GetAttr<std::vector<std::string>>(v.read.node->def(), "_class"), std::vector<std::string>({"loc:@v"}));
}

TEST_F(TrainTest, GlobalStep) {
  EXPECT_FALSE(GetGlobalStep(graph_));
  const Var step = GetOrCreateGlobalStep(s_.SubScope("deep").SubScope("inside"));
  EXPECT_EQ(step.name(), "global_step");
  EXPECT_EQ(step.dtype(), kInt64);
  EXPECT_EQ(GetOrCreateGlobalStep(s_).ref, step.ref);
  EXPECT_TRUE(TrainableVariables(graph_).empty());
  Run(InitializeVariables(s_));
  ExpectTensor(Run(step), Tensor::Scalar<int64_t>(0));
}

TEST_F(TrainTest, InitializersWithSeedsGiveTensorFlowsValues) {
  // tf.compat.v1.get_variable(..., initializer=<the same>(seed=42)), TensorFlow 2.15.1.
  const auto value = [&](const Initializer& initializer, const Shape& shape) {
    const Var v = MakeVariable(s_, "v", shape, {.initializer = initializer});
    Run(v.initializer);
    return Run(v);
  };
  ExpectTensor(
      value(initializers::GlorotUniform({.seed = 42}), {2, 3}),
      Tensor::Of<float>({2, 3}, {0.99087715f, 0.38868093f, 0.64700985f, 0.56038976f, -0.052678585f, 0.28703916f}),
      1e-6);
  ExpectTensor(
      value(initializers::HeNormal({.seed = 42}), {2, 3}),
      Tensor::Of<float>({2, 3}, {-0.31919837f, -0.1566031f, -0.76888347f, 0.027944176f, -0.53256148f, -0.0028038274f}),
      1e-6);
  // A convolution has as many inputs as its window has elements in all channels.
  ExpectTensor(value(initializers::HeNormal({.seed = 42}), {3, 3, 2, 4}).WithShape({72}).Rows(0, 4),
               Tensor::Vector<float>({-0.10639945f, -0.052201033f, -0.25629449f, 0.0093147252f}), 1e-6);
  ExpectTensor(value(initializers::TruncatedNormal({.mean = 1, .stddev = 0.1, .seed = 42}), {4}),
               Tensor::Vector<float>({0.9719225f, 0.9862248f, 0.932367f, 1.0024581f}), 1e-6);
  ExpectTensor(value(initializers::RandomNormal({.stddev = 2, .seed = 42}), {4}),
               Tensor::Vector<float>({-0.56155014f, -0.2755042f, -1.3526592f, 0.049160827f}), 1e-6);
  ExpectTensor(value(initializers::Uniform({.minval = -1, .maxval = 1, .seed = 42}), {4}),
               Tensor::Vector<float>({0.9045429f, 0.35481548f, 0.5906365f, 0.51156354f}), 1e-6);
}

TEST_F(TrainTest, GlorotLimits) {
  const Var v = MakeVariable(s_, "v", Shape({300, 100}));
  Run(v.initializer);
  const double limit = std::sqrt(6.0 / 400);
  float largest = 0;
  const Tensor value = Run(v);
  for (const float x : value.flat<float>()) largest = std::max(largest, std::abs(x));
  EXPECT_LE(largest, limit);
  EXPECT_GT(largest, 0.99 * limit);
}

TEST_F(TrainTest, LargeConstantsAreFilled) {
  const Var v = MakeVariable(s_, "v", Shape({100, 100}), {.initializer = initializers::Ones(), .dtype = kDouble});
  Run(v.initializer);
  EXPECT_EQ(Run(v).data<double>()[9999], 1.0);
  for (const auto& node : graph_.nodes()) EXPECT_LT(node->def().ByteSizeLong(), 1000u) << node->name();
}

TEST_F(TrainTest, TypesWithoutNumbersFail) {
  MakeVariable(s_, "v", Shape({2}), {.initializer = initializers::Zeros(), .dtype = kString});
  EXPECT_FALSE(s_.ok());
}

TEST_F(TrainTest, AnInitializerIsAnOperation) {
  const Var v = MakeVariable(s_, "w", {2}, {.initializer = initializers::Ones()});
  ASSERT_OK(s_.status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph_));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({v.initializer}));
  EXPECT_FALSE(out[0].has_value()) << "it runs for its effect";
  ASSERT_OK_AND_ASSIGN(const auto value, session->Run({v}));
  EXPECT_THAT(value[0].flat<float>(), testing::ElementsAre(1, 1));
}

TEST_F(TrainTest, OpsTakeVariables) {
  const Var v = MakeVariable(s_.SubScope("layer"), "w", {2, 2});
  const Output x = Placeholder(s_, kFloat, {3, 2});
  EXPECT_TRUE(s_.Add("MatMul", {x, v})) << "by name";
  EXPECT_EQ((v * 2 + v).node->name(), "layer/AddV2") << "where the variable was made";
  EXPECT_EQ((x + 1).node->name(), "AddV2");
  ASSERT_OK(s_.status());
}

}  // namespace
}  // namespace thalweg
