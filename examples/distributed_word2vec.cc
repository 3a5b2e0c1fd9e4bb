// SPDX-License-Identifier: Apache-2.0
// distributed_word2vec.cc - the skip-gram model of word2vec.cc on a cluster. The
// embedding table and the weights of the loss are partitioned over the parameter
// servers, so they may be too large for one task. A step transfers only the rows of
// its words and the gradients of those rows.
//
//   thalweg run --ps 2 --workers 2 -- distributed_word2vec --data=text8
//   thalweg run --ps 2 --workers 2 -- distributed_word2vec --generated --steps=4000
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, data, "text8", "text file with words separated by spaces; every worker must be able to read it");
ABSL_FLAG(bool, generated, false, "train on a small text generated for this run");
ABSL_FLAG(std::string, checkpoint_dir, "", "folder for checkpoints; empty: do not write any");
ABSL_FLAG(int64_t, steps, 100000, "global step at which the training stops");
ABSL_FLAG(int64_t, save_steps, 10000, "global steps between checkpoints");
ABSL_FLAG(int, batch_size, 128, "pairs of words per batch");
ABSL_FLAG(int, vocabulary, 50000, "size of the vocabulary; all other words share one id");
ABSL_FLAG(int, depth, 128, "dimensions of a word's embedding");
ABSL_FLAG(int, parts, 0, "number of partitions of each table; 0: one per parameter server");
ABSL_FLAG(int, sampled, 64, "negative samples per batch");
ABSL_FLAG(double, learning_rate, 1, "learning rate of gradient descent");

namespace {

constexpr int kShown = 8;  // number of frequent words whose nearest neighbours are printed

struct SkipGramModel {
  tw::Output words, near, loss, train_op, global_step, similarities;
};

tw::Output Normalized(const tw::Scope& s, tw::Output rows) {
  return rows * tw::Rsqrt(s, tw::ReduceSum(s, tw::Square(s, rows), {1}, {.keep_dims = true}));
}

// The cosine similarities of `words` to all words, [words, vocabulary]. Each
// partition of the table is compared on its own parameter server, so only the
// results cross the network.
tw::Output Similarities(const tw::Scope& s, const tw::PartitionedVariable& table, const std::vector<int32_t>& words) {
  const auto rows = Normalized(s, tw::EmbeddingLookup(s, table, tw::Const(s, words)));
  std::vector<tw::Output> parts;
  for (const tw::Var& part : table.parts) {
    const auto there = s.ColocateWith(part.ref);
    parts.push_back(tw::MatMul(there, rows, Normalized(there, part), {.transpose_b = true}));
  }
  return tw::Concat(s, parts, 1);
}

SkipGramModel BuildModel(const tw::Scope& s, int64_t size, int parts) {
  const int64_t depth = absl::GetFlag(FLAGS_depth);
  const auto in_parts = tw::partitioners::FixedSize(parts);
  const auto table = tw::MakePartitionedVariable(
      s, "embeddings", {size, depth},
      {.partitioner = in_parts, .initializer = tw::initializers::Uniform({.minval = -1, .maxval = 1})});
  const double stddev = 1 / std::sqrt(static_cast<double>(depth));
  const auto weights = tw::MakePartitionedVariable(
      s, "nce_weights", {size, depth},
      {.partitioner = in_parts, .initializer = tw::initializers::TruncatedNormal({.stddev = stddev})});
  const auto biases = tw::MakePartitionedVariable(s, "nce_biases", {size},
                                                  {.partitioner = in_parts, .initializer = tw::initializers::Zeros()});

  SkipGramModel m;
  m.words = tw::Placeholder(s, tw::kInt32, {-1});
  m.near = tw::Placeholder(s, tw::kInt64, {-1, 1});
  const auto embedded = tw::EmbeddingLookup(s, table, m.words);
  const int64_t sampled = std::min<int64_t>(absl::GetFlag(FLAGS_sampled), size);
  m.loss = tw::ReduceMean(
      s, tw::NceLoss(s, weights, biases, m.near, embedded, {.num_sampled = sampled, .num_classes = size}));
  const auto global_step = tw::GetOrCreateGlobalStep(s);
  m.global_step = global_step;
  m.train_op = tw::GradientDescent({.learning_rate = absl::GetFlag(FLAGS_learning_rate)})
                   ->Minimize(s, m.loss, {.global_step = global_step});
  std::vector<int32_t> shown(std::min<int64_t>(kShown, size - 1));
  std::iota(shown.begin(), shown.end(), 1);  // word 0 stands for all words outside of the vocabulary
  m.similarities = Similarities(s, table, shown);
  return m;
}

void PrintNeighbours(const tw::Tensor& similarities, const tw::data::Vocabulary& vocabulary) {
  const int64_t size = similarities.dim(1);
  for (int64_t i = 0; i < similarities.dim(0); ++i) {
    const float* const row = similarities.data<float>() + i * size;
    std::vector<int64_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    const int64_t count = std::min<int64_t>(6, size);
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [&](int64_t a, int64_t b) { return row[a] > row[b]; });
    std::printf("near %s:", vocabulary.word(i + 1).c_str());
    for (int64_t k = 1; k < count; ++k)
      std::printf(" %s", vocabulary.word(order[k]).c_str());  // order[0] is the word itself
    std::printf("\n");
  }
}

absl::Status Train(const tw::Job& job, const tw::Server& server, const std::string& path) {
  ASSIGN_OR_RETURN(const auto text, tw::data::ReadWords(path));
  const auto vocabulary =
      tw::data::Vocabulary::Build(text, {.max_size = absl::GetFlag(FLAGS_vocabulary), .unknown = "UNK"});
  // Each worker trains on its own part of the text.
  ASSIGN_OR_RETURN(auto pairs, tw::data::SkipGrams::Create(vocabulary.Ids(text),
                                                           {.seed = static_cast<uint64_t>(job.worker_index() + 1),
                                                            .shard = job.worker_index(),
                                                            .num_shards = job.num_workers()}));
  tw::Graph graph;
  const auto s = graph.root().WithDevice(tw::ReplicaDeviceSetter({.cluster = job.cluster, .worker = job.task}));
  const int parts = absl::GetFlag(FLAGS_parts);
  const SkipGramModel m =
      BuildModel(s, vocabulary.size(), parts > 0 ? parts : std::max(1, job.cluster.num_tasks("ps")));
  if (job.is_chief()) std::puts(tw::ExplainVariables(graph).ToString().c_str());

  ASSIGN_OR_RETURN(auto session, tw::MonitoredTrainingSession::Start(
                                     graph, {.master = server.target(),
                                             .is_chief = job.is_chief(),
                                             .checkpoint_dir = absl::GetFlag(FLAGS_checkpoint_dir),
                                             .hooks = {tw::StopAtStep(absl::GetFlag(FLAGS_steps)), tw::StopOnSignal()},
                                             .save_checkpoint_steps = absl::GetFlag(FLAGS_save_steps),
                                             .log_step_count_steps = 0}));
  double average = 0;  // moving average over about the last 100 steps of this worker
  int64_t own_steps = 0;
  for (int64_t report = 0; !session.ShouldStop();) {
    const auto batch = pairs.Next(absl::GetFlag(FLAGS_batch_size));
    ASSIGN_OR_RETURN(const auto out,
                     session.Run({m.train_op, m.loss, m.global_step}, {{m.words, batch.words}, {m.near, batch.near}}));
    average += (out[1].scalar<float>() - average) / static_cast<double>(std::min<int64_t>(++own_steps, 100));
    const auto step = out[2].scalar<int64_t>();
    if (step >= report || session.ShouldStop()) {
      report = step + std::max<int64_t>(1, absl::GetFlag(FLAGS_steps) / 10);
      std::printf("Train step %ld, loss: %.3f\n", step, average);
    }
  }
  if (job.is_chief()) {
    ASSIGN_OR_RETURN(const auto out, session.session().Run({m.similarities}));
    PrintNeighbours(out[0], vocabulary);
  }
  return session.Close();
}

absl::Status RunWorker(const tw::Job& job, const tw::Server& server) {
  if (!absl::GetFlag(FLAGS_generated)) return Train(job, server, absl::GetFlag(FLAGS_data));
  ASSIGN_OR_RETURN(const auto folder, tw::data::TemporaryFolder::Create());
  const std::string path = folder.path() + "/text8";
  RETURN_IF_ERROR(tw::data::GenerateText8(path));  // every worker generates the same text
  return Train(job, server, path);
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Learns word embeddings from a text on a cluster.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_batch_size) < 1 || absl::GetFlag(FLAGS_depth) < 1) {
    std::fprintf(stderr, "--batch_size and --depth must be at least 1\n");
    return 2;
  }
  return tw::RunCluster(argc, argv, RunWorker);
}
