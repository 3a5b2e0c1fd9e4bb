// SPDX-License-Identifier: Apache-2.0
// Rnn as a loop. What layers_test.cc compares with TensorFlow holds for both
// forms; here they are compared with each other.
#include "thalweg/train/layers/recurrent_layers.h"

#include <functional>

#include "thalweg/client/cluster_testlib.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/layers/losses.h"
#include "thalweg/train/layers/model_testlib.h"
#include "thalweg/train/optimizers/optimizers.h"
#include "thalweg/train/replicas/replica_device_setter.h"

namespace thalweg {
namespace {

using layers::GruCell;
using layers::LstmCell;
using layers::RnnCellPtr;
using layers::RnnOptions;
using layers::RnnResult;

// Outputs, states and the gradients with respect to weights, x and `more`.
std::vector<Output> Everything(Model& m, const RnnResult& r, Output x, const std::vector<Output>& more) {
  std::vector<Output> all = {r.outputs}, xs = {x};
  all.insert(all.end(), r.state.begin(), r.state.end());
  xs.insert(xs.end(), more.begin(), more.end());
  for (const Var& v : TrainableVariables(m.graph)) xs.push_back(v.ref);
  std::vector<Output> ys;
  for (const Output& y : all) ys.push_back(Sin(m.s, y));
  for (const Gradient& g : Gradients(m.s, ys, xs)) {
    EXPECT_TRUE(g);
    if (g) all.push_back(ToDense(m.s, g));
  }
  return all;
}

// The loop gives what the copies give, for the same weights.
void ExpectSame(const RnnCellPtr& cell, bool time_major, bool with_lengths, bool with_state) {
  SCOPED_TRACE(absl::StrCat(time_major, with_lengths, with_state));
  Model m;
  const Output x = Const(m.s, Wave(time_major ? Shape({4, 3, 2}) : Shape({3, 4, 2}), 0.9, 1));
  const Output any = PlaceholderWithDefault(m.s, x, {-1, -1, 2});
  RnnOptions options{.time_major = time_major};
  if (with_lengths) options.sequence_length = Const(m.s, {2, 0, 3});
  if (with_state) {
    for (const int64_t size : cell->state_sizes()) options.initial_state.push_back(Const(m.s, Wave({3, size}, 0.3)));
  }
  const std::vector<Output> copies = Everything(m, layers::Rnn(m.s, cell, x, options), x, options.initial_state);
  const std::vector<Output> loop = Everything(m, layers::Rnn(m.s, cell, any, options), x, options.initial_state);
  options.unroll = false;
  const std::vector<Output> known = Everything(m, layers::Rnn(m.s, cell, x, options), x, options.initial_state);
  ASSERT_TRUE(m.s.ok()) << m.s.status();
  EXPECT_EQ(known[0].shape(), copies[0].shape());
  m.Run(InitializeVariables(m.s));
  const std::vector<Tensor> expected = m.Run(copies), got = m.Run(loop), also = m.Run(known);
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectTensor(got[i], expected[i], 1e-5);
    ExpectTensor(also[i], expected[i], 1e-5);
  }
}

TEST(RnnLoop, GivesWhatCopiesOfTheCellGive) {
  const std::vector<std::function<RnnCellPtr()>> cells = {
      [] { return LstmCell(3, {.use_peepholes = true}); }, [] { return GruCell(3); },
      [] {
        return layers::MultiCell(
            {layers::DropoutCell(LstmCell(3), {.output_rate = 0.5, .training = false}), GruCell(2)});
      }};
  for (const auto& cell : cells) {
    for (const bool lengths : {false, true}) {
      ExpectSame(cell(), /*time_major=*/lengths, lengths, /*with_state=*/false);
      ExpectSame(cell(), /*time_major=*/!lengths, lengths, /*with_state=*/true);
    }
  }
}

TEST(RnnLoop, TakesBatchesOfAnyLengthInOneSession) {
  Model m;
  const Output x = Placeholder(m.s, kFloat, {-1, -1, 2});
  const RnnResult r = layers::Rnn(m.s, GruCell(3), x);
  const std::vector<Output> all = Everything(m, r, x, {});
  EXPECT_EQ(r.outputs.shape().ToString(), "[?,?,3]");
  EXPECT_EQ(r.state[0].shape().ToString(), "[?,3]");
  m.Run(InitializeVariables(m.s));
  for (const Shape& shape :
       {Shape({2, 5, 2}), Shape({3, 1, 2}), Shape({2, 0, 2}), Shape({0, 4, 2}), Shape({1, 40, 2})}) {
    SCOPED_TRACE(shape.ToString());
    const std::vector<Tensor> out = m.Run(all, {{x, Wave(shape)}});
    EXPECT_EQ(out[0].shape(), Shape({shape.dim(0), shape.dim(1), 3}));
    EXPECT_EQ(out[1].shape(), Shape({shape.dim(0), 3}));
    EXPECT_EQ(out[2].shape(), shape);
    if (shape.dim(1) > 0 && shape.dim(0) > 0) {
      // The last output is the state, and comes the same from the sequence without its end.
      ExpectTensor(out[0].Rows(0, 1).WithShape({shape.dim(1), 3}).Rows(shape.dim(1) - 1, shape.dim(1)),
                   out[1].Rows(0, 1));
    } else {
      for (size_t i = 3; i < out.size(); ++i) {
        for (const float g : out[i].flat<float>()) EXPECT_EQ(g, 0);
      }
    }
  }
}

TEST(RnnLoop, DropsOthersInEveryStep) {
  Model m;
  const Output x = Placeholder(m.s, kFloat, {-1, -1, 2});
  const Output training = Placeholder(m.s, kBool, Shape());
  const RnnCellPtr cell = layers::DropoutCell(GruCell(50), {.output_rate = 0.5, .training = training});
  const RnnResult r = layers::Rnn(m.s, cell, x);
  const Output dx = Gradients(m.s, {r.outputs}, {x})[0].values;
  m.Run(InitializeVariables(m.s));
  for (const bool drops : {true, false}) {
    const std::vector<Tensor> out =
        m.Run({r.outputs, dx}, {{x, Wave({1, 8, 2})}, {training, Tensor::Scalar<bool>(drops)}});
    const Tensor steps = out[0].WithShape({8, 50});
    int zeros = 0, alike = 0;
    for (int i = 0; i < 350; ++i) {
      zeros += steps.flat<float>()[i] == 0;
      alike += (steps.flat<float>()[i] == 0) == (steps.flat<float>()[i + 50] == 0);
    }
    EXPECT_NEAR(zeros, drops ? 175 : 0, 60);
    EXPECT_NEAR(alike, drops ? 175 : 350, 60);
  }
}

TEST(LstmLayers, GiveWhatTheirCellsGive) {
  for (const bool time_major : {false, true}) {
    std::vector<Tensor> results[2];
    std::vector<std::string> variables[2];
    for (const bool as_layers : {false, true}) {
      Model m;
      const Output x = Const(m.s, Wave({3, 3, 2}, 0.9, 1));
      const layers::LstmOptions lstm{.initializer = WaveInitializer};
      RnnOptions options{.sequence_length = Const(m.s, {2, 0, 3}), .time_major = time_major};
      for (const int64_t size : {4, 4, 3, 3}) options.initial_state.push_back(Const(m.s, Wave({3, size}, 0.3)));
      const RnnCellPtr cell = layers::MultiCell({LstmCell(4, lstm), LstmCell(3, lstm)});
      const RnnResult r =
          as_layers ? layers::LstmLayers(m.s, x, {4, 3}, lstm, {}, options) : layers::Rnn(m.s, cell, x, options);
      const std::vector<Output> all = Everything(m, r, x, options.initial_state);
      variables[as_layers] = m.Variables();
      m.Run(InitializeVariables(m.s));
      results[as_layers] = m.Run(all);
    }
    EXPECT_EQ(variables[0], variables[1]);
    ASSERT_EQ(results[0].size(), results[1].size());
    for (size_t i = 0; i < results[0].size(); ++i) ExpectTensor(results[1][i], results[0][i], 1e-5);
  }
}

TEST(LstmLayers, LengthsEndWithTheTime) {
  const auto all = [](const std::vector<int32_t>& lengths) {
    Model m;
    const Output x = Const(m.s, Wave({3, 4, 2}, 0.9, 1));
    const RnnOptions options{.sequence_length = Const(m.s, lengths)};
    const auto out = Everything(m, layers::LstmLayer(m.s, x, 4, {.initializer = WaveInitializer}, options), x, {});
    m.Run(InitializeVariables(m.s));
    return m.Run(out);
  };
  const std::vector<Tensor> got = all({7, -2, 3}), expected = all({4, 0, 3});
  for (size_t i = 0; i < got.size(); ++i) ExpectTensor(got[i], expected[i], 1e-5);
}

TEST(LstmLayers, NoTimeStepsLeaveTheStateAsItWas) {
  Model m;
  const Output x = Placeholder(m.s, kFloat, {-1, -1, 2});
  RnnOptions options;
  for (int i = 0; i < 2; ++i) options.initial_state.push_back(Const(m.s, Wave({3, 4}, 0.3 + i)));
  const RnnResult r = layers::LstmLayers(m.s, x, {4}, {}, {}, options);
  m.Run(InitializeVariables(m.s));
  const Tensor nothing = Tensor::Zeros(kFloat, {3, 0, 2});
  for (int i = 0; i < 2; ++i) ExpectTensor(m.Run(r.state[i], {{x, nothing}}), Wave({3, 4}, 0.3 + i));
  EXPECT_EQ(m.Run(r.outputs, {{x, nothing}}).shape(), Shape({3, 0, 4}));
}

TEST(LstmLayers, DropoutWithASeedCanBeRepeated) {
  const auto run = [](int64_t seed) {
    Model m;
    const RnnResult r = layers::LstmLayers(m.s, Const(m.s, Wave({1, 3, 2})), {30, 40}, {.initializer = WaveInitializer},
                                           {.output_rate = 0.5, .seed = seed});
    m.Run(InitializeVariables(m.s));
    return m.Run(r.outputs);
  };
  const Tensor first = run(7), other = run(8);
  ExpectTensor(run(7), first);
  EXPECT_FALSE(std::equal(first.flat<float>().begin(), first.flat<float>().end(), other.flat<float>().begin()));
}

TEST(LstmLayers, DropBetween) {
  Model m;
  const Output x = Placeholder(m.s, kFloat, {-1, -1, 2});
  const RnnResult r = layers::LstmLayers(m.s, x, {20, 50}, {}, {.output_rate = 0.5});
  m.Run(InitializeVariables(m.s));
  const Tensor outputs = m.Run(r.outputs, {{x, Wave({1, 8, 2})}});
  int zeros = 0;
  for (const float y : outputs.flat<float>()) zeros += y == 0;
  EXPECT_NEAR(zeros, 200, 60);
  layers::LstmLayers(m.s, x, {});
  EXPECT_EQ(m.s.status().message(), "LstmLayers 'rnn': there are no layers");
}

// Was the first of a row of numbers, of which there are 2 to 12, positive? That
// is to be remembered to the end.
void ExpectLearns(const Scope& s, const std::string& target) {
  const Output x = Placeholder(s, kFloat, {-1, -1, 1});
  const Output lengths = Placeholder(s, kInt32, {-1});
  const Output labels = Placeholder(s, kInt32, {-1});
  // The same in every run: a beginning that learns slowly would be a failure.
  const Initializer start = initializers::GlorotUniform({.seed = 1});
  const RnnCellPtr cell =
      layers::MultiCell({layers::DropoutCell(LstmCell(8, {.initializer = start}), {.output_rate = 0.1, .seed = 1}),
                         GruCell(8, {.kernel_initializer = start})});
  const RnnResult r = layers::Rnn(s, cell, x, {.sequence_length = lengths});
  const Output logits = layers::Dense(s, r.state[2], 2, {.kernel_initializer = start});
  const Output loss = ReduceMean(s, SparseSoftmaxCrossEntropy(s, logits, labels));
  const Output train = Adam({.learning_rate = 0.02})->Minimize(s, loss);
  const Output init = InitializeVariables(s);
  ASSERT_TRUE(s.ok()) << s.status();
  const auto session = Session::Create(s.graph(), {.target = target});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({init}).ok());
  double first = 0, last = 0;
  for (int step = 0; step < 120; ++step) {
    const int64_t time = 2 + step % 11, batch = 32;
    const Tensor numbers = TestValues(kFloat, {batch, time, 1}, -1, 1, step);
    Tensor ends(kInt32, {batch}), signs(kInt32, {batch});
    for (int64_t i = 0; i < batch; ++i) {
      ends.flat<int32_t>()[i] = static_cast<int32_t>(2 + i % (time - 1));
      signs.flat<int32_t>()[i] = numbers.flat<float>()[i * time] > 0 ? 1 : 0;
    }
    const auto out = (*session)->Run({loss, train}, {{x, numbers}, {lengths, ends}, {labels, signs}});
    ASSERT_TRUE(out.ok()) << out.status();
    if (step < 20) first += out->at(0).scalar<float>() / 20;
    if (step >= 100) last += out->at(0).scalar<float>() / 20;
  }
  EXPECT_GT(first, 0.5);
  EXPECT_LT(last, 0.25);
}

TEST(RnnLoop, Learns) {
  Graph graph;
  ExpectLearns(graph.root(), "");
}

TEST(RnnLoop, LearnsWithVariablesOnParameterServers) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}});
  Graph graph;
  ExpectLearns(graph.root().WithDevice(ReplicaDeviceSetter({.cluster = cluster.spec(), .worker = TaskId{"worker", 0}})),
               cluster.target({"worker", 0}));
}

}  // namespace
}  // namespace thalweg
