// SPDX-License-Identifier: Apache-2.0
// A session that runs its graph in this process.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/timer.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/runtime/active_steps.h"
#include "thalweg/runtime/callable_cache.h"
#include "thalweg/runtime/executor.h"
#include "thalweg/runtime/graph_optimizer.h"
#include "thalweg/runtime/local_devices.h"
#include "thalweg/runtime/plan.h"
#include "thalweg/runtime/prepare.h"
#include "thalweg/runtime/stateful_kernels.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {

struct DirectSessionOptions {
  int cpus = 1;
  int threads = 0;  // 0: one per core
  bool allow_soft_placement = false;
  bool log_device_placement = false;
  absl::Duration operation_timeout = absl::InfiniteDuration();  // for steps without a timeout of their own
  absl::Duration log_wait_after = absl::Seconds(10);            // how long a wait may last before it is logged
  GraphOptimizerOptions optimizer;
};

struct StepOptions {
  absl::Duration timeout = absl::InfiniteDuration();
  bool trace = false;                    // fill RunMetadata.step_stats
  bool partition_graphs = false;         // fill RunMetadata.partition_graphs
  Cancellation* cancellation = nullptr;  // the caller's; may be nullptr
};

// Thread-safe. Steps run concurrently, each on the thread that calls Run().
class DirectSession {
 public:
  // A compiled signature. Valid as long as the session.
  class Callable {
   public:
    Callable() = default;

   private:
    friend class DirectSession;
    struct Compiled {
      Signature signature;
      std::unique_ptr<Executable> executable;
    };
    explicit Callable(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
    std::shared_ptr<const Compiled> compiled_;
  };

  explicit DirectSession(const DirectSessionOptions& options);
  ~DirectSession();  // Close()

  // Adds nodes to the graph. On an error, adds none.
  absl::Status Extend(const tensorflow::GraphDef& def);

  // Compiles a signature, or returns the cached callable.
  absl::StatusOr<Callable> Prepare(const Signature& signature);

  // Runs one step. `feeds` are in the order of the signature's feeds, `results` in the
  // order of its fetches. `metadata` may be nullptr.
  absl::Status Run(const Callable& callable, const StepOptions& options, absl::Span<const Tensor> feeds,
                   std::vector<Tensor>* results, tensorflow::RunMetadata* metadata);
  // Also prepares the signature; the step's timeout includes this.
  absl::Status Run(const Signature& signature, const StepOptions& options, absl::Span<const Tensor> feeds,
                   std::vector<Tensor>* results, tensorflow::RunMetadata* metadata);

  // Cancels the running steps and waits for their end. Afterwards every call returns
  // FAILED_PRECONDITION.
  absl::Status Close();

  absl::Status CheckOpen() const { return steps_.CheckOpen(); }  // FAILED_PRECONDITION after Close()
  const LocalDevices& devices() const { return devices_; }

 private:
  absl::StatusOr<Callable> Prepare(const Signature& signature, Cancellation& cancellation);
  absl::StatusOr<std::unique_ptr<Executable>> CompileSignature(const Signature& signature, Cancellation& cancellation);
  absl::Status Execute(const Callable& callable, const StepOptions& options, StepScope& scope,
                       absl::Span<const Tensor> feeds, std::vector<Tensor>* results, tensorflow::RunMetadata* metadata);
  // Runs a step with nodes that may wait.
  absl::Status RunWaiting(Execution& execution, LocalRendezvous& rendezvous, StepScope& scope,
                          absl::Span<const Tensor> feeds);

  const DirectSessionOptions options_;
  LocalDevices devices_;
  const PrepareOptions prepare_options_;
  Timer timer_;
  std::atomic<int64_t> next_step_{1};
  ResourceManager resources_;  // tensors that steps keep for later steps, by handle
  ActiveSteps steps_;
  SessionGraph graph_;
  CallableCache<const Callable::Compiled> callables_;
  StatefulKernels kernels_;
};

}  // namespace thalweg
