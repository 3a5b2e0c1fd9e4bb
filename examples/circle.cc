// SPDX-License-Identifier: Apache-2.0
// circle.cc - a complete training program in few lines: a CSV file, an input
// pipeline, layers, a decaying learning rate. It learns which points lie in a circle.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

namespace {

absl::Status Train(const std::string& path) {
  tw::Graph graph;
  const auto s = graph.root();
  const auto x = tw::Placeholder(s, tw::kFloat, {-1}), y = tw::Placeholder(s, tw::kFloat, {-1});
  const auto labels = tw::Placeholder(s, tw::kInt32, {-1});
  auto net = tw::layers::Dense(s, tw::Pack(s, {x, y}, 1), 32, {.activation = tw::Tanh});
  net = tw::layers::BatchNorm(s, net, {.training = true});
  const auto logits = tw::layers::Dense(s, net, 2);
  const auto loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, labels));

  const auto step = tw::GetOrCreateGlobalStep(s);
  const auto rate = tw::CosineDecay(s, 0.02, step, {.decay_steps = 400});
  const auto train_op = tw::Adam({.learning_rate = rate})
                            ->Minimize(s.WithControlDependencies(tw::UpdateOps(graph)), loss, {.global_step = step});
  const auto init_op = tw::InitializeVariables(s);
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph));
  RETURN_IF_ERROR(session->Run({init_op}).status());

  tw::data::Pipeline batches({.files = {path},
                              .format = tw::data::TextLines({.skip_lines = 1}),
                              .decode = tw::data::DecodeCsv({tw::kFloat, tw::kFloat, tw::kInt32}),
                              .batch_size = 200,
                              .shuffle = 1000,
                              .epochs = 41});
  for (const auto& batch : batches) {
    ASSIGN_OR_RETURN(const auto out,
                     session->Run({train_op, loss, step.read}, {{x, batch[0]}, {y, batch[1]}, {labels, batch[2]}}));
    const auto n = out[2].scalar<int64_t>();
    if (n % 100 == 1) std::printf("step %ld, loss %.3f\n", n, out[1].scalar<float>());
  }
  return batches.status();
}

absl::Status Run() {
  std::string lines = "x,y,inside\n";
  for (int i = 0; i < 2000; ++i) {
    const double x = i * 37 % 200 / 100.0 - 1, y = i * 91 % 199 / 99.0 - 1;
    absl::StrAppend(&lines, x, ",", y, ",", x * x + y * y < 0.6 ? 1 : 0, "\n");
  }
  ASSIGN_OR_RETURN(const auto folder, tw::data::TemporaryFolder::Create());
  const std::string path = folder.path() + "/points.csv";
  RETURN_IF_ERROR(tw::PosixFileSystem().WriteStringToFile(path, lines));
  return Train(path);
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
