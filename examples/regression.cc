// SPDX-License-Identifier: Apache-2.0
// regression.cc - MonitoredTrainingSession in a small program: fits a line to
// points, in this process or on a server, with checkpoints and summaries. Started
// again, it restores the latest checkpoint and continues.
#include <cstdio>
#include <random>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, checkpoint_dir, "/tmp/regression", "folder for checkpoints and event files");
ABSL_FLAG(int64_t, last_step, 200, "global step at which the training stops");
ABSL_FLAG(std::string, master, "", "target of a server (grpc://host:port); empty: run in this process");

namespace {

// Points on y = 2 x + 1 with a little noise.
std::vector<tw::Feed> NextBatch(tw::Output x, tw::Output y, std::mt19937& random) {
  tw::Tensor xs(tw::kFloat, {32}), ys(tw::kFloat, {32});
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int i = 0; i < 32; ++i) {
    xs.mutable_data<float>()[i] = uniform(random);
    ys.mutable_data<float>()[i] = 2 * xs.data<float>()[i] + 1 + 0.01f * uniform(random);
  }
  return {{x, xs}, {y, ys}};
}

absl::Status Train() {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const auto x = tw::Placeholder(s, tw::kFloat, {-1}), y = tw::Placeholder(s, tw::kFloat, {-1});
  const auto slope = tw::MakeVariable(s, "slope", {}, {.initializer = tw::initializers::Zeros()});
  const auto offset = tw::MakeVariable(s, "offset", {}, {.initializer = tw::initializers::Zeros()});
  const auto error = x * slope + offset - y;
  const auto loss = tw::ReduceMean(s, tw::Square(s, error));
  const auto step = tw::GetOrCreateGlobalStep(s);
  const auto train_op = tw::Adam({.learning_rate = 0.1f})->Minimize(s, loss, {.global_step = step});
  tw::summary::Scalar(s, "loss", loss);
  tw::summary::Histogram(s, "error", error);

  std::mt19937 random(1);
  ASSIGN_OR_RETURN(auto session,
                   tw::MonitoredTrainingSession::Start(
                       graph, {.master = absl::GetFlag(FLAGS_master),
                               .checkpoint_dir = absl::GetFlag(FLAGS_checkpoint_dir),
                               .hooks = {tw::StopAtStep(absl::GetFlag(FLAGS_last_step)), tw::NanGuard(loss),
                                         tw::LogTensors({{"loss", loss}}, {.every_n_steps = 50}),
                                         tw::FeedFunction([&]() -> absl::StatusOr<std::vector<tw::Feed>> {
                                           return NextBatch(x, y, random);
                                         })},
                               .save_summaries_steps = 10}));
  while (!session.ShouldStop()) RETURN_IF_ERROR(session.Run({train_op}).status());
  ASSIGN_OR_RETURN(const auto values, session.session().Run({step, slope, offset}));
  std::printf("step %ld: y = %.2f x + %.2f\n", values[0].scalar<int64_t>(), values[1].scalar<float>(),
              values[2].scalar<float>());
  return session.Close();
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Fits a line to points.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
