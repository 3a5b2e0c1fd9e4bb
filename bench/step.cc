// SPDX-License-Identifier: Apache-2.0
// The price of a step itself: a graph of tiny nodes, a fetched constant, and a step without work on the server of this
// process and of another one.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "thalweg/api.h"

namespace {

namespace tw = thalweg;

// A chain and a bush of scalar nodes: 150 that cannot be folded.
void BM_TinyNodes(benchmark::State& state) {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const tw::Output x = tw::Placeholder(s, tw::kFloat, {});
  tw::Output y = x;
  for (int i = 0; i < 75; ++i) {
    y = tw::Add(s, y, x);
    y = tw::Mul(s, y, x);
  }
  auto session = *tw::Session::Create(graph);
  const auto step = *session->Prepare({y}, {x});
  const tw::Tensor one = tw::Tensor::Scalar(1.f);
  for (auto _ : state) benchmark::DoNotOptimize(step.Run({one}));
}
BENCHMARK(BM_TinyNodes)->Unit(benchmark::kMicrosecond);

void BM_FetchConstant(benchmark::State& state) {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const tw::Output c = tw::Const(s, 1.f);
  auto session = *tw::Session::Create(graph);
  for (auto _ : state) benchmark::DoNotOptimize(session->Run({c}));
}
BENCHMARK(BM_FetchConstant)->Unit(benchmark::kMicrosecond);

// A step without work on a server: feeds and fetches a scalar.
void RunNullSteps(benchmark::State& state, const std::string& target, bool prepared) {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const tw::Output x = tw::Placeholder(s, tw::kFloat, {});
  const tw::Output y = tw::Identity(s, x);
  auto session = *tw::Session::Create(graph, {.target = target});
  const auto step = *session->Prepare({y}, {x});
  const tw::Tensor one = tw::Tensor::Scalar(1.f);
  for (auto _ : state) {
    if (prepared) {
      benchmark::DoNotOptimize(step.Run({one}));
    } else {
      benchmark::DoNotOptimize(session->Run({y}, {{x, one}}));
    }
  }
}

void BM_OwnServer(benchmark::State& state) {
  const auto server = *tw::Server::StartLocal({.recorder = state.range(1) != 0});
  RunNullSteps(state, server->target(), state.range(0) != 0);
}
BENCHMARK(BM_OwnServer)
    ->ArgNames({"prepared", "recorder"})
    ->Args({1, 1})
    ->Args({1, 0})
    ->Args({0, 1})
    ->Args({0, 0})
    ->Unit(benchmark::kMicrosecond);

// Under another name than its target the server is called like one of another process.
void BM_OwnServerOverLink(benchmark::State& state) {
  const auto server = *tw::Server::StartLocal();
  RunNullSteps(state, "grpc://127.0.0.1:" + std::to_string(server->port()), state.range(0) != 0);
}
BENCHMARK(BM_OwnServerOverLink)->ArgName("prepared")->Arg(1)->Arg(0)->Unit(benchmark::kMicrosecond)->UseRealTime();

// A server in a process of its own.
class OtherServer {
 public:
  OtherServer() {
    int ready[2];
    if (pipe(ready) != 0 || (process_ = fork()) < 0) std::abort();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto server = *tw::Server::StartLocal();
      const std::string target = server->target() + "\n";
      if (write(ready[1], target.data(), target.size()) < 0) std::abort();
      pause();
      _exit(0);
    }
    char c = 0;
    while (read(ready[0], &c, 1) == 1 && c != '\n') target_.push_back(c);
  }
  ~OtherServer() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  const std::string& target() const { return target_; }

 private:
  pid_t process_ = -1;
  std::string target_;
};

void BM_OtherServer(benchmark::State& state, const std::string& target) {
  RunNullSteps(state, target, state.range(0) != 0);
}

}  // namespace

int main(int argc, char** argv) {
  const OtherServer other;  // before this process has threads
  benchmark::RegisterBenchmark("BM_OtherServer", &BM_OtherServer, other.target())
      ->ArgName("prepared")
      ->Arg(1)
      ->Arg(0)
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
