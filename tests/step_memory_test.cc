// SPDX-License-Identifier: Apache-2.0
// Warm steps take no memory from malloc that could hold a tensor.
// Tensors, and what kernels need beside them, come from the pool of base/memory.h.
// A program of its own, since it stands in for malloc.
#include <dlfcn.h>
#include <execinfo.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "thalweg/api.h"
#include "thalweg/monitor/task_monitor.h"

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

// Smaller ones are what callbacks, vectors of handles and the like are made of.
constexpr size_t kLarge = 1024;
std::atomic<size_t> least{kLarge};  // requests of this size and larger are looked at

struct Request {
  size_t bytes = 0;
  void* stack[32] = {};
  int depth = 0;
};
std::atomic<bool> watching{false};
std::atomic<int> num_large{0};
std::atomic<bool> counting{false};
std::atomic<int64_t> num_all{0};  // requests while `counting`
Request first_large[4];

// Matrix products pack their factors into memory that oneDNN takes, and that its
// interface gives no way to provide.
bool IsOfOneDnn(const Request& request) {
  for (int i = 0; i < request.depth; ++i) {
    Dl_info info;
    if (dladdr(request.stack[i], &info) != 0 && strstr(info.dli_fname, "libdnnl") != nullptr) return true;
  }
  return false;
}

void Look(size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) num_all.fetch_add(1, std::memory_order_relaxed);
  if (bytes < least.load(std::memory_order_relaxed) || !watching.load(std::memory_order_relaxed)) return;
  Request request;
  request.bytes = bytes;
  request.depth = backtrace(request.stack, std::size(request.stack));
  if (IsOfOneDnn(request)) return;
  const int index = num_large.fetch_add(1);
  if (index < static_cast<int>(std::size(first_large))) first_large[index] = request;
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  Look(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  Look(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  Look(bytes);
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  Look(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace thalweg {
namespace {

// Runs a step until it is warm, and then watches some more.
void ExpectNoLargeRequests(const std::function<absl::Status()>& step) {
  void* stack[1];
  backtrace(stack, 1);  // loads what it needs
  for (int i = 0; i < 100; ++i) {
    const absl::Status status = step();
    ASSERT_TRUE(status.ok()) << status;
  }
  num_large = 0;
  watching = true;
  int failed = 0;
  for (int i = 0; i < 100; ++i) failed += !step().ok();
  watching = false;
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(num_large, 0) << "of 100 steps";
  for (int i = 0; i < std::min<int>(num_large, std::size(first_large)); ++i) {
    const Request& request = first_large[i];
    char** const lines = backtrace_symbols(request.stack, request.depth);
    std::string where;
    for (int k = 0; k < request.depth; ++k) absl::StrAppend(&where, "  ", lines[k], "\n");
    free(lines);
    ADD_FAILURE() << request.bytes << " bytes, at\n" << where;
  }
}

class RecordedStep : public MonitoredStep {
 public:
  void Describe(RunningStep*) const override {}
};

// Recording allocates nothing at all.
TEST(StepMemory, OfTheRecorder) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  const StepRecord::Wait waits[] = {{"/job:ps/replica:0/task:0", 1000}, {"/job:ps/replica:0/task:1", 2000}};
  least = 1;
  ExpectNoLargeRequests([&] {
    RecordedStep whole, part;
    monitor.Add(&whole);
    monitor.Add(&part);
    monitor.Remove(&part);
    monitor.AddStep({.step_id = 1, .end_nanos = 1'000'000, .compute_nanos = 900'000, .waits = waits});
    monitor.Remove(&whole);
    monitor.AddStep({.step_id = 1, .whole = true, .trains = true, .end_nanos = 1'100'000});
    monitor.SetScalar("loss:0", 0.5);
    return absl::OkStatus();
  });
  least = kLarge;
}

// How often warm steps of a program with a server of its own ask for memory. Threads that do something else meanwhile,
// such as the one that takes samples, disturb some of the rounds only.
int64_t FewestRequestsOfSteps(bool recorder) {
  ServerOptions options;
  options.http.clear();
  options.recorder = recorder;
  const auto server = Server::StartLocal(options);
  EXPECT_TRUE(server.ok()) << server.status();
  Graph graph;
  const Scope s = graph.root();
  const Output v = RefVariable(s, kFloat, {});
  const Output init = Assign(s, v, Const(s, 0.0f));
  const Output add = AssignAdd(s, v, Const(s, 1.0f));
  auto session = Session::Create(graph, {.target = (*server)->target()});
  EXPECT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE((*session)->Run({init}).ok());
  const auto step = (*session)->Prepare({add}, {});
  EXPECT_TRUE(step.ok()) << step.status();
  for (int i = 0; i < 300; ++i) EXPECT_TRUE(step->Run({}).ok());
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (int round = 0; round < 50; ++round) {
    int failed = 0;
    num_all = 0;
    counting = true;
    for (int i = 0; i < 20; ++i) failed += !step->Run({}).ok();
    counting = false;
    EXPECT_EQ(failed, 0);
    fewest = std::min<int64_t>(fewest, num_all);
  }
  return fewest;
}

TEST(StepMemory, OfAServerWithTheRecorder) {
  EXPECT_LE(FewestRequestsOfSteps(/*recorder=*/true), FewestRequestsOfSteps(/*recorder=*/false));
}

// The step of a classifier's training, fed by hand.
void ExpectTrainingFromThePool(const Shape& images, const std::function<Output(const Scope&, Output)>& logits) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, images), labels = Placeholder(s, kInt32, {images.dim(0)});
  const Output loss = ReduceMean(s, SparseSoftmaxCrossEntropy(s, logits(s, x), labels));
  const Output train = Adam({.learning_rate = 0.01})->Minimize(s, loss);
  const Output init = InitializeVariables(s);
  ASSERT_TRUE(s.ok()) << s.status();
  auto session = Session::Create(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({init}).ok());
  const auto step = (*session)->Prepare({loss, train}, {x, labels});
  ASSERT_TRUE(step.ok()) << step.status();
  const std::vector<Tensor> feeds = {Tensor::Zeros(kFloat, images), Tensor::Zeros(kInt32, {images.dim(0)})};
  ExpectNoLargeRequests([&] { return step->Run(feeds).status(); });
}

TEST(StepMemory, OfAPerceptron) {
  ExpectTrainingFromThePool({100, 784}, [](const Scope& s, Output x) {
    const Output hidden = layers::Dense(s, x, 256, {.activation = Relu});
    return layers::Dense(s, layers::Dropout(s, hidden, {.rate = 0.5, .training = true}), 10);
  });
}

TEST(StepMemory, OfAConvolution) {
  ExpectTrainingFromThePool({8, 16, 16, 3}, [](const Scope& s, Output x) {
    Output y = layers::Conv2D(s, x, 512, 3, {.padding = Padding::kSame, .activation = Relu});
    y = layers::MaxPooling2D(s, Lrn(s, y), 2, 2);
    y = layers::BatchNorm(s, layers::Conv2D(s, y, 32, 3, {.padding = Padding::kSame}), {.training = true});
    return layers::Dense(s, layers::Flatten(s, layers::AveragePooling2D(s, y, 2, 2)), 10);
  });
}

TEST(StepMemory, OfALoop) {
  ExpectTrainingFromThePool({16, 10, 32}, [](const Scope& s, Output x) {
    const auto r = layers::Rnn(s, layers::GruCell(64), x, {.unroll = false});
    return layers::Dense(s, r.state[0], 10);
  });
}

TEST(StepMemory, OfALayerOfLstms) {
  ExpectTrainingFromThePool({16, 10, 32}, [](const Scope& s, Output x) {
    return layers::Dense(s, layers::LstmLayer(s, x, 64).state[1], 10);
  });
}

}  // namespace
}  // namespace thalweg
