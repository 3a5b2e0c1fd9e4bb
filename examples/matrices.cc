// SPDX-License-Identifier: Apache-2.0
// matrices.cc - one graph over several tasks. Two parameter servers hold the
// factors, each worker multiplies a slice of the rows, and the chief adds up.
//
//   thalweg run --ps 2 --workers 2 -- matrices --size=1000
//
// Only the chief builds the graph. The other tasks serve until it is done.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, size, 500, "rows and columns of the matrices");

namespace {

absl::Status Multiply(const tw::Job& job, const tw::Server& server) {
  const int n = absl::GetFlag(FLAGS_size);
  const int ps = job.cluster.num_tasks("ps"), workers = job.cluster.num_tasks("worker");
  if (ps < 1 || workers < 1) {
    return tw::InvalidArgument("expected at least one parameter server and one worker, got ", ps, " and ", workers);
  }
  tw::Graph graph;
  const auto s = graph.root();
  const auto on = [&](const char* kind, int i) { return s.WithDevice(absl::StrCat("/job:", kind, "/task:", i)); };

  // a is all ones, b is twice the identity. Both are variables on parameter servers.
  const auto a = tw::MakeVariable(on("ps", 0), "a", {n, n}, {.initializer = tw::initializers::Ones()});
  const auto last = on("ps", ps - 1);
  const auto twos = tw::Fill(last, {n}, 2.f);
  const auto b = tw::MakeVariable(last, "b", tw::Diag(last, twos));

  // Every worker receives some of the rows of a. Each row crosses the network once.
  std::vector<tw::Output> sums;
  for (int i = 0; i < workers; ++i) {
    const int begin = n * i / workers, rows = n * (i + 1) / workers - begin;
    const auto part = tw::Slice(on("ps", 0), a, {begin, 0}, {rows, n});
    sums.push_back(tw::ReduceSum(on("worker", i), tw::MatMul(on("worker", i), part, b)));
  }
  const auto total = tw::AddN(on("worker", 0), sums);
  const auto init = tw::InitializeVariables(s);

  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph, {.target = server.target()}));
  RETURN_IF_ERROR(session->Run({init}).status());
  ASSIGN_OR_RETURN(const auto placed, session->ExplainPlacement({total}));
  std::puts(tw::DescribePlacement(placed).c_str());
  ASSIGN_OR_RETURN(const auto out, session->Run({total}));
  std::printf("the sum of all elements of the product is %.0f\n", out[0].scalar<float>());
  RETURN_IF_ERROR(session->Close());
  return tw::AnnounceDone(server.target());  // the other tasks end
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Multiplies matrices on the tasks of a cluster.");
  absl::ParseCommandLine(argc, argv);
  return tw::RunCluster(argc, argv, Multiply, {.only_chief = true});
}
