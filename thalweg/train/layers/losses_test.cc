// SPDX-License-Identifier: Apache-2.0
// Numbers are those of TensorFlow 2.15.1 (tf.compat.v1) for the same inputs.
#include "thalweg/train/layers/losses.h"

#include "thalweg/graph/gradient.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/checkpoints/variable_slice.h"
#include "thalweg/train/layers/layers.h"
#include "thalweg/train/layers/model_testlib.h"
#include "thalweg/train/layers/partitioned_variable.h"
#include "thalweg/train/optimizers/clipping.h"
#include "thalweg/train/optimizers/learning_rate.h"
#include "thalweg/train/optimizers/moving_average.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Losses, ValuesAndGradients) {
  Model m;
  const Scope& s = m.s;
  const Output p = Const(s, Wave({3, 4}, 0.9, 2));
  Tensor labels = Wave({3, 4}, 1.3, 1), classes(kFloat, {3, 4});
  for (int i = 0; i < 12; ++i) {
    classes.flat<float>()[i] = labels.data<float>()[i] > 0 ? 1 : 0;
    labels.flat<float>()[i] = std::abs(labels.data<float>()[i]);
  }
  const Output l = Const(s, labels);
  const std::vector<Output> losses = {SigmoidCrossEntropy(s, p, l), HuberLoss(s, p, l, 0.7),
                                      HingeLoss(s, p, Const(s, classes)), AbsoluteError(s, p, l),
                                      SoftmaxCrossEntropy(s, p, l)};
  std::vector<Output> all = losses;
  all.push_back(WeightedMean(s, SquaredError(s, p, l), Const(s, {{1.0f}, {0.0f}, {2.0f}})));
  for (const Output& loss : losses) all.push_back(Gradients(s, {loss}, {p})[0].values);
  ExpectMarks(m.Run(all), {-1.031053, -1.00072, -5.293349, -1.96872, 11.53417, 1.741434, 0.8624072, 0.3998763, 2.981285,
                           1.057257, 0.7233056});
}

TEST(Losses, OfSampledClasses) {
  using Loss = Output (*)(const Scope&, Output, Output, Output, Output, const SampledLossOptions&);
  using LossInParts = Output (*)(const Scope&, const PartitionedVariable&, const PartitionedVariable&, Output, Output,
                                 const SampledLossOptions&);
  const auto expect = [](Loss loss, LossInParts in_parts, int num_true, const std::vector<double>& marks) {
    Model m;
    const Scope& s = m.s;
    const Var weights = MakeVariable(s, "w", Const(s, Wave({20, 4}, 0.9, 1)));
    const Var biases = MakeVariable(s, "b", Const(s, Wave({20}, 0.5, 1)));
    const Output x = Const(s, Wave({3, 4}, 1.1, 1));
    const Output labels =
        Const(s, Tensor::Vector<int64_t>({1, 5, 3, 19, 0, 7}).Rows(0, 3 * num_true).WithShape({3, num_true}));
    const SampledLossOptions options{
        .num_sampled = 6, .num_classes = 20, .num_true = num_true, .sampler = {.seed = 87654321, .seed2 = 42}};
    const Output l = loss(s, weights, biases, labels, x, options);
    std::vector<Output> all = {l};
    for (const Gradient& g : Gradients(s, {l}, {weights.ref, biases.ref, x})) all.push_back(ToDense(s, g));
    m.Run(InitializeVariables(s));
    ExpectMarks(m.Run(all), marks);
    // The same of tables in parts, with their values.
    const PartitionedVarOptions parts{.partitioner = partitioners::FixedSize(3), .initializer = initializers::Zeros()};
    const auto w = MakePartitionedVariable(s, "w_parts", {20, 4}, parts);
    const auto b = MakePartitionedVariable(s, "b_parts", {20}, parts);
    const Output same = in_parts(s, w, b, labels, x, options);
    const Output x_gradient = Gradients(s, {same}, {x})[0].values;
    m.Run(InitializeVariables(s));
    for (int i = 0, begin = 0; i < 3; begin += static_cast<int>(w.parts[i++].shape().dim(0))) {
      const int end = begin + static_cast<int>(w.parts[i].shape().dim(0));
      m.Run({Assign(s, w.parts[i].ref, Const(s, Wave({20, 4}, 0.9, 1).Rows(begin, end))),
             Assign(s, b.parts[i].ref, Const(s, Wave({20}, 0.5, 1).Rows(begin, end)))});
    }
    ExpectMarks(m.Run({same, x_gradient}), {marks[0], marks[3]});
  };
  expect(NceLoss, NceLoss, 1, {31.55966, 0.5673641, -1.884534, 0.04055522});
  expect(NceLoss, NceLoss, 2, {37.52013, 2.47671, -0.8488431, -0.4999245});
  expect(SampledSoftmaxLoss, SampledSoftmaxLoss, 1, {6.946548, 0.4817167, -1.419383, 3.026023});
  expect(SampledSoftmaxLoss, SampledSoftmaxLoss, 2, {7.262575, -1.482133, -1.041204, 4.2938});
  Model bad;
  NceLoss(bad.s, Output(), Output(), {}, {}, {});
  EXPECT_THAT(std::string(bad.s.status().message()), HasSubstr("num_classes"));
}

TEST(Losses, OfSampledClassesWithALabelTwice) {
  Model m;
  const Scope& s = m.s;
  const Output weights = Const(s, {{.1f, .2f}, {.3f, .4f}, {.5f, .6f}}), biases = Const(s, {.1f, .2f, .3f});
  const Output labels = Const(s, Tensor::Of<int64_t>({2, 2}, {1, 1, 0, 2}));
  const Output x = Const(s, {{1.0f, 2.0f}, {3.0f, 4.0f}});
  SampledLossOptions options{.num_sampled = 2, .num_classes = 3, .num_true = 2, .remove_accidental_hits = true};
  options.sampled = CandidateSamplerResult{Const(s, Tensor::Vector<int64_t>({1, 2})),
                                           Const(s, {{.5f, .5f}, {.5f, .5f}}), Const(s, {.5f, .5f})};
  const Output softmax = SampledSoftmaxLoss(s, weights, biases, labels, x, options);
  ExpectTensor(m.Run(softmax), Tensor::Vector<float>({1.3897266f, 1.7413114f}), 1e-5);
  ExpectTensor(m.Run(NceLoss(s, weights, biases, labels, x, options)), Tensor::Vector<float>({5.0072656f, 6.9670963f}),
               1e-5);
}

// Rows that are read by int32 here, and by int64 in the loss, of one table.
TEST(Losses, OfTiedWeights) {
  Model m;
  const Scope& s = m.s;
  const Output x = layers::Embedding(s, Const(s, {1, 3, 1}), 20, 4, {.initializer = WaveInitializer});
  const Var table = GetVariable(m.graph, "embedding/embeddings");
  const Var biases = MakeVariable(s, "b", Const(s, Wave({20}, 0.5, 1)));
  const Output labels = Const(s, Tensor::Of<int64_t>({3, 1}, {1, 5, 3}));
  const SampledLossOptions options{.num_sampled = 6, .num_classes = 20, .sampler = {.seed = 87654321, .seed2 = 42}};
  const Output loss = NceLoss(s, table, biases, labels, x, options);
  const Gradient both = Gradients(s, {loss}, {table.ref})[0];
  ASSERT_TRUE(both.sparse());
  EXPECT_EQ(both.indices.dtype(), kInt64);
  // The part of the rows that were looked up, and that of the classes.
  const Output dx = Gradients(s, {loss}, {x})[0].values;
  const Output to_x = ToDense(s, Gradients(s, {x}, {table.ref}, {dx})[0]);
  const Output to_classes =
      ToDense(s, Gradients(s, {NceLoss(s, table, biases, labels, StopGradient(s, x), options)}, {table.ref})[0]);
  const Output step = GradientDescent({.learning_rate = 0.1})->Minimize(s, loss);
  m.Run(InitializeVariables(s));
  const std::vector<Tensor> values = m.Run({ToDense(s, both), Add(s, to_x, to_classes)});
  ExpectTensor(values[0], values[1]);
  m.Run(step);
}

TEST(Clipping, ByNorms) {
  Model m;
  const Scope& s = m.s;
  const Output a = Const(s, Wave({3, 4}, 0.9, 2)), b = Const(s, Wave({5}, 0.5, 1));
  const ClippedGradients clipped = ClipByGlobalNorm(s, {{a, {}}, {{}, {}}, {b, {}}}, 1.5);
  const ClippedGradients same = ClipByGlobalNorm(s, {{a, {}}, {{}, {}}, {b, {}}}, 100);
  EXPECT_FALSE(clipped.gradients[1].gradient);
  const Output two = ClipByNorm(s, a, 2);
  const Output first = Slice(s, two, Const(s, {0, 0}), Const(s, {1, 4}));
  ExpectMarks(m.Run({two, ClipByNorm(s, a, 200), clipped.gradients[0].gradient.values,
                     clipped.gradients[2].gradient.values, clipped.global_norm, same.gradients[0].gradient.values,
                     ClipByValue(s, a, Const(s, -0.5f), Const(s, 0.25f)), Gradients(s, {first}, {a})[0].values}),
              {0.28894, 0.674119, 0.2041526, 0.636593, 4.953053, 0.674119, 0.3165225, 1.400301});
  // Zeros stay; what is not a number is not hidden.
  const Output zeros = Const(s, Tensor::Zeros(kFloat, {3}));
  ExpectTensor(m.Run(ClipByNorm(s, zeros, 1)), Tensor::Zeros(kFloat, {3}));
  const Output infinite = Const(s, {1.0f, std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(
      std::isnan(m.Run(ClipByGlobalNorm(s, {{infinite, {}}}, 1).gradients[0].gradient.values).data<float>()[0]));
  GlobalNorm(s, {});
  EXPECT_FALSE(s.ok());
}

// Sparse gradients are clipped by row, without densifying them.
TEST(Clipping, OfSparseGradients) {
  Model m;
  const Scope& s = m.s;
  const Output indices = Const(s, {3, 1, 3}), shape = Const(s, {5, 2});
  const Gradient rows(Const(s, {{3.0f, 0.0f}, {0.0f, -4.0f}, {0.0f, 12.0f}}), indices, shape);
  for (const Gradient& clipped : {ClipByNorm(s, rows, 1), ClipByValue(s, rows, -1, 2)}) {
    EXPECT_EQ(clipped.indices, indices);
    EXPECT_EQ(clipped.dense_shape, shape);
  }
  ExpectTensor(m.Run(ClipByNorm(s, rows, 6.5).values),
               Tensor::Of<float>({3, 2}, {1.5f, 0, 0, -2, 0, 6}));  // 13 is their norm
  ExpectTensor(m.Run(ClipByNorm(s, rows, 100).values), Tensor::Of<float>({3, 2}, {3, 0, 0, -4, 0, 12}));
  ExpectTensor(m.Run(ClipByValue(s, rows, -1, 2).values), Tensor::Of<float>({3, 2}, {2, 0, 0, -1, 0, 2}));
  ExpectTensor(m.Run(ClipByValue(s, rows.values, Const(s, -0.5f), 7)),
               Tensor::Of<float>({3, 2}, {3, 0, 0, -0.5f, 0, 7}));
  EXPECT_FALSE(ClipByNorm(s, Gradient(), 1));
  EXPECT_FALSE(ClipByValue(s, Gradient(), -1, 1));
}

TEST(LearningRate, Schedules) {
  Model m;
  const Scope& s = m.s;
  const Output step = Placeholder(s, kInt64, Shape());
  const std::vector<Output> rates = {
      ExponentialDecay(s, 0.1, step, {.decay_steps = 5, .decay_rate = 0.9}),
      ExponentialDecay(s, 0.1, step, {.decay_steps = 5, .decay_rate = 0.9, .staircase = true}),
      NaturalExpDecay(s, 0.1, step, {.decay_steps = 5, .decay_rate = 0.3}),
      InverseTimeDecay(s, 0.1, step, {.decay_steps = 5, .decay_rate = 0.3}),
      InverseTimeDecay(s, 0.1, step, {.decay_steps = 5, .decay_rate = 0.3, .staircase = true}),
      PiecewiseConstant(s, step, {3, 10}, {1, 0.5, 0.1}),
      PolynomialDecay(s, 0.1, step, {.decay_steps = 10, .end_learning_rate = 0.01, .power = 2}),
      PolynomialDecay(s, 0.1, step, {.decay_steps = 10, .end_learning_rate = 0.01, .power = 0.5, .cycle = true}),
      CosineDecay(s, 0.1, step, {.decay_steps = 10, .alpha = 0.2}),
      LinearScaling(s, 0.1, step, {.scale = 8, .warmup_steps = 7}),
      LinearScaling(s, 0.1, step, {.scale = 8})};
  const std::vector<std::pair<int64_t, std::vector<double>>> expected = {
      {0, {0.1, 0.1, 0.1, 0.1, 0.1, 1, 0.1, 0.1, 0.1, 0.1, 0.8}},
      {1, {0.09791484, 0.1, 0.09417646, 0.09433963, 0.1, 1, 0.0829, 0.0953815, 0.09804226, 0.2, 0.8}},
      {3, {0.09387404, 0.1, 0.08352702, 0.08474576, 0.1, 1, 0.0541, 0.0852994, 0.08351141, 0.4, 0.8}},
      {7, {0.08628584, 0.09, 0.06570468, 0.07042253, 0.07692308, 0.5, 0.0181, 0.05929504, 0.03648859, 0.8, 0.8}},
      {10, {0.081, 0.081, 0.05488116, 0.0625, 0.0625, 0.5, 0.01, 0.01, 0.02, 0.8, 0.8}},
      {25, {0.05904899, 0.05904899, 0.02231301, 0.04, 0.04, 0.1, 0.01, 0.04674235, 0.02, 0.8, 0.8}}};
  for (const auto& [number, values] : expected) {
    const std::vector<Tensor> got = m.Run(rates, {{step, Tensor::Scalar<int64_t>(number)}});
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(got[i].has_value());
      EXPECT_NEAR(got[i].scalar<float>(), values[i], 1e-6) << "step " << number << ", " << i;
    }
  }
  const std::vector<Output> restarts = {
      CosineDecayRestarts(s, 0.1, step, {.first_decay_steps = 10}),
      CosineDecayRestarts(s, 0.1, step, {.first_decay_steps = 5, .t_mul = 1.5, .m_mul = 0.8, .alpha = 0.2}),
      CosineDecayRestarts(s, 0.1, step, {.first_decay_steps = 5, .t_mul = 1, .m_mul = 0.5})};
  const std::vector<std::pair<int64_t, std::vector<double>>> rising = {{0, {0.1, 0.1, 0.1}},
                                                                       {1, {0.097552828, 0.092360675, 0.090450846}},
                                                                       {3, {0.079389267, 0.047639318, 0.034549143}},
                                                                       {5, {0.049999997, 0.084000006, 0.05}},
                                                                       {7, {0.02061074, 0.07341218, 0.032725427}},
                                                                       {10, {0.1, 0.036000002, 0.025}},
                                                                       {25, {0.014644662, 0.060407963, 0.003125}},
                                                                       {30, {0.1, 0.048591714, 0.0015625}},
                                                                       {31, {0.099845864, 0.044970822, 0.0014132941}},
                                                                       {70, {0.1, 0.045480873, 6.1035157e-06}}};
  for (const auto& [number, values] : rising) {
    const std::vector<Tensor> got = m.Run(restarts, {{step, Tensor::Scalar<int64_t>(number)}});
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(got[i].has_value());
      EXPECT_NEAR(got[i].scalar<float>(), values[i], 1e-6) << "step " << number << ", restarts " << i;
    }
  }
  Model shorter;
  CosineDecayRestarts(shorter.s, 0.1, step, {.first_decay_steps = 5, .t_mul = 0.5});
  EXPECT_THAT(std::string(shorter.s.status().message()), HasSubstr("t_mul must be at least 1"));
  Model bad;
  PiecewiseConstant(bad.s, step, {1, 2}, {1, 2});
  EXPECT_THAT(std::string(bad.s.status().message()), HasSubstr("2 boundaries need 3 values, got 2"));
  Model zero;
  CosineDecay(zero.s, 0.1, step, {.decay_steps = 0});
  EXPECT_THAT(std::string(zero.s.status().message()), HasSubstr("got 0"));
}

TEST(MovingAverage, OfVariablesAndTensors) {
  const auto expect = [](const MovingAverageOptions& options, bool num_updates,
                         std::initializer_list<float> of_variable, std::initializer_list<float> of_tensor,
                         std::vector<std::string> names) {
    Model m;
    const Scope& s = m.s;
    const Var w = MakeVariable(s, "w", Const(s, {1.0f, 2.0f}));
    const Var n = MakeVariable(s, "n", Const(s, 0), false);
    const Output x = Placeholder(s, kFloat, Shape({2}));
    const Output loss = Identity(s.WithOpName("loss"), x);
    MovingAverageOptions used = options;
    if (num_updates) used.num_updates = n;
    ExponentialMovingAverage averages(0.9, used);
    const Output change = AssignAdd(s, w.ref, x);
    const Output apply = averages.Apply(s.WithControlDependencies({change}));
    const Output both = Group(s, {apply, averages.ApplyToTensors(s, {loss})});
    const Output count = AssignAdd(s, n.ref, Const(s, 1));
    names.insert(names.begin(), {"w[2]", "n[]", "w/ExponentialMovingAverage[2]", "loss/ExponentialMovingAverage[2]"});
    EXPECT_EQ(m.Variables(), names);
    m.Run(InitializeVariables(s));
    for (int i = 0; i < 3; ++i) {
      m.Run(both, {{x, Tensor::Vector<float>({static_cast<float>(i + 1), -1})}});
      m.Run(count);
    }
    ExpectTensor(m.Run(averages.Average(w)), Tensor::Vector<float>(of_variable), 1e-6);
    ExpectTensor(m.Run(averages.Average(loss)), Tensor::Vector<float>(of_tensor), 1e-6);
    EXPECT_FALSE(averages.Average(x));
    EXPECT_EQ(averages.AverageName(w), "w/ExponentialMovingAverage");
    const auto restore = averages.VariablesToRestore(m.graph);
    ASSERT_EQ(restore.count("w/ExponentialMovingAverage"), 1u);
    EXPECT_EQ(restore.find("w/ExponentialMovingAverage")->second.name(), "w");
    EXPECT_EQ(restore.find("n")->second.name(), "n");
    EXPECT_EQ(restore.count("w"), 0u);
  };
  expect({}, false, {1.9510002f, 1.4389999f}, {0.5610001f, -0.27100006f}, {});
  expect({}, true, {6.1545453f, -0.7f}, {2.7f, -0.99545455f}, {});
  expect({.zero_debias = true}, false, {1.9510002f, 1.4389999f}, {2.0701103f, -1},
         {"loss/ExponentialMovingAverage/biased[2]", "loss/ExponentialMovingAverage/local_step[]"});
}

TEST(MovingAverage, OfSeveralOutputsOfAnOperation) {
  Model m;
  const Scope& s = m.s;
  const std::vector<Output> halves = Split(s.WithOpName("halves"), Const(s, {{1.0f, 2.0f, 30.0f, 40.0f}}), 2, 1);
  ExponentialMovingAverage averages(0.9);
  const Output apply = averages.ApplyToTensors(s, halves);
  EXPECT_THAT(m.Variables(),
              ElementsAre("halves/ExponentialMovingAverage[1,2]", "halves/ExponentialMovingAverage_1[1,2]"));
  m.Run(InitializeVariables(s));
  m.Run(apply);
  ExpectTensor(m.Run(averages.Average(halves[0])), Tensor::Of<float>({1, 2}, {0.1f, 0.2f}), 1e-6);
  ExpectTensor(m.Run(averages.Average(halves[1])), Tensor::Of<float>({1, 2}, {3, 4}), 1e-6);
}

// Parts of a variable are saved as slices of one, and so are their averages.
TEST(MovingAverage, OfAVariableInParts) {
  Model m;
  const Scope& s = m.s;
  const PartitionedVariable table = MakePartitionedVariable(
      s, "table", {5, 2}, {.partitioner = partitioners::FixedSize(2), .initializer = initializers::Zeros()});
  ExponentialMovingAverage averages(0.9);
  averages.Apply(s);
  ASSERT_TRUE(s.ok()) << s.status();
  for (int i = 0; i < 2; ++i) {
    const std::optional<VariableSlice> part = VariableSliceOf(table.parts[i]),
                                       average = VariableSliceOf(averages.Average(table.parts[i]));
    ASSERT_TRUE(average.has_value());
    EXPECT_EQ(average->full_name, "table/ExponentialMovingAverage");
    EXPECT_EQ(average->Spec(), part->Spec());
  }
  const auto restore = averages.VariablesToRestore(m.graph);
  EXPECT_EQ(restore.size(), 2u);
  EXPECT_EQ(restore.count("table/ExponentialMovingAverage"), 2u);
}

}  // namespace
}  // namespace thalweg
