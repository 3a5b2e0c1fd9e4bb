// SPDX-License-Identifier: Apache-2.0
// Numbers and names are those of TensorFlow 2.15.1 (tf.compat.v1.layers and
// nn.dynamic_rnn with the cells of nn.rnn_cell) for the same inputs and weights.
#include "thalweg/train/layers/layers.h"

#include "thalweg/graph/gradient.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/layers/convolution_layers.h"
#include "thalweg/train/layers/model_testlib.h"
#include "thalweg/train/layers/normalization_layers.h"
#include "thalweg/train/layers/recurrent_layers.h"

namespace thalweg {
namespace {

using layers::GruCell;
using layers::LstmCell;
using layers::RnnCellPtr;
using testing::ElementsAre;
using testing::HasSubstr;

// The trainable variables and x: what gradients are checked for.
std::vector<Output> Derivatives(Model& m, Output loss, Output x) {
  std::vector<Output> refs;
  for (const Var& v : TrainableVariables(m.graph)) refs.push_back(v.ref);
  refs.push_back(x);
  std::vector<Output> dense;
  for (const Gradient& g : Gradients(m.s, {loss}, refs)) dense.push_back(ToDense(m.s, g));
  return dense;
}

// sum(y * a wave)
Output Loss(const Scope& s, Output y, const Shape& shape) {
  return ReduceSum(s, Mul(s, y, Const(s, Wave(shape, 0.4, 1))));
}

TEST(Layers, ConvolutionAndPooling) {
  Model m;
  const Output x = Const(m.s, Wave({2, 6, 5, 3}, 0.9, 1));
  Output y = layers::Conv2D(m.s, x, 4, {3, 2},
                            {.strides = {2, 1},
                             .padding = Padding::kSame,
                             .activation = Relu,
                             .kernel_initializer = WaveInitializer,
                             .bias_initializer = WaveInitializer});
  y = layers::Conv2D(m.s, y, 2, 2, {.use_bias = false, .kernel_initializer = WaveInitializer});
  const Output max = layers::MaxPooling2D(m.s, y, 2, 1);
  const Output mean = layers::AveragePooling2D(m.s, y, {2, 3}, {1, 2}, {.padding = Padding::kSame});
  const Output flat = layers::Flatten(m.s, max);
  ASSERT_TRUE(m.s.ok()) << m.s.status();
  EXPECT_EQ(flat.shape().ToString(), "[2,6]");
  std::vector<Output> all = {max, mean, flat};
  for (const Output& d : Derivatives(m, Add(m.s, Loss(m.s, flat, {2, 6}), ReduceSum(m.s, mean)), x)) all.push_back(d);
  EXPECT_THAT(m.Variables(), ElementsAre("conv2d/kernel[3,2,3,4]", "conv2d/bias[4]", "conv2d_1/kernel[2,2,4,2]"));
  m.Run(InitializeVariables(m.s));
  ExpectMarks(m.Run(all), {-0.4827322, -2.012205, -0.4827322, 22.79179, 14.49699, -4.336131, -0.260222});
}

void ExpectBatchNorm(const Shape& shape, Training training, const std::vector<double>& marks,
                     const std::vector<Feed>& feeds, Model& m) {
  const Output x = Const(m.s, Wave(shape, 0.9, 1));
  const Output y = layers::BatchNorm(m.s, x, {.training = training, .momentum = 0.9});
  ASSERT_TRUE(m.s.ok()) << m.s.status();
  std::vector<Output> all = {y};
  for (const Output& d : Derivatives(m, Loss(m.s, y, shape), x)) all.push_back(d);
  EXPECT_THAT(m.Variables(),
              ElementsAre("batch_normalization/gamma[3]", "batch_normalization/beta[3]",
                          "batch_normalization/moving_mean[3]", "batch_normalization/moving_variance[3]"));
  m.Run(InitializeVariables(m.s));
  std::vector<Tensor> results = m.Run(all, feeds);
  const std::vector<Output> updates = UpdateOps(m.graph);
  if (!updates.empty()) m.Run(Group(m.s, updates), feeds);
  for (const char* name : {"moving_mean", "moving_variance"}) {
    results.push_back(m.Run(GetVariable(m.graph, absl::StrCat("batch_normalization/", name))));
  }
  ExpectMarks(results, marks);
}

TEST(Layers, BatchNorm) {
  const Shape images({2, 3, 2, 3}), rows({5, 3});
  const std::vector<double> images_training = {2.57302, -1.801425, 2.36272, 14.3127, -0.0001971727, 2.649182};
  const std::vector<double> images_inference = {1.741598, -1.205166, 2.36272, 9.566482, 0, 2.780672};
  const std::vector<double> rows_training = {2.789766, 1.189686, 0.2367595, 8.188822, -0.000937789, 2.630418};
  const std::vector<double> rows_inference = {1.752511, 0.7898687, 0.2367595, 5.620745, 0, 2.780672};
  for (const bool training : {false, true}) {
    for (const bool is_images : {false, true}) {
      SCOPED_TRACE(absl::StrCat(training, " ", is_images));
      const std::vector<double>& marks =
          is_images ? (training ? images_training : images_inference) : (training ? rows_training : rows_inference);
      Model fixed, fed;
      ExpectBatchNorm(is_images ? images : rows, training, marks, {}, fixed);
      EXPECT_EQ(UpdateOps(fixed.graph).size(), training ? 2u : 0u);
      const Output placeholder = Placeholder(fed.s, kBool, Shape());
      ExpectBatchNorm(is_images ? images : rows, placeholder, marks, {{placeholder, Tensor::Scalar<bool>(training)}},
                      fed);
    }
  }
}

TEST(Layers, DropoutDrawsAsTensorFlowDoes) {
  Model m;
  const Output x = Const(m.s, Wave({3, 4}, 0.9, 2));
  const Output training = Placeholder(m.s, kBool, Shape());
  const Output fixed = layers::Dropout(m.s, x, {.rate = 0.3, .training = true, .seed = 7});
  const Output fed = layers::Dropout(m.s, x, {.rate = 0.3, .training = training, .seed = 7});
  EXPECT_EQ(layers::Dropout(m.s, x, {.rate = 0.3}), x);
  ExpectMarks(m.Run({fixed, fed}, {{training, Tensor::Scalar<bool>(true)}}), {-3.884961, -3.884961});
  ExpectMarks({m.Run(fed, {{training, Tensor::Scalar<bool>(false)}})}, {0.674119});
}

TEST(Layers, EmbeddingHasASparseGradient) {
  Model m;
  const Output rows = layers::Embedding(m.s, Const(m.s, {{1, 4}, {1, 0}}), 5, 3, {.initializer = WaveInitializer});
  EXPECT_EQ(rows.shape().ToString(), "[2,2,3]");
  EXPECT_THAT(m.Variables(), ElementsAre("embedding/embeddings[5,3]"));
  EXPECT_TRUE(Gradients(m.s, {rows}, {GetVariable(m.graph, "embedding/embeddings").ref})[0].sparse());
  m.Run(InitializeVariables(m.s));
  ExpectTensor(m.Run(rows).WithShape({12}).Rows(9, 12), Wave({3}));
}

// The outputs, the final state and all derivatives. With options of an LSTM, of a
// layer that is one operation instead of a cell.
void ExpectRnn(const RnnCellPtr& cell, const layers::RnnOptions& options, const std::vector<std::string>& variables,
               int which_states, const std::vector<double>& marks, const layers::LstmOptions* layer = nullptr) {
  Model m;
  const Shape in = options.time_major ? Shape({3, 2, 4}) : Shape({2, 3, 4});
  const Output x = Const(m.s, Wave(in, 0.9, 1));
  layers::RnnOptions used = options;
  if (options.sequence_length) used.sequence_length = Const(m.s, {3, 2});
  // Loops and layers need not know how many steps there are.
  const Output any = PlaceholderWithDefault(m.s, x, {-1, -1, 4});
  const layers::RnnResult r = layer == nullptr ? layers::Rnn(m.s, cell, options.unroll ? x : any, used)
                                               : layers::LstmLayer(m.s, any, 5, *layer, used);
  ASSERT_TRUE(m.s.ok()) << m.s.status();
  EXPECT_EQ(r.outputs.shape().dim(2), cell->output_size());
  for (size_t i = 0; i < r.state.size(); ++i) EXPECT_EQ(r.state[i].shape().dim(1), cell->state_sizes()[i]);
  std::vector<Output> all = {r.outputs};
  Output loss = Loss(m.s, r.outputs, Shape({in.dim(0), in.dim(1), cell->output_size()}));
  for (size_t i = 0; i < r.state.size(); ++i) {
    if ((which_states >> i & 1) != 0) all.push_back(r.state[i]);
  }
  if (cell->state_sizes() == std::vector<int64_t>({5, 5})) loss = Add(m.s, loss, ReduceSum(m.s, r.state[0]));
  for (const Output& d : Derivatives(m, loss, x)) all.push_back(d);
  EXPECT_EQ(m.Variables(), variables);
  m.Run(InitializeVariables(m.s));
  ExpectMarks(m.Run(all), marks);
}

enum class Form { kCopies, kLoop, kLayer };

TEST(Rnn, Lstm) {
  Model other;
  const Output some = Const(other.s, 1);  // stands for lengths
  const layers::LstmOptions plain{.initializer = WaveInitializer};
  const layers::LstmOptions basic{.initializer = WaveInitializer, .name = "basic_lstm_cell"};
  const layers::LstmOptions peepholes{.use_peepholes = true, .initializer = WaveInitializer};
  for (const Form form : {Form::kCopies, Form::kLoop, Form::kLayer}) {
    SCOPED_TRACE(static_cast<int>(form));
    const bool unroll = form != Form::kLoop, as_layer = form == Form::kLayer;
    ExpectRnn(LstmCell(5, plain), {.sequence_length = some, .unroll = unroll},
              {"rnn/lstm_cell/kernel[9,20]", "rnn/lstm_cell/bias[20]"}, 3,
              {-0.009398115, -0.2952909, -0.06311904, -0.8533236, -3.096014, -0.03634743}, as_layer ? &plain : nullptr);
    ExpectRnn(LstmCell(5, basic), {.unroll = unroll},
              {"rnn/basic_lstm_cell/kernel[9,20]", "rnn/basic_lstm_cell/bias[20]"}, 3,
              {0.05259023, -0.440972, -0.1348642, 0.1130824, -2.275798, -0.1068204}, as_layer ? &basic : nullptr);
    ExpectRnn(LstmCell(5, peepholes), {.time_major = true, .unroll = unroll},
              {"rnn/lstm_cell/kernel[9,20]", "rnn/lstm_cell/bias[20]", "rnn/lstm_cell/w_f_diag[5]",
               "rnn/lstm_cell/w_i_diag[5]", "rnn/lstm_cell/w_o_diag[5]"},
              3, {0.1633051, -1.180359, -0.2901577, 0.3659789, -3.618323, 0.1405905, 0.2077697, 0.04707354, 0.2995999},
              as_layer ? &peepholes : nullptr);
  }
}

TEST(Rnn, ClippedCellsWithPeepholes) {
  Model other;
  for (const bool unroll : {true, false}) {
    ExpectRnn(
        LstmCell(5, {.use_peepholes = true, .cell_clip = 0.3, .initializer = WaveInitializer}),
        {.sequence_length = Const(other.s, 1), .unroll = unroll},
        {"rnn/lstm_cell/kernel[9,20]", "rnn/lstm_cell/bias[20]", "rnn/lstm_cell/w_f_diag[5]",
         "rnn/lstm_cell/w_i_diag[5]", "rnn/lstm_cell/w_o_diag[5]"},
        3,
        {0.1026603, -0.3306181, -0.09778959, -0.4295196, -2.155176, 0.02759139, -0.09112658, 0.02470789, -0.2356143});
  }
}

TEST(Rnn, GruAndSeveralLayers) {
  for (const bool unroll : {true, false}) {
    ExpectRnn(GruCell(5, {.kernel_initializer = WaveInitializer}), {.unroll = unroll},
              {"rnn/gru_cell/gates/kernel[9,10]", "rnn/gru_cell/gates/bias[10]", "rnn/gru_cell/candidate/kernel[9,5]",
               "rnn/gru_cell/candidate/bias[5]"},
              1, {-0.04243981, 0.1671979, -0.0426535, -0.03913927, 0.1655113, -1.475573, 0.1655238});
    ExpectRnn(
        layers::MultiCell(
            {LstmCell(5, {.initializer = WaveInitializer}), GruCell(3, {.kernel_initializer = WaveInitializer})}),
        {.time_major = true, .unroll = unroll},
        {"rnn/multi_rnn_cell/cell_0/lstm_cell/kernel[9,20]", "rnn/multi_rnn_cell/cell_0/lstm_cell/bias[20]",
         "rnn/multi_rnn_cell/cell_1/gru_cell/gates/kernel[8,6]", "rnn/multi_rnn_cell/cell_1/gru_cell/gates/bias[6]",
         "rnn/multi_rnn_cell/cell_1/gru_cell/candidate/kernel[8,3]",
         "rnn/multi_rnn_cell/cell_1/gru_cell/candidate/bias[3]"},
        5,
        {-0.03142724, -1.186536, 0.01961311, 0.02081287, 0.0164855, 0.001755541, 0.01340671, 0.2853967, -0.7543708,
         0.001953933});
  }
}

TEST(Rnn, ALayerEndsWhereTheLongestSequenceDoes) {
  Model m;
  const Output x = Const(m.s, Wave({3, 4, 2}, 0.9, 1)), lengths = Const(m.s, {2, 0, 3});
  const layers::LstmOptions options{.initializer = WaveInitializer};
  std::vector<Output> results[2];
  for (const bool as_layer : {false, true}) {
    const layers::RnnResult r = as_layer ? layers::LstmLayer(m.s, x, 3, options, {.sequence_length = lengths})
                                         : layers::Rnn(m.s, LstmCell(3, options), x, {.sequence_length = lengths});
    ASSERT_TRUE(m.s.ok()) << m.s.status();
    std::vector<Output>& all = results[as_layer];
    all = {r.outputs, r.state[0], r.state[1]};
    const Output kernel = GetVariable(m.graph, as_layer ? "rnn_1/lstm_cell/kernel" : "rnn/lstm_cell/kernel").ref;
    for (const Gradient& g : Gradients(m.s, all, {kernel, x})) all.push_back(g.values);
  }
  m.Run(InitializeVariables(m.s));
  const std::vector<Tensor> cell = m.Run(results[0]), layer = m.Run(results[1]);
  for (size_t i = 0; i < cell.size(); ++i) ExpectTensor(layer[i], cell[i], 1e-5);
}

TEST(Rnn, TheWeightsOfAllStepsGetOneProduct) {
  Model m;
  const layers::RnnResult r = layers::Rnn(m.s, LstmCell(5), Const(m.s, Wave({2, 3, 4})));
  const Output kernel = GetVariable(m.graph, "rnn/lstm_cell/kernel").ref;
  const Output gradient = Gradients(m.s, {r.outputs}, {kernel})[0].values;
  ASSERT_TRUE(m.s.ok()) << m.s.status();
  EXPECT_EQ(gradient.node->op(), "MatMul");
  EXPECT_EQ(gradient.node->input(0).shape().ToString(), "[6,9]");
}

// Their factors stay where they are; what goes between devices is the products.
TEST(Rnn, ProductsOfSeveralDevicesAreAdded) {
  Model m;
  const Var w = MakeVariable(m.s, "w", {3, 2});
  std::vector<Output> ys;
  for (const char* device : {"/cpu:0", "/cpu:1"}) {
    ys.push_back(MatMul(m.s.WithDevice(device), Const(m.s.WithDevice(device), Wave({5, 3})), w));
  }
  const Output gradient = Gradients(m.s, ys, {w.ref})[0].values;
  ASSERT_TRUE(m.s.ok()) << m.s.status();
  EXPECT_EQ(gradient.node->op(), "AddN");
}

TEST(Layers, ErrorsNameTheLayer) {
  const auto error = [](auto build) {
    Model m;
    build(m.s.SubScope("block"));
    return std::string(m.s.status().message());
  };
  EXPECT_EQ(error([](const Scope& s) {
              layers::Dense(s, Placeholder(s, kUint8, {2, 3}), 5, {.name = "logits"});
            }),
            "Dense 'block/logits': the input must be floating, got uint8");
  EXPECT_EQ(error([](const Scope& s) {
              layers::Conv2D(s, Placeholder(s, kFloat, {2, 3}), 5, 3);
            }),
            "Conv2D 'block/conv2d': the input must be [batch, height, width, channels], got [2,3]");
  EXPECT_EQ(error([](const Scope& s) {
              layers::MaxPooling2D(s, Placeholder(s, kFloat, {2, 3}), 2, 2);
            }),
            "MaxPooling2D 'block/max_pooling2d': the input must be [batch, height, width, channels], got [2,3]");
  EXPECT_EQ(error([](const Scope& s) { layers::BatchNorm(s, Placeholder(s, kFloat, {2})); }),
            "BatchNorm 'block/batch_normalization': the input needs a rank of 2 or 4 and a known last dimension, got "
            "[2]");
  EXPECT_EQ(error([](const Scope& s) { layers::Rnn(s, layers::GruCell(2), Output()); }),
            "Rnn 'block/rnn': the input is missing");
  EXPECT_EQ(error([](const Scope& s) {
              layers::Flatten(s, Placeholder(s.WithOpName("x"), kFloat, {-1, 2, -1}));
            }),
            "Flatten 'block/Flatten': only the first dimension of block/x:0 may be unknown, got [?,2,?]");
}

TEST(Rnn, ACellKeepsItsVariablesAndABatchOfAnySizeRuns) {
  Model m;
  const RnnCellPtr cell = layers::DropoutCell(LstmCell(5), {.output_rate = 0.5});
  const Output x = Placeholder(m.s, kFloat, {-1, 2, 4});
  const layers::RnnResult first = layers::Rnn(m.s, cell, x);
  const layers::RnnResult second = layers::Rnn(m.s, cell, x, {.initial_state = first.state});
  ASSERT_TRUE(m.s.ok()) << m.s.status();
  EXPECT_EQ(m.Variables().size(), 2u);
  m.Run(InitializeVariables(m.s));
  const Tensor y = m.Run(second.outputs, {{x, Wave({7, 2, 4})}});
  EXPECT_EQ(y.shape(), Shape({7, 2, 5}));
  int zeros = 0;
  for (const float v : y.flat<float>()) zeros += v == 0;
  EXPECT_GT(zeros, 10);
  EXPECT_LT(zeros, 60);
}

TEST(Rnn, DropoutWithASeedCanBeRepeated) {
  const auto run = [](std::optional<int64_t> seed) {
    Model m;
    const RnnCellPtr cell = layers::DropoutCell(LstmCell(50, {.initializer = WaveInitializer}),
                                                {.input_rate = 0.2, .output_rate = 0.5, .seed = seed});
    const layers::RnnResult r = layers::Rnn(m.s, cell, Const(m.s, Wave({1, 2, 4})));
    m.Run(InitializeVariables(m.s));
    return m.Run(r.outputs).WithShape({2, 50});
  };
  const Tensor first = run(7);
  ExpectTensor(run(7), first);
  EXPECT_NE(Mark(run(8)), Mark(first));
  EXPECT_NE(Mark(run({})), Mark(first));
  // Each step drops others.
  int differ = 0;
  for (int i = 0; i < 50; ++i) differ += (first.data<float>()[i] == 0) != (first.data<float>()[50 + i] == 0);
  EXPECT_GT(differ, 5);
}

TEST(Layers, BadInputIsAnErrorOfTheScope) {
  const auto error = [](const std::function<void(const Scope&)>& build) {
    Model m;
    build(m.s);
    return std::string(m.s.status().message());
  };
  const auto x = [](const Scope& s, const PartialShape& shape) { return Placeholder(s, kFloat, shape); };
  EXPECT_THAT(error([&](const Scope& s) { layers::Conv2D(s, x(s, {2, 2}), 1, 1); }), HasSubstr("got [2,2]"));
  EXPECT_THAT(error([&](const Scope& s) { layers::Conv2D(s, x(s, {1, 2, 2, -1}), 1, 1); }), HasSubstr("channels"));
  EXPECT_THAT(error([&](const Scope& s) { layers::Conv2D(s, x(s, {1, 2, 2, 3}), 0, 1); }), HasSubstr("positive"));
  EXPECT_THAT(error([&](const Scope& s) { layers::MaxPooling2D(s, x(s, {1, 2}), 2, 2); }), HasSubstr("max_pooling2d"));
  EXPECT_THAT(error([&](const Scope& s) { layers::BatchNorm(s, x(s, {1, 2, -1})); }), HasSubstr("rank of 2 or 4"));
  EXPECT_THAT(error([&](const Scope& s) { layers::Dropout(s, x(s, {1}), {.rate = 1}); }), HasSubstr("got 1"));
  EXPECT_THAT(error([&](const Scope& s) { layers::Flatten(s, x(s, {-1, -1})); }), HasSubstr("[?,?]"));
  EXPECT_THAT(error([&](const Scope& s) { layers::Embedding(s, x(s, {1}), 0, 3); }), HasSubstr("[0,3]"));
  EXPECT_THAT(error([&](const Scope& s) { layers::Rnn(s, LstmCell(2), x(s, {1, -1, -1})); }), HasSubstr("known depth"));
  const auto rnn = [&](const Scope& s, const PartialShape& state, const PartialShape& lengths) {
    layers::Rnn(s, GruCell(2), x(s, {5, -1, 3}),
                {.initial_state = {x(s, state)}, .sequence_length = Placeholder(s, kInt64, lengths)});
  };
  EXPECT_THAT(error([&](const Scope& s) { rnn(s, {5, 2}, {-1}); }), "");
  EXPECT_THAT(error([&](const Scope& s) { rnn(s, {5, 3}, {5}); }), HasSubstr("state must be [5,2], got [5,3]"));
  EXPECT_THAT(error([&](const Scope& s) { rnn(s, {-1, 2}, {5, 1}); }), HasSubstr("vector of integers, got int64[5,1]"));
  EXPECT_THAT(error([&](const Scope& s) { layers::LstmLayer(s, x(s, {1, 2, -1}), 5); }), HasSubstr("known depth"));
  EXPECT_THAT(error([&](const Scope& s) { layers::LstmLayer(s, x(s, {1, 2, 3}), 0); }), HasSubstr("got 0"));
  EXPECT_THAT(error([&](const Scope& s) { layers::Rnn(s, LstmCell(0), x(s, {1, 2, 3})); }), HasSubstr("0 units"));
  EXPECT_THAT(error([&](const Scope& s) {
                layers::Rnn(s, layers::MultiCell({}), x(s, {1, 2, 3}));
              }),
              HasSubstr("no cells"));
  EXPECT_THAT(error([&](const Scope& s) {
                const RnnCellPtr cell = LstmCell(2);
                layers::Rnn(s, cell, x(s, {1, 2, 3}));
                layers::Rnn(s, cell, x(s, {1, 2, 4}));
              }),
              HasSubstr("was made for inputs of width 3, got [1,4]"));
}

}  // namespace
}  // namespace thalweg
