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
  absl::Duration operation_timeout = absl::InfiniteDuration();  // of steps that set none
  absl::Duration report_after = absl::Seconds(10);              // how long a wait may last before it is logged
  GraphOptimizerOptions optimizer;
};

struct StepOptions {
  absl::Duration timeout = absl::InfiniteDuration();
  bool trace = false;                    // fill RunMetadata.step_stats
  bool partition_graphs = false;         // fill RunMetadata.partition_graphs
  Cancellation* cancellation = nullptr;  // from outside; may be nullptr
};

// Thread-safe: many steps run at once, each on the thread that asked for it.
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
  ~DirectSession();  // closes it

  // Adds nodes; all or, with an error, none.
  absl::Status Extend(const tensorflow::GraphDef& def);

  // Compiles a signature, or finds it.
  absl::StatusOr<Callable> Prepare(const Signature& signature);

  // One step: `feeds` in the order of the signature's, results in the order of
  // its fetches. `metadata` may be nullptr.
  absl::Status Run(const Callable& callable, const StepOptions& options, absl::Span<const Tensor> feeds,
                   std::vector<Tensor>* results, tensorflow::RunMetadata* metadata);
  // Prepares it, too, within the time that the step has.
  absl::Status Run(const Signature& signature, const StepOptions& options, absl::Span<const Tensor> feeds,
                   std::vector<Tensor>* results, tensorflow::RunMetadata* metadata);

  // Cancels the steps that run and waits for their end. Afterwards every call
  // is FAILED_PRECONDITION.
  absl::Status Close();

  absl::Status CheckOpen() const { return steps_.CheckOpen(); }  // FAILED_PRECONDITION once it is closed
  const LocalDevices& devices() const { return devices_; }

 private:
  absl::StatusOr<Callable> Prepare(const Signature& signature, Cancellation& cancellation);
  absl::StatusOr<std::unique_ptr<Executable>> CompileSignature(const Signature& signature, Cancellation& cancellation);
  absl::Status Execute(const Callable& callable, const StepOptions& options, StepScope& scope,
                       absl::Span<const Tensor> feeds, std::vector<Tensor>* results, tensorflow::RunMetadata* metadata);
  // Runs a step that may wait for others, or for what they send.
  absl::Status RunWaiting(Execution& execution, LocalRendezvous& rendezvous, StepScope& scope,
                          absl::Span<const Tensor> feeds);

  const DirectSessionOptions options_;
  LocalDevices devices_;
  const PrepareOptions prepare_options_;
  Timer timer_;
  std::atomic<int64_t> next_step_{1};
  ResourceManager resources_;  // tensors that steps leave for later ones
  ActiveSteps steps_;
  SessionGraph graph_;
  CallableCache<const Callable::Compiled> callables_;
  StatefulKernels kernels_;
};

}  // namespace thalweg
