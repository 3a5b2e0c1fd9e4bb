// SPDX-License-Identifier: Apache-2.0
// ptb.cc - the language model of TensorFlow's PTB tutorial, in its small
// configuration: a two-layer LSTM that predicts the next word. It trains in one
// process on the files of Mikolov's simple-examples or on a small generated text.
//
//   ptb --data_dir=simple-examples/data
//   ptb --generated --epochs=3 --hidden=50
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, data_dir, "simple-examples/data", "folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt");
ABSL_FLAG(bool, generated, false, "train on a small text generated for this run");
ABSL_FLAG(int, epochs, 13, "number of passes over the training text");
ABSL_FLAG(int, batch_size, 20, "sequences per batch; the text is cut into this many pieces");
ABSL_FLAG(int, steps, 20, "words per step; gradients are truncated after this many");
ABSL_FLAG(int, hidden, 200, "units per layer and dimensions of a word's embedding");
ABSL_FLAG(int, layers, 2, "number of LSTM layers");
ABSL_FLAG(double, learning_rate, 1, "learning rate of the first four epochs; it is halved in every epoch after that");
ABSL_FLAG(double, require_perplexity, 0, "exit with code 1 if the test perplexity is above this; 0: no limit");

namespace {

struct LanguageModel {
  tw::Output x, y, rate, loss, train_op, init_op;
  std::vector<tw::Output> initial_state, final_state;
};

LanguageModel BuildModel(const tw::Scope& s, int64_t words) {
  const int64_t batch = absl::GetFlag(FLAGS_batch_size), steps = absl::GetFlag(FLAGS_steps);
  const int64_t hidden = absl::GetFlag(FLAGS_hidden);
  const auto uniform = tw::initializers::Uniform({.minval = -0.1, .maxval = 0.1});
  LanguageModel m;
  m.x = tw::Placeholder(s, tw::kInt32, {batch, steps});
  m.y = tw::Placeholder(s, tw::kInt32, {batch, steps});
  m.rate = tw::Placeholder(s, tw::kFloat, tw::Shape());

  std::vector<tw::layers::RnnCellPtr> cells;
  for (int i = 0; i < absl::GetFlag(FLAGS_layers); ++i) {
    cells.push_back(tw::layers::LstmCell(hidden, {.forget_bias = 0, .initializer = uniform}));
  }
  const auto cell = tw::layers::MultiCell(cells);
  // The state is fed: each batch starts with the final state of the batch before it.
  for (const int64_t size : cell->state_sizes()) {
    m.initial_state.push_back(tw::Placeholder(s, tw::kFloat, {batch, size}));
  }
  const auto described = tw::layers::Embedding(s, m.x, words, hidden, {.initializer = uniform});
  const auto rnn = tw::layers::Rnn(s, cell, described, {.initial_state = m.initial_state});
  m.final_state = rnn.state;
  const auto outputs = tw::Reshape(s, rnn.outputs, {-1, static_cast<int32_t>(hidden)});
  const auto logits = tw::layers::Dense(s, outputs, words, {.kernel_initializer = uniform});
  // The loss per word, for the perplexity. Training minimizes its sum over the steps.
  m.loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, tw::Reshape(s, m.y, {-1})));

  const auto optimizer = tw::GradientDescent({.learning_rate = m.rate});
  const auto sum = m.loss * steps;
  const auto clipped = tw::ClipByGlobalNorm(s, optimizer->ComputeGradients(s, sum), 5);
  m.train_op = optimizer->ApplyGradients(s, clipped.gradients);
  m.init_op = tw::InitializeVariables(s);
  return m;
}

// Runs the model over a text and returns its perplexity, exp(mean loss per word).
// If `rate` is positive, also trains on the text.
absl::StatusOr<double> GoThrough(tw::Session& session, const LanguageModel& m, const std::vector<int32_t>& text,
                                 double rate, tw::Progress* progress, int64_t* step) {
  const tw::data::SequenceBatches batches(text, absl::GetFlag(FLAGS_batch_size), absl::GetFlag(FLAGS_steps));
  if (batches.size() == 0) return tw::InvalidArgument("a text of ", text.size(), " words is too short for a batch");
  std::vector<tw::Fetch> fetches = {m.loss};
  std::vector<tw::Output> feeds = {m.x, m.y, m.rate};
  std::vector<tw::Tensor> values(3);
  for (size_t i = 0; i < m.initial_state.size(); ++i) {
    fetches.push_back(m.final_state[i]);
    feeds.push_back(m.initial_state[i]);
    values.push_back(tw::Tensor::Zeros(tw::kFloat, *m.initial_state[i].shape().AsShape()));
  }
  if (rate > 0) fetches.push_back(m.train_op);
  ASSIGN_OR_RETURN(const auto run, session.Prepare(fetches, feeds));
  double sum = 0;
  for (const tw::data::SequenceBatch& batch : batches) {
    values[0] = batch.x;
    values[1] = batch.y;
    values[2] = tw::Tensor::Scalar<float>(static_cast<float>(rate));
    ASSIGN_OR_RETURN(const auto out, run.Run(values));
    for (size_t i = 0; i < m.initial_state.size(); ++i) values[3 + i] = out[1 + i];
    sum += out[0].scalar<float>();
    if (progress != nullptr) progress->Update(++*step, out[0].scalar<float>());
  }
  return std::exp(sum / static_cast<double>(batches.size()));
}

absl::Status Train(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto ptb, tw::data::Ptb::Load(folder));
  std::printf("%zu words to train on, %ld different ones\n", ptb.train.size(), ptb.vocabulary.size());
  tw::Graph graph;
  const LanguageModel m = BuildModel(graph.root(), ptb.vocabulary.size());
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph));
  RETURN_IF_ERROR(session->Run({m.init_op}).status());

  const int epochs = absl::GetFlag(FLAGS_epochs);
  const auto per_epoch =
      tw::data::SequenceBatches(ptb.train, absl::GetFlag(FLAGS_batch_size), absl::GetFlag(FLAGS_steps)).size();
  int64_t step = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const double rate = absl::GetFlag(FLAGS_learning_rate) * std::pow(0.5, std::max(epoch - 3, 0));
    double train;
    {
      tw::Progress progress(
          {.first_step = step, .total_steps = per_epoch * epochs, .terminal = tw::IsTerminal(stdout)});
      ASSIGN_OR_RETURN(train, GoThrough(*session, m, ptb.train, rate, &progress, &step));
    }
    ASSIGN_OR_RETURN(const double valid, GoThrough(*session, m, ptb.valid, 0, nullptr, nullptr));
    std::printf("epoch %d: perplexity %.2f in training, %.2f in validation\n", epoch + 1, train, valid);
  }
  ASSIGN_OR_RETURN(const double test, GoThrough(*session, m, ptb.test, 0, nullptr, nullptr));
  std::printf("test perplexity %.2f\n", test);
  const double limit = absl::GetFlag(FLAGS_require_perplexity);
  if (limit > 0 && !(test <= limit)) return tw::FailedPrecondition("test perplexity ", test, " is above ", limit);
  return session->Close();
}

absl::Status Run() {
  if (!absl::GetFlag(FLAGS_generated)) return Train(absl::GetFlag(FLAGS_data_dir));
  ASSIGN_OR_RETURN(const auto folder, tw::data::TemporaryFolder::Create());
  RETURN_IF_ERROR(tw::data::GeneratePtb(folder.path()));
  return Train(folder.path());
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Trains a language model on the Penn Treebank.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_batch_size) < 1 || absl::GetFlag(FLAGS_steps) < 1) {
    std::fprintf(stderr, "--batch_size and --steps must be at least 1\n");
    return 2;
  }
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
