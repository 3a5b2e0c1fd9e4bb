// SPDX-License-Identifier: Apache-2.0
// Measures the step time of a given graph. bench/ops.py uses it to compare ops.
//
//   graph < requests
//
// A request is a line "<file> <seconds>": a serialized GraphDef whose node "init"
// is run once, and whose node "run" is then run for about that long. The answer is a line with the
// microseconds of the median step (or of the fastest), or "error: ...". Graphs stay loaded.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "thalweg/api.h"
#include "thalweg/base/clock.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, threads, 0, "threads; 0: one per core");
ABSL_FLAG(bool, fastest, false, "tell the time of the fastest step instead of the median");
ABSL_FLAG(bool, cpu_time, false, "count the time of the processor, on all threads, instead of the clock's");

namespace {

int64_t Now() {
  if (!absl::GetFlag(FLAGS_cpu_time)) return tw::NowNanos();
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

struct Loaded {
  tw::Graph graph;
  std::unique_ptr<tw::Session> session;
  tw::Session::Callable step;
};

absl::StatusOr<std::unique_ptr<Loaded>> Load(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, tw::PosixFileSystem().ReadFileToString(path));
  tensorflow::GraphDef def;
  if (!def.ParseFromString(bytes)) return tw::InvalidArgument(path, " is not a GraphDef");
  auto loaded = std::make_unique<Loaded>();
  RETURN_IF_ERROR(loaded->graph.Import(def));
  ASSIGN_OR_RETURN(loaded->session, tw::Session::Create(loaded->graph, {.threads = absl::GetFlag(FLAGS_threads)}));
  RETURN_IF_ERROR(loaded->session->Run({"init"}).status());
  ASSIGN_OR_RETURN(loaded->step, loaded->session->Prepare({"run"}));
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(loaded->step.Run({}).status());
  return loaded;
}

absl::StatusOr<double> MicrosOfStep(const Loaded& loaded, double seconds) {
  std::vector<int64_t> times;
  const int64_t start = Now();
  for (int64_t now = start; static_cast<double>(now - start) < seconds * 1e9 || times.size() < 3;) {
    RETURN_IF_ERROR(loaded.step.Run({}).status());
    const int64_t end = Now();
    times.push_back(end - now);
    now = end;
  }
  const size_t chosen = absl::GetFlag(FLAGS_fastest) ? 0 : times.size() / 2;
  std::nth_element(times.begin(), times.begin() + chosen, times.end());
  return static_cast<double>(times[chosen]) / 1000;
}

}  // namespace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  std::map<std::string, std::unique_ptr<Loaded>> graphs;
  std::string path;
  for (double seconds; std::cin >> path >> seconds;) {
    absl::Status status;
    auto& loaded = graphs[path];
    if (loaded == nullptr) {
      auto made = Load(path);
      status = made.status();
      if (made.ok()) loaded = *std::move(made);
    }
    const auto micros = status.ok() ? MicrosOfStep(*loaded, seconds) : status;
    if (micros.ok()) {
      std::printf("%.3f\n", *micros);
    } else {
      std::printf("error: %s\n", micros.status().ToString().c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}
