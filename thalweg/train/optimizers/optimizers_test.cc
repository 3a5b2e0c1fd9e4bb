// SPDX-License-Identifier: Apache-2.0
// Values are those of TensorFlow 2.15.1 (tf.compat.v1.train) on the same graph.
#include "thalweg/train/optimizers/optimizers.h"

#include "absl/strings/match.h"
#include "thalweg/client/session.h"
#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/layers/layers.h"
#include "thalweg/train/layers/losses.h"

namespace thalweg {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

// A graph with a device for its variables.
struct Trial {
  Tensor Run(Output output, const absl::flat_hash_map<Output, Tensor>& feeds = {}) {
    EXPECT_TRUE(s.ok()) << s.status();
    if (!s.ok()) return Tensor();
    auto values = Evaluate(graph, feeds, {output}, device);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? (*values)[0] : Tensor();
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const Var& v : GlobalVariables(graph)) names.push_back(v.name());
    return names;
  }

  Device device{*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool()};
  Graph graph;
  Scope s = graph.root();
};

// A linear classifier: kernel [3, 2] and bias [2].
Output DenseLoss(const Scope& s) {
  const Output x = Const(s, Tensor::Of<float>({4, 3}, {1, 2, 3, 0.5, -1, 2, -1, 0.25, 1, 2, 1, -1}));
  const Var kernel = MakeVariable(s, "kernel", {3, 2}, {.initializer = initializers::Constant(0.1)});
  const Var bias = MakeVariable(s, "bias", {2}, {.initializer = initializers::Zeros()});
  const Output logits = BiasAdd(s, MatMul(s, x, kernel), bias);
  return ReduceMean(s, SparseSoftmaxCrossEntropy(s, logits, Const(s, {0, 1, 1, 0})));
}

// Three rows, one of them twice, of a table [5, 2].
Output SparseLoss(const Scope& s) {
  const Var table = MakeVariable(s, "table", {5, 2}, {.initializer = initializers::Constant(0.5)});
  const Output rows = Gather(s, table, Const(s, {1, 3, 1}));
  return ReduceMean(s, Square(s, Sub(s, rows, Const(s, {{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}}))));
}

// Five steps, then the first variable; and what variables there are.
void ExpectTraining(const std::function<std::unique_ptr<Optimizer>()>& make, std::initializer_list<float> dense,
                    std::initializer_list<float> sparse_rows, const std::vector<std::string>& names,
                    const std::string& op) {
  for (const bool is_sparse : {false, true}) {
    Trial trial;
    const Output loss = is_sparse ? SparseLoss(trial.s) : DenseLoss(trial.s);
    const Var step = GetOrCreateGlobalStep(trial.s);
    const Output train = make()->Minimize(trial.s, loss, {.global_step = step});
    trial.Run(InitializeVariables(trial.s));
    for (int i = 0; i < 5; ++i) trial.Run(train);
    ExpectTensor(trial.Run(step), Tensor::Scalar<int64_t>(5));
    if (is_sparse) {
      const float* r = sparse_rows.begin();  // rows 1 and 3; the others stay
      ExpectTensor(trial.Run(GetVariable(trial.graph, "table")),
                   Tensor::Of<float>({5, 2}, {.5, .5, r[0], r[1], .5, .5, r[2], r[3], .5, .5}), 2e-6);
    } else {
      ExpectTensor(trial.Run(GetVariable(trial.graph, "kernel")), Tensor::Of<float>({3, 2}, dense), 2e-6);
      EXPECT_THAT(trial.Names(), ElementsAreArray(names));
      EXPECT_EQ(train.node->name(), op);
    }
  }
}

TEST(Optimizers, GradientDescent) {
  ExpectTraining([] { return GradientDescent({.learning_rate = 0.1}); },
                 {0.27493623f, -0.07493624f, 0.29317155f, -0.09317157f, 0.03946814f, 0.16053186f},
                 {1.229386f, 1.5211403f, 0.8897995f, 1.0457193f}, {"kernel", "bias", "global_step"}, "GradientDescent");
}

TEST(Optimizers, Momentum) {
  const std::vector<std::string> names = {"kernel", "bias", "global_step", "kernel/Momentum", "bias/Momentum"};
  ExpectTraining([] { return Momentum({.learning_rate = 0.1, .momentum = 0.9}); },
                 {0.54743874f, -0.34743875f, 0.5937973f, -0.39379734f, -0.06080547f, 0.2608055f},
                 {2.364758f, 3.1106615f, 1.5115633f, 1.9161887f}, names, "Momentum");
  ExpectTraining([] { return Momentum({.learning_rate = 0.1, .momentum = 0.9, .use_nesterov = true}); },
                 {0.5950666f, -0.39506665f, 0.6545418f, -0.45454174f, -0.093033284f, 0.29303327f},
                 {2.6247873f, 3.4747021f, 1.7225479f, 2.2115672f}, names, "Momentum");
}

TEST(Optimizers, Adam) {
  ExpectTraining([] { return Adam({.learning_rate = 0.1}); },
                 {0.57277745f, -0.37277743f, 0.58236045f, -0.3823605f, -0.118647754f, 0.31864783f},
                 {0.99777377f, 0.9985174f, 0.99777365f, 0.9985173f},
                 {"kernel", "bias", "global_step", "beta1_power", "beta2_power", "kernel/Adam", "kernel/Adam_1",
                  "bias/Adam", "bias/Adam_1"},
                 "Adam");
}

TEST(Optimizers, Adagrad) {
  ExpectTraining([] { return Adagrad({.learning_rate = 0.1}); },
                 {0.34052375f, -0.14052376f, 0.35367146f, -0.15367146f, -0.013862417f, 0.21386246f},
                 {0.81224465f, 0.8160321f, 0.80372834f, 0.8114621f},
                 {"kernel", "bias", "global_step", "kernel/Adagrad", "bias/Adagrad"}, "Adagrad");
}

TEST(Optimizers, Adadelta) {
  ExpectTraining(
      [] { return Adadelta({.learning_rate = 0.1}); },
      {0.10022784f, 0.09977216f, 0.10022785f, 0.099772155f, 0.09977228f, 0.10022772f},
      {0.5002278f, 0.5002278f, 0.5002278f, 0.5002278f},
      {"kernel", "bias", "global_step", "kernel/Adadelta", "kernel/Adadelta_1", "bias/Adadelta", "bias/Adadelta_1"},
      "Adadelta");
}

TEST(Optimizers, RMSProp) {
  ExpectTraining(
      [] { return RMSProp({.learning_rate = 0.1, .momentum = 0.5}); },
      {0.39867547f, -0.19867545f, 0.43094122f, -0.2309412f, -0.010780323f, 0.2107803f},
      {1.5227087f, 1.7360269f, 1.149631f, 1.3485962f},
      {"kernel", "bias", "global_step", "kernel/RMSProp", "kernel/RMSProp_1", "bias/RMSProp", "bias/RMSProp_1"},
      "RMSProp");
  ExpectTraining([] { return RMSProp({.learning_rate = 0.1, .momentum = 0.5, .centered = true}); },
                 {0.39997026f, -0.19997026f, 0.43276942f, -0.23276938f, -0.01098104f, 0.21098107f},
                 {1.5767328f, 1.8283927f, 1.1650603f, 1.3820878f},
                 {"kernel", "bias", "global_step", "kernel/RMSProp", "kernel/RMSProp_1", "kernel/RMSProp_2",
                  "bias/RMSProp", "bias/RMSProp_1", "bias/RMSProp_2"},
                 "RMSProp");
}

TEST(Optimizers, Ftrl) {
  ExpectTraining(
      [] {
        return Ftrl({.learning_rate = 0.1, .l1_regularization_strength = 0.01, .l2_regularization_strength = 0.02});
      },
      {0.2788877f, -0.19665734f, 0.29461834f, -0.20708872f, -0.10608484f, 0.11992579f},
      {0.72012514f, 0.748936f, 0.6288046f, 0.6809823f},
      {"kernel", "bias", "global_step", "kernel/Ftrl", "kernel/Ftrl_1", "bias/Ftrl", "bias/Ftrl_1"}, "Ftrl");
}

TEST(Optimizers, FtrlWithShrinkage) {
  ExpectTraining(
      [] {
        return Ftrl({.learning_rate = 0.1,
                     .l1_regularization_strength = 0.01,
                     .l2_regularization_strength = 0.02,
                     .l2_shrinkage_regularization_strength = 0.1});
      },
      {0.25720865f, -0.19026282f, 0.27345356f, -0.20081174f, -0.10158131f, 0.10335513f},
      {0.69929844f, 0.73328024f, 0.59397984f, 0.65319651f},
      {"kernel", "bias", "global_step", "kernel/Ftrl", "kernel/Ftrl_1", "bias/Ftrl", "bias/Ftrl_1"}, "Ftrl");
}

TEST(Optimizers, Proximal) {
  ExpectTraining(
      [] {
        return ProximalGradientDescent(
            {.learning_rate = 0.1, .l1_regularization_strength = 0.01, .l2_regularization_strength = 0.02});
      },
      {0.2681486f, -0.074100845f, 0.2862926f, -0.09224486f, 0.03369019f, 0.15438151f},
      {1.2165269f, 1.5066185f, 0.87822354f, 1.0332332f}, {"kernel", "bias", "global_step"}, "ProximalGradientDescent");
  ExpectTraining(
      [] {
        return ProximalAdagrad(
            {.learning_rate = 0.1, .l1_regularization_strength = 0.01, .l2_regularization_strength = 0.02});
      },
      {0.3299428f, -0.13653569f, 0.3436865f, -0.14990439f, -0.020455632f, 0.19831899f},
      {0.80766404f, 0.8127378f, 0.7948947f, 0.8050006f},
      {"kernel", "bias", "global_step", "kernel/ProximalAdagrad", "bias/ProximalAdagrad"}, "ProximalAdagrad");
}

TEST(Optimizers, ALearningRateMayBeATensor) {
  Trial trial;
  const Var v = MakeVariable(trial.s, "v", {2}, {.initializer = initializers::Ones()});
  const Output rate = Placeholder(trial.s, kDouble, PartialShape(Shape()));
  const Output train =
      GradientDescent({.learning_rate = rate})->Minimize(trial.s, ReduceSum(trial.s, Square(trial.s, v)));
  trial.Run(InitializeVariables(trial.s));
  trial.Run(train, {{rate, Tensor::Scalar<double>(0.25)}});
  ExpectTensor(trial.Run(v), Tensor::Vector<float>({0.5, 0.5}));
  trial.Run(train, {{rate, Tensor::Scalar<double>(0)}});
  ExpectTensor(trial.Run(v), Tensor::Vector<float>({0.5, 0.5}));
}

TEST(Optimizers, OnlyTheListedVariables) {
  Trial trial;
  const Var a = MakeVariable(trial.s, "a", {1}, {.initializer = initializers::Ones()});
  const Var b = MakeVariable(trial.s, "b", {1}, {.initializer = initializers::Ones()});
  const Output loss = ReduceSum(trial.s, Mul(trial.s, a, b));
  const Output train = GradientDescent({.learning_rate = 1.0})->Minimize(trial.s, loss, {.var_list = {b}});
  trial.Run(InitializeVariables(trial.s));
  trial.Run(train);
  ExpectTensor(trial.Run(a), Tensor::Vector<float>({1}));
  ExpectTensor(trial.Run(b), Tensor::Vector<float>({0}));
}

TEST(Optimizers, UpdatesAndSlotsAreWhereTheVariableIs) {
  Trial trial;
  const Scope s = trial.s.WithDevice([](const NewOperation& operation) {
    return operation.op() == "VariableV2" ? "/job:ps/task:0" : "/job:worker/task:0";
  });
  const Output loss = DenseLoss(s);
  Adam()->Minimize(s, loss, {.global_step = GetOrCreateGlobalStep(s)});
  ASSERT_TRUE(s.ok()) << s.status();
  for (const auto& node : trial.graph.nodes()) {
    const bool on_ps = node->op() == "VariableV2" || absl::StartsWith(node->op(), "Apply") ||
                       absl::StartsWith(node->op(), "Assign") || absl::EndsWith(node->name(), "/read");
    if (on_ps) {
      EXPECT_EQ(node->device(), "/job:ps/task:0") << node->name();
    } else if (node->op() == "MatMul") {
      EXPECT_EQ(node->device(), "/job:worker/task:0") << node->name();
    }
  }
}

// The names in TensorFlow's checkpoints.
TEST(Optimizers, PowersAreFloatsWhateverTheVariables) {
  for (const DType dtype : {kFloat, kDouble, kHalf}) {
    Trial trial;
    const Var v = MakeVariable(trial.s, "v", {2}, {.initializer = initializers::Ones(), .dtype = dtype});
    const Output train = Adam({.learning_rate = 0.5})->Minimize(trial.s, ReduceSum(trial.s, Square(trial.s, v)));
    ASSERT_TRUE(trial.s.ok()) << trial.s.status();
    EXPECT_EQ(GetVariable(trial.graph, "beta1_power").dtype(), kFloat);
    EXPECT_EQ(GetVariable(trial.graph, "beta2_power").dtype(), kFloat);
    EXPECT_EQ(GetVariable(trial.graph, "v/Adam").dtype(), dtype);
    trial.Run(InitializeVariables(trial.s));
    trial.Run(train);
    ExpectTensor(trial.Run(Cast(trial.s, v, kFloat)), Tensor::Vector<float>({0.5f, 0.5f}), 2e-3);
    ExpectTensor(trial.Run(GetVariable(trial.graph, "beta1_power").read), Tensor::Scalar<float>(0.81f), 1e-6);
  }
}

// Betas and their powers go together: float powers of double betas are 2e-6 off.
TEST(Optimizers, AdamInDoublePrecision) {
  Trial trial;
  const Var v = MakeVariable(trial.s, "v", {1}, {.initializer = initializers::Ones(), .dtype = kDouble});
  const Output train = Adam({.learning_rate = 0.1f})->Minimize(trial.s, ReduceSum(trial.s, Square(trial.s, v)));
  trial.Run(InitializeVariables(trial.s));
  for (int i = 0; i < 3; ++i) trial.Run(train);
  EXPECT_NEAR(trial.Run(v.read).data<double>()[0], 0.7015873258432849, 1e-12);
}

TEST(Optimizers, BadInput) {
  Trial none;
  Adam()->Minimize(none.s, Const(none.s, 1.0f));
  EXPECT_EQ(none.s.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.s.status().message()), HasSubstr("No variables to optimize"));

  Trial unrelated;
  MakeVariable(unrelated.s, "v", Shape({1}));
  Adam()->Minimize(unrelated.s, Const(unrelated.s, 1.0f));
  EXPECT_THAT(std::string(unrelated.s.status().message()), HasSubstr("No gradients provided for any variable"));
}

TEST(Layers, Dense) {
  Trial trial;
  const Output x = Placeholder(trial.s, kFloat, {-1, 3});
  const Output h = layers::Dense(trial.s, x, 2, {.activation = Relu, .kernel_initializer = initializers::Ones()});
  const Output y = layers::Dense(trial.s, h, 1, {.use_bias = false, .kernel_initializer = initializers::Constant(2)});
  ASSERT_TRUE(trial.s.ok()) << trial.s.status();
  EXPECT_THAT(trial.Names(), testing::ElementsAre("dense/kernel", "dense/bias", "dense_1/kernel"));
  EXPECT_EQ(h.node->name(), "dense/Relu");
  EXPECT_EQ(y.shape().ToString(), "[?,1]");
  trial.Run(InitializeVariables(trial.s));
  ExpectTensor(trial.Run(y, {{x, Tensor::Of<float>({2, 3}, {1, 2, 3, -1, -2, -3})}}),
               Tensor::Of<float>({2, 1}, {24, 0}));
}

TEST(Layers, DenseOfHigherRank) {
  Trial trial;
  const Output x = Placeholder(trial.s, kFloat, {-1, 2, 3});
  const Output y = layers::Dense(trial.s, x, 2, {.kernel_initializer = initializers::Ones(), .name = "top"});
  trial.Run(InitializeVariables(trial.s));
  ExpectTensor(trial.Run(y, {{x, Tensor::Of<float>({1, 2, 3}, {1, 2, 3, 4, 5, 6})}}),
               Tensor::Of<float>({1, 2, 2}, {6, 6, 15, 15}));
}

TEST(Layers, DenseWithBadInput) {
  Trial rank;
  layers::Dense(rank.s, Placeholder(rank.s, kFloat, {-1}), 2);
  EXPECT_THAT(std::string(rank.s.status().message()), HasSubstr("got [?]"));
  Trial units;
  layers::Dense(units.s, Placeholder(units.s, kFloat, {-1, 2}), 0);
  EXPECT_THAT(std::string(units.s.status().message()), HasSubstr("units must be positive, got 0"));
}

TEST(Losses, CrossEntropies) {
  Trial trial;
  const Output logits = Const(trial.s, {{1.0f, 2.0f, 3.0f}, {0.0f, 0.0f, 0.0f}});
  const Output sparse = SparseSoftmaxCrossEntropy(trial.s, logits, Const(trial.s, {2, 0}));
  const Output dense = SoftmaxCrossEntropy(trial.s, logits, Const(trial.s, {{0.0f, 0.0f, 1.0f}, {1.0f, 0.0f, 0.0f}}));
  ExpectTensor(trial.Run(sparse), Tensor::Vector<float>({0.40760598f, 1.0986123f}));
  ExpectTensor(trial.Run(dense), Tensor::Vector<float>({0.40760598f, 1.0986123f}));
  ExpectTensor(trial.Run(Accuracy(trial.s, logits, Const(trial.s, {2, 1}))), Tensor::Scalar(0.5f));
  ExpectTensor(trial.Run(SquaredError(trial.s, Const(trial.s, {1.0f, 2.0f}), Const(trial.s, {3.0f, 2.0f}))),
               Tensor::Vector<float>({4, 0}));
}

// The tutorial's network, small, learns.
TEST(Training, AClassifierLearns) {
  Trial trial;
  const Scope& s = trial.s;
  const Tensor points = TestValues(kFloat, {64, 2}, -1, 1);
  Tensor classes(kInt32, {64});
  for (int i = 0; i < 64; ++i) {  // inside or outside of a diamond
    classes.mutable_data<int32_t>()[i] =
        std::abs(points.data<float>()[2 * i]) + std::abs(points.data<float>()[2 * i + 1]) < 1;
  }
  Output net = layers::Dense(s, Const(s, points), 16,
                             {.activation = Relu, .kernel_initializer = initializers::GlorotUniform({.seed = 1})});
  net = layers::Dense(s, net, 2, {.kernel_initializer = initializers::GlorotUniform({.seed = 2})});
  const Output loss = ReduceMean(s, SparseSoftmaxCrossEntropy(s, net, Const(s, classes)));
  const Output accuracy = Accuracy(s, net, Const(s, classes));
  const Output train = Adam({.learning_rate = 0.05})->Minimize(s, loss);
  trial.Run(InitializeVariables(s));
  const float before = trial.Run(loss).scalar<float>();
  for (int i = 0; i < 100; ++i) trial.Run(train);
  EXPECT_LT(trial.Run(loss).scalar<float>(), before / 4);
  EXPECT_GT(trial.Run(accuracy).scalar<float>(), 0.95f);
}

// As a forward step does not: variables are updated where they are.
TEST(Optimizers, AWarmTrainingStepAsksTheSystemForNoMemory) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 64});
  const Output y = Placeholder(s, kInt32, {-1});
  Output net = x;
  for (int i = 0; i < 3; ++i) net = layers::Dense(s, net, 64, {.activation = Relu});
  const Output loss = ReduceMean(s, SparseSoftmaxCrossEntropy(s, layers::Dense(s, net, 10), y));
  const Output train = Adam({.learning_rate = 1e-3f})->Minimize(s, loss, {.global_step = GetOrCreateGlobalStep(s)});
  const Output init = InitializeVariables(s);
  auto session = Session::Create(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({init}).ok());
  const auto step = (*session)->Prepare({train, loss}, {x, y});
  ASSERT_TRUE(step.ok()) << step.status();
  const std::vector<Tensor> feeds = {Tensor::Zeros(kFloat, {32, 64}), Tensor::Zeros(kInt32, {32})};
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(step->Run(feeds).ok());
  };
  run(100);
  const AllocatorStats before = HostAllocator().Stats();
  run(1000);
  const AllocatorStats after = HostAllocator().Stats();
  EXPECT_EQ(after.system_calls, before.system_calls);
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  EXPECT_GT(after.allocations, before.allocations);
}

}  // namespace
}  // namespace thalweg
