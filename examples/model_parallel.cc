// SPDX-License-Identifier: Apache-2.0
// model_parallel.cc - a stacked LSTM with each layer on its own task. Activations
// flow from one task to the next, and gradients flow back the same way. The chief
// builds the graph; the other workers hold the variables of their layer and run it.
//
//   thalweg run --ps 0 --workers 2 -- model_parallel
//
// It learns to repeat a sequence of bits with a delay.
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, steps, 300, "number of training steps");
ABSL_FLAG(int, units, 32, "units per layer");
ABSL_FLAG(int, time, 12, "time steps per sequence");
ABSL_FLAG(double, require_loss, 0, "exit with code 1 if the last loss is above this; 0: no limit");

namespace {

constexpr int kBatch = 32;
constexpr int kDelay = 2;

// Random bits [batch, time, 1], and the same bits kDelay steps later [batch, time].
std::pair<tw::Tensor, tw::Tensor> Sequences(std::mt19937& random, int time) {
  tw::Tensor x(tw::kFloat, {kBatch, time, 1}), y(tw::kFloat, {kBatch, time});
  for (int b = 0; b < kBatch; ++b) {
    for (int t = 0; t < time; ++t) {
      x.mutable_data<float>()[b * time + t] = static_cast<float>(random() % 2);
      y.mutable_data<float>()[b * time + t] = t < kDelay ? 0 : x.flat<float>()[b * time + t - kDelay];
    }
  }
  return {std::move(x), std::move(y)};
}

absl::Status Train(const tw::Job& job, const tw::Server& server) {
  const int layers = job.cluster.num_tasks(job.task.job);
  const int time = absl::GetFlag(FLAGS_time);
  tw::Graph graph;
  const auto layer_scope = [&](int i) {
    return graph.root().WithDevice(absl::StrCat("/job:", job.task.job, "/task:", i));
  };
  const auto x = tw::Placeholder(layer_scope(0), tw::kFloat, {kBatch, time, 1});
  auto net = x;
  for (int i = 0; i < layers; ++i) {
    const auto s = layer_scope(i);
    net = tw::layers::Rnn(s, tw::layers::LstmCell(absl::GetFlag(FLAGS_units)), net, {.name = absl::StrCat("layer_", i)})
              .outputs;
  }
  const auto last = layer_scope(layers - 1);
  const auto y = tw::Placeholder(last, tw::kFloat, {kBatch, time});
  const auto logits = tw::Reshape(last, tw::layers::Dense(last, net, 1), {kBatch, time});
  const auto loss = tw::ReduceMean(last, tw::SigmoidCrossEntropy(last, logits, y));
  const auto train_op = tw::Adam({.learning_rate = 0.01})->Minimize(last, loss);
  const auto init = tw::InitializeVariables(layer_scope(0));

  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph, {.target = server.target()}));
  std::fputs(tw::ExplainVariables(graph).ToString().c_str(), stdout);
  RETURN_IF_ERROR(session->Run({init}).status());
  ASSIGN_OR_RETURN(const auto run, session->Prepare({train_op, loss}, {x, y}));
  std::mt19937 random(1);
  float value = 0;
  for (int step = 1; step <= absl::GetFlag(FLAGS_steps); ++step) {
    const auto [in, out] = Sequences(random, time);
    ASSIGN_OR_RETURN(const auto result, run.Run({in, out}));
    value = result[1].scalar<float>();
    if (step % 50 == 0) std::printf("Train step %d, loss: %f\n", step, value);
  }
  RETURN_IF_ERROR(session->Close());
  const double limit = absl::GetFlag(FLAGS_require_loss);
  if (limit > 0 && !(value <= limit)) return tw::FailedPrecondition("the last loss, ", value, ", is above ", limit);
  return tw::AnnounceDone(server.target());  // the other tasks end
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Trains an LSTM with its layers on different tasks.");
  absl::ParseCommandLine(argc, argv);
  return tw::RunCluster(argc, argv, Train, {.only_chief = true});
}
