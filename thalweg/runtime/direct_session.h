// A session that runs its graph in this process.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/graph/graph.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/runtime/graph_optimizer.h"
#include "thalweg/runtime/local_devices.h"
#include "thalweg/runtime/placer.h"
#include "thalweg/runtime/plan.h"
#include "thalweg/runtime/stateful_kernels.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {

struct DirectSessionOptions {
  int cpus = 1;
  int threads = 0;  // 0: one per core
  bool allow_soft_placement = false;
  bool log_device_placement = false;
  absl::Duration operation_timeout = absl::InfiniteDuration();  // of steps that set none
  absl::Duration report_after = absl::Seconds(10);              // a wait of so long is logged, again and again
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
  // What a signature was compiled to. Valid as long as the session.
  class Callable {
   public:
    Callable() = default;

   private:
    friend class DirectSession;
    Callable(std::shared_ptr<Executable> executable, Signature signature)
        : executable_(std::move(executable)), signature_(std::make_shared<const Signature>(std::move(signature))) {}
    std::shared_ptr<Executable> executable_;
    std::shared_ptr<const Signature> signature_;
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

  absl::Status CheckOpen() const;  // FAILED_PRECONDITION once it is closed
  const LocalDevices& devices() const { return devices_; }

 private:
  struct RunningStep;
  class Limits;

  absl::StatusOr<Callable> Prepare(const Signature& signature, Cancellation& cancellation);
  absl::Status Execute(const Callable& callable, const StepOptions& options, RunningStep& running,
                       absl::Span<const Tensor> feeds, std::vector<Tensor>* results, tensorflow::RunMetadata* metadata);
  absl::StatusOr<std::shared_ptr<Executable>> Build(const Signature& signature, Cancellation& cancellation);
  absl::Status CheckFeeds(const Executable& executable, const Signature& signature,
                          absl::Span<const Tensor> feeds) const;
  std::string DescribeWaits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DirectSessionOptions options_;
  LocalDevices devices_;
  Timer timer_;
  std::atomic<int64_t> next_step_{1};
  ResourceManager resources_;  // tensors that steps leave for later ones

  mutable Mutex mutex_;
  CondVar step_ended_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<std::shared_ptr<RunningStep>> running_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Callable> callables_ ABSL_GUARDED_BY(mutex_);

  Mutex graph_mutex_;  // taken before mutex_ where both are
  Graph graph_ ABSL_GUARDED_BY(graph_mutex_);
  StatePlacement states_ ABSL_GUARDED_BY(graph_mutex_);
  StatefulKernels kernels_;
};

}  // namespace thalweg
