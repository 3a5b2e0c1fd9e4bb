// SPDX-License-Identifier: Apache-2.0
// Training without parameter servers between processes of this host. Every process is a task of a
// cluster and runs the steps of its own session.
//
//   data_parallel --ranks=2 --bytes=1024,1048576 [--seconds=1]
//
// measures a step that all-reduces a float32 variable. It prints for every size: bytes, median
// microseconds of a step, microseconds of CPU time of all processes per step.
//
//   data_parallel --ranks=2 --batch=32,256 [--seconds=1]
//
// trains the MLP of the tutorial (784-500-500-10, Adam) with AllReduce(). It prints for every batch
// size: images per process and step, steps per second, microseconds of CPU time of all processes
// per step. bench/data_parallel.py compares both with OpenMPI, gloo and PyTorch.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "thalweg/api.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/free_ports.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, ranks, 2, "number of processes");
ABSL_FLAG(std::string, bytes, "", "sizes of the variable that a step all-reduces");
ABSL_FLAG(std::string, batch, "", "images per batch and process of the MLP");
ABSL_FLAG(double, seconds, 1, "how long each size is measured");
ABSL_FLAG(int, threads, 1, "threads of each process that run kernels");
ABSL_FLAG(int64_t, bucket_bytes, 25 << 20, "gradients of the MLP that are averaged together");

namespace {

constexpr int kWarmUp = 20;

// Memory that all processes share. Their steps are synchronous, so no process is more than one step ahead.
struct SharedState {
  std::atomic<int64_t> last_step;     // set by rank 0 while it measures; 0: not decided yet
  std::atomic<int64_t> cpu_nanos;     // CPU time of all processes
  std::atomic<int> arrived, printed;  // processes that have added their CPU time; sizes that are printed
};

int64_t CpuNanos() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto nanos = [](const timeval& t) { return int64_t{1'000'000'000} * t.tv_sec + int64_t{1000} * t.tv_usec; };
  return nanos(usage.ru_utime) + nanos(usage.ru_stime);
}

struct Member {
  int rank, ranks;
  const tw::Server& server;
  SharedState& shared;
  int sizes = 0;  // sizes that were measured

  std::string Device() const { return absl::StrCat("/job:worker/replica:0/task:", rank); }

  // Runs steps on all ranks for --seconds, and prints the result on rank 0.
  template <typename Step>
  absl::Status Measure(int64_t size, bool as_rate, Step&& step) {
    for (int i = 0; i < kWarmUp; ++i) RETURN_IF_ERROR(step());
    const int64_t cpu = CpuNanos(), start = tw::NowNanos();
    const auto budget = static_cast<int64_t>(absl::GetFlag(FLAGS_seconds) * 1e9);
    std::vector<double> micros;
    for (int64_t last = 0; last == 0 || static_cast<int64_t>(micros.size()) < last; last = shared.last_step) {
      const int64_t begin = tw::NowNanos();
      RETURN_IF_ERROR(step());
      micros.push_back(static_cast<double>(tw::NowNanos() - begin) * 1e-3);
      if (rank == 0 && shared.last_step == 0 && tw::NowNanos() - start >= budget) {
        shared.last_step = static_cast<int64_t>(micros.size()) + 2;  // another rank may have begun the next step
      }
    }
    const double seconds = static_cast<double>(tw::NowNanos() - start) * 1e-9;
    shared.cpu_nanos += CpuNanos() - cpu;
    ++shared.arrived;
    if (rank == 0) {
      while (shared.arrived < ranks) usleep(100);
      const auto steps = static_cast<double>(micros.size());
      std::nth_element(micros.begin(), micros.begin() + static_cast<ptrdiff_t>(micros.size() / 2), micros.end());
      std::printf("%ld %.2f %.2f\n", size, as_rate ? steps / seconds : micros[micros.size() / 2],
                  static_cast<double>(shared.cpu_nanos) * 1e-3 / steps);
      std::fflush(stdout);
      shared.last_step = shared.cpu_nanos = 0;
      shared.arrived = 0;
      ++shared.printed;
    }
    ++sizes;
    while (shared.printed < sizes) usleep(100);  // another size begins when all members have ended this one
    return absl::OkStatus();
  }

  absl::Status AllReduceStep(int64_t bytes) {
    tw::Graph graph;
    const tw::Scope s = graph.root().WithDevice(Device());
    const tw::Shape shape({bytes / static_cast<int64_t>(sizeof(float))});
    const tw::Var x = tw::MakeVariable(s, absl::StrCat("x", bytes), shape, {.initializer = tw::initializers::Zeros()});
    const tw::Output sum = tw::CollectiveReduce(s, x, {.group_size = ranks, .instance_key = 1});
    const tw::Output init = tw::InitializeVariables(s);
    ASSIGN_OR_RETURN(auto session,
                     tw::Session::Create(graph, {.target = server.target(),
                                                 .device_filters = {absl::StrCat("/job:worker/task:", rank)},
                                                 .collective_leader = "/job:worker/replica:0/task:0"}));
    RETURN_IF_ERROR(session->Run({init}).status());
    ASSIGN_OR_RETURN(const auto step, session->Prepare({tw::Fetch::Target(sum)}, {}));
    RETURN_IF_ERROR(Measure(bytes, /*as_rate=*/false, [&] { return step.Run({}).status(); }));
    return session->Close();
  }

  absl::Status TrainMlp(int batch) {
    tw::Graph graph;
    const tw::Scope s = graph.root().WithDevice(Device());
    const auto images = tw::Placeholder(s, tw::kFloat, {-1, 784});
    const auto labels = tw::Placeholder(s, tw::kInt32, {-1});
    auto net = tw::layers::Dense(s, images, 500, {.activation = tw::Relu});
    net = tw::layers::Dense(s, net, 500, {.activation = tw::Relu});
    const auto logits = tw::layers::Dense(s, net, 10);
    const auto loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, labels));
    auto optimizer = tw::AllReduce(tw::Adam({.learning_rate = 1e-4f}),
                                   {.workers = ranks, .bucket_bytes = absl::GetFlag(FLAGS_bucket_bytes)});
    const auto train_op = optimizer->Minimize(s, loss, {.global_step = tw::GetOrCreateGlobalStep(s)});
    ASSIGN_OR_RETURN(auto session, tw::MonitoredTrainingSession::Start(graph, {.master = server.target(),
                                                                               .is_chief = rank == 0,
                                                                               .own_variables = true,
                                                                               .hooks = optimizer->Hooks(rank == 0),
                                                                               .log_step_count_steps = 0}));
    tw::Tensor x(tw::kFloat, {batch, 784});
    tw::Tensor y(tw::kInt32, {batch});
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      x.flat<float>()[i] = static_cast<float>((i + rank) * 7919 % 1000) / 1000;
    }
    for (int i = 0; i < batch; ++i) y.flat<int32_t>()[i] = (i + rank) % 10;
    RETURN_IF_ERROR(Measure(batch, /*as_rate=*/true, [&] {
      return session.Run({train_op, loss}, {{images, x}, {labels, y}}).status();
    }));
    return session.Close();
  }
};

absl::StatusOr<std::vector<int64_t>> Numbers(const std::string& text) {
  std::vector<int64_t> numbers;
  for (const absl::string_view number : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    numbers.push_back(0);
    if (!absl::SimpleAtoi(number, &numbers.back()) || numbers.back() < 1) {
      return tw::InvalidArgument("got ", std::string(number), ", expected numbers of at least 1 with commas between");
    }
  }
  return numbers;
}

absl::Status RunMember(const tw::ClusterSpec& cluster, int rank, SharedState& shared) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, Numbers(absl::GetFlag(FLAGS_bytes)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> batches, Numbers(absl::GetFlag(FLAGS_batch)));
  ASSIGN_OR_RETURN(const auto server,
                   tw::Server::Start(cluster, {"worker", rank}, {.threads = absl::GetFlag(FLAGS_threads), .http = ""}));
  Member member{rank, absl::GetFlag(FLAGS_ranks), *server, shared};
  for (const int64_t bytes : sizes) RETURN_IF_ERROR(member.AllReduceStep(bytes));
  for (const int64_t batch : batches) RETURN_IF_ERROR(member.TrainMlp(static_cast<int>(batch)));
  // The servers of the other tasks may still need this one.
  ++shared.arrived;
  while (shared.arrived < member.ranks) usleep(100);
  return absl::OkStatus();
}

// Starts the other ranks, and runs one in this process.
int Main() {
  const int ranks = absl::GetFlag(FLAGS_ranks);
  const absl::StatusOr<std::vector<int>> ports = tw::FreePorts(ranks);
  void* const memory = mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!ports.ok() || memory == MAP_FAILED) {
    std::fprintf(stderr, "no ports or no memory: %s\n", ports.status().ToString().c_str());
    return 1;
  }
  SharedState& shared = *new (memory) SharedState();
  tw::ClusterSpec cluster;
  for (int i = 0; i < ranks; ++i) {
    if (!cluster.AddTask({"worker", i}, absl::StrCat("localhost:", (*ports)[i])).ok()) return 1;
  }
  std::vector<pid_t> children;
  int rank = 0;
  for (int r = 1; r < ranks && rank == 0; ++r) {
    children.push_back(fork());
    if (children.back() == 0) rank = r;
  }
  const absl::Status status = RunMember(cluster, rank, shared);
  if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
  if (rank != 0) return status.ok() ? 0 : 1;
  int failed = status.ok() ? 0 : 1;
  for (const pid_t child : children) {
    int code = 0;
    if (!status.ok()) kill(child, SIGTERM);  // it may wait for this rank
    waitpid(child, &code, 0);
    failed += code != 0;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return Main();
}
