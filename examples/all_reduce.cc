// SPDX-License-Identifier: Apache-2.0
// all_reduce.cc - data-parallel training without parameter servers. Every worker
// holds the whole model and fits a line to its own points. An all-reduce averages
// the gradients, so every worker applies the same update.
//
//   thalweg run --ps 0 --workers 3 -- all_reduce
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, steps, 200, "number of training steps");

namespace {

absl::Status RunWorker(const tw::Job& job, const tw::Server& server) {
  const int workers = job.cluster.num_tasks(job.task.job), me = job.task.index;
  tw::Graph graph;
  const tw::Scope s = graph.root().WithDevice(absl::StrCat("/job:", job.task.job, "/task:", me));
  const auto x = tw::Placeholder(s, tw::kFloat, {-1}), y = tw::Placeholder(s, tw::kFloat, {-1});
  const auto slope = tw::MakeVariable(s, "slope", {}, {.initializer = tw::initializers::Zeros()});
  const auto offset = tw::MakeVariable(s, "offset", {}, {.initializer = tw::initializers::Zeros()});
  const auto loss = tw::ReduceMean(s, tw::Square(s, x * slope + offset - y));

  const auto optimizer = tw::GradientDescent({.learning_rate = 0.2f});
  auto gradients = optimizer->ComputeGradients(s, loss);
  int instance = 0;  // the workers must use the same instance key for the same variable
  for (tw::GradientAndVar& g : gradients) {
    g.gradient =
        tw::CollectiveReduce(s, g.gradient.values, {.group_size = workers, .instance_key = ++instance}, {.mean = true});
  }
  const auto train_op = optimizer->ApplyGradients(s, gradients);
  const auto losses = tw::CollectiveGather(s, tw::Reshape(s, loss, {1}), {.group_size = workers, .instance_key = 100});

  ASSIGN_OR_RETURN(
      auto session,
      tw::Session::Create(graph, {.target = server.target(),
                                  .device_filters = {absl::StrCat("/job:", job.task.job, "/task:", me)},
                                  .collective_leader = absl::StrCat("/job:", job.task.job, "/replica:0/task:0")}));
  RETURN_IF_ERROR(session->Run({tw::InitializeVariables(s)}).status());
  std::mt19937 random(static_cast<unsigned>(me));
  std::uniform_real_distribution<float> uniform(-1, 1);
  tw::Tensor xs(tw::kFloat, {32}), ys(tw::kFloat, {32});
  std::vector<tw::Tensor> out;
  for (int step = 0; step < absl::GetFlag(FLAGS_steps); ++step) {
    for (int i = 0; i < 32; ++i) {  // each worker fits a different line; the lines' mean is y = 2 x + 1
      xs.mutable_data<float>()[i] = uniform(random);
      ys.mutable_data<float>()[i] =
          2 * xs.data<float>()[i] + 1 + 0.5f * static_cast<float>(me) - 0.25f * static_cast<float>(workers - 1);
    }
    ASSIGN_OR_RETURN(out, session->Run({losses, train_op}, {{x, xs}, {y, ys}}));
  }
  std::string all;
  for (const float value : out[0].flat<float>()) absl::StrAppendFormat(&all, " %.3f", value);
  ASSIGN_OR_RETURN(const auto line, session->Run({slope, offset}));
  std::printf("worker %d of %d: y = %.2f x + %.2f; losses of all:%s\n", me, workers, line[0].scalar<float>(),
              line[1].scalar<float>(), all.c_str());
  RETURN_IF_ERROR(session->Close());
  return tw::AnnounceDone(server.target());
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Fits a line on several workers and averages their gradients with an all-reduce.");
  absl::ParseCommandLine(argc, argv);
  return tw::RunCluster(argc, argv, RunWorker);
}
