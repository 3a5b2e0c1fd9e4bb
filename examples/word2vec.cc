// SPDX-License-Identifier: Apache-2.0
// word2vec.cc - the skip-gram model of TensorFlow's word2vec tutorial: it learns
// embeddings in which words that occur near each other are similar. It trains in one
// process on the unpacked text8 (http://mattmahoney.net/dc/textdata) or on a small
// generated text.
//
//   word2vec --data=text8
//   word2vec --generated --steps=2000
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, data, "text8", "text file with words separated by spaces");
ABSL_FLAG(bool, generated, false, "train on a small text generated for this run");
ABSL_FLAG(int, steps, 100000, "number of training steps");
ABSL_FLAG(int, batch_size, 128, "pairs of words per batch");
ABSL_FLAG(int, vocabulary, 50000, "size of the vocabulary; all other words share one id");
ABSL_FLAG(int, depth, 128, "dimensions of a word's embedding");
ABSL_FLAG(int, window, 1, "size of the context window on each side of a word");
ABSL_FLAG(int, sampled, 64, "negative samples per batch");
ABSL_FLAG(double, learning_rate, 1, "learning rate of gradient descent");
ABSL_FLAG(double, require_loss, 0, "exit with code 1 if the average loss of the last steps is above this; 0: no limit");

namespace {

struct SkipGramModel {
  tw::Output words, near, loss, train_op, normalized, init_op;
};

SkipGramModel BuildModel(const tw::Scope& s, int64_t size) {
  const int64_t depth = absl::GetFlag(FLAGS_depth);
  SkipGramModel m;
  m.words = tw::Placeholder(s, tw::kInt32, {-1});
  m.near = tw::Placeholder(s, tw::kInt64, {-1, 1});
  const auto embedded = tw::layers::Embedding(s, m.words, size, depth,
                                              {.initializer = tw::initializers::Uniform({.minval = -1, .maxval = 1})});
  const double stddev = 1 / std::sqrt(static_cast<double>(depth));
  const auto weights = tw::MakeVariable(s, "nce_weights", {size, depth},
                                        {.initializer = tw::initializers::TruncatedNormal({.stddev = stddev})});
  const auto biases = tw::MakeVariable(s, "nce_biases", {size}, {.initializer = tw::initializers::Zeros()});
  const int64_t sampled = std::min<int64_t>(absl::GetFlag(FLAGS_sampled), size);
  m.loss = tw::ReduceMean(
      s, tw::NceLoss(s, weights, biases, m.near, embedded, {.num_sampled = sampled, .num_classes = size}));
  m.train_op = tw::GradientDescent({.learning_rate = absl::GetFlag(FLAGS_learning_rate)})->Minimize(s, m.loss);
  const tw::Output table = tw::GetVariable(s.graph(), "embedding/embeddings");
  const auto squares = tw::ReduceSum(s, tw::Square(s, table), {1}, {.keep_dims = true});
  m.normalized = tw::Mul(s, table, tw::Rsqrt(s, squares));
  m.init_op = tw::InitializeVariables(s);
  return m;
}

// Prints the nearest neighbours of some frequent words.
void PrintNeighbours(const tw::Tensor& table, const tw::data::Vocabulary& vocabulary) {
  const int64_t size = table.dim(0), depth = table.dim(1);
  const float* const rows = table.data<float>();
  for (int64_t word = 1; word <= std::min<int64_t>(8, size - 1); ++word) {
    std::vector<std::pair<float, int64_t>> found;
    for (int64_t other = 0; other < size; ++other) {
      float product = 0;
      for (int64_t i = 0; i < depth; ++i) product += rows[word * depth + i] * rows[other * depth + i];
      if (other != word) found.emplace_back(-product, other);
    }
    const int64_t count = std::min<int64_t>(5, static_cast<int64_t>(found.size()));
    std::partial_sort(found.begin(), found.begin() + count, found.end());
    std::printf("near %s:", vocabulary.word(word).c_str());
    for (int64_t i = 0; i < count; ++i) std::printf(" %s", vocabulary.word(found[i].second).c_str());
    std::printf("\n");
  }
}

absl::Status Train(const std::string& path) {
  ASSIGN_OR_RETURN(const auto text, tw::data::ReadWords(path));
  const auto vocabulary =
      tw::data::Vocabulary::Build(text, {.max_size = absl::GetFlag(FLAGS_vocabulary), .unknown = "UNK"});
  std::printf("%zu words in %s, a vocabulary of %ld\n", text.size(), path.c_str(), vocabulary.size());
  const int window = absl::GetFlag(FLAGS_window);
  ASSIGN_OR_RETURN(auto pairs, tw::data::SkipGrams::Create(vocabulary.Ids(text), {.window = window, .skips = 2}));

  tw::Graph graph;
  const SkipGramModel m = BuildModel(graph.root(), vocabulary.size());
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph));
  RETURN_IF_ERROR(session->Run({m.init_op}).status());
  const int steps = absl::GetFlag(FLAGS_steps);
  double average = 0;  // moving average over about the last 100 steps
  {
    tw::Progress progress({.total_steps = steps, .terminal = tw::IsTerminal(stdout)});
    ASSIGN_OR_RETURN(const auto train, session->Prepare({m.train_op, m.loss}, {m.words, m.near}));
    for (int step = 1; step <= steps; ++step) {
      const auto batch = pairs.Next(absl::GetFlag(FLAGS_batch_size));
      ASSIGN_OR_RETURN(const auto out, train.Run({batch.words, batch.near}));
      average += (out[1].scalar<float>() - average) / std::min(step, 100);
      progress.Update(step, static_cast<float>(average));
    }
  }
  ASSIGN_OR_RETURN(const auto out, session->Run({m.normalized}));
  PrintNeighbours(out[0], vocabulary);
  std::printf("average loss of the last steps %.3f\n", average);
  const double limit = absl::GetFlag(FLAGS_require_loss);
  if (limit > 0 && !(average <= limit)) return tw::FailedPrecondition("the loss ", average, " is above ", limit);
  return session->Close();
}

absl::Status Run() {
  if (!absl::GetFlag(FLAGS_generated)) return Train(absl::GetFlag(FLAGS_data));
  ASSIGN_OR_RETURN(const auto folder, tw::data::TemporaryFolder::Create());
  const std::string path = folder.path() + "/text8";
  RETURN_IF_ERROR(tw::data::GenerateText8(path));
  return Train(path);
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Learns word embeddings from a text.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_batch_size) < 1 || absl::GetFlag(FLAGS_depth) < 1) {
    std::fprintf(stderr, "--batch_size and --depth must be at least 1\n");
    return 2;
  }
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
