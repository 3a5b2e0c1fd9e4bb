// SPDX-License-Identifier: Apache-2.0
// Session: runs a graph.
//
//   Graph graph;
//   const Scope s = graph.root();
//   Output y = MatMul(s, x, w);
//   ASSIGN_OR_RETURN(auto session, Session::Create(graph));
//   ASSIGN_OR_RETURN(const auto out, session->Run({y}, {{x, value}}));
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/graph/graph.h"
#include "thalweg/graph/optimizer_options.h"
#include "thalweg/graph/placement.h"
#include "thalweg/graph/run_metadata.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct SessionOptions {
  std::string target;   // "grpc://host:port" of a server; "" is this process
  int cpu_devices = 1;  // /device:CPU:0, CPU:1, ... ("device_count")
  int threads = 0;      // 0: one per core
  bool allow_soft_placement = false;
  bool log_device_placement = false;
  absl::Duration operation_timeout = absl::InfiniteDuration();
  // On a server: how long opening a session may wait for tasks to start.
  absl::Duration open_timeout = absl::InfiniteDuration();
  Cancellation* cancellation = nullptr;  // ends that wait early; used only while the session opens
  GraphOptimizerOptions optimizer;
  // On a server: whether the session shares no variables with others, and which
  // tasks it uses ("/job:ps", "/job:worker/task:0"; none: all).
  bool isolate_session_state = false;
  std::vector<std::string> device_filters;
  // On a server: the task where the members of collective groups find each other
  // ("/job:worker/replica:0/task:0"); "": the session's own. Sessions whose
  // collectives belong together must name the same one.
  std::string collective_leader;
};

struct RunOptions {
  absl::Duration timeout = absl::InfiniteDuration();
  bool trace = false;                    // when and where every node ran, into RunMetadata
  bool output_partition_graphs = false;  // what ran, into RunMetadata
  Cancellation* cancellation = nullptr;  // cancels the step from outside
  // On a server: a client that numbers its steps (rising, from 1) may run one again
  // under its number when it does not know how it ended. Updates of variables that
  // it has applied before are not applied again. client 0: not numbered.
  uint64_t client = 0;
  int64_t sequence = 0;
  // On a server: the step sees one moment of all tasks. No other step changes
  // variables that live in other tasks than its master's while this one runs.
  bool one_moment = false;
};

class BackendCallable;
class SessionBackend;
struct Signature;

// A tensor to compute ("node:0"), or a node to run for its effect, whose value is
// no tensor: one that has no outputs, or Target() of any.
struct Fetch {
  Fetch(Output output);  // NOLINT: implicit by design
  // An operation, such as the initializer of a variable: for its effect only.
  Fetch(Operation operation) : Fetch(Target(operation)) {}  // NOLINT
  // What stands for an Output, as a variable does.
  template <typename T>
  requires std::is_convertible_v<const T&, Output> Fetch(const T& value)  // NOLINT
      : Fetch(static_cast<Output>(value)) {}
  Fetch(std::string name);  // NOLINT: "node:0", or "node" for its first output or, if it has none, itself
  Fetch(const char* name) : Fetch(std::string(name)) {}  // NOLINT
  // The node of an output, for its effect only: a step whose results are not
  // wanted need not copy or send them.
  static Fetch Target(Output output);
  static Fetch Target(std::string node);
  friend bool operator==(const Fetch&, const Fetch&) = default;

  std::string name;
  bool is_node = false;
};

// A value for a tensor.
struct Feed {
  Feed(Output output, Tensor value) : name(output.node == nullptr ? "" : output.name()), value(std::move(value)) {}
  Feed(std::string name, Tensor value) : name(std::move(name)), value(std::move(value)) {}
  std::string name;
  Tensor value;
};

// A device that a session may use.
struct DeviceInfo {
  std::string name;          // "/job:worker/replica:0/task:0/device:CPU:0"
  std::string type;          // "CPU"
  int64_t memory_limit = 0;  // in bytes; 0: not known
  uint64_t incarnation = 0;  // random; another one after a restart of the task
};

// Thread-safe: many threads may run steps at once. The graph may grow between
// runs, not during one; it must outlive the session.
class Session {
 public:
  ~Session();
  // A compiled signature: names are looked up once. It must not run after its
  // Session is gone.
  class Callable {
   public:
    // Values for the feeds, in order; results of the fetches, in order.
    absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Tensor> feeds, const RunOptions& options = {},
                                            RunMetadata* metadata = nullptr) const;

   private:
    friend class Session;
    std::shared_ptr<const BackendCallable> callable_;
    std::vector<bool> is_node_;
  };

  // The graph's first error, if it has one.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph, const SessionOptions& options = {});

  // One step. Results stand where their fetches do; a node's is an empty
  // Tensor.
  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds = {},
                                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);

  absl::StatusOr<Callable> Prepare(const std::vector<Fetch>& fetches, const std::vector<Output>& feeds = {});

  // Where each node that these fetches need runs, and why. Nothing runs for it.
  absl::StatusOr<std::vector<Placed>> ExplainPlacement(const std::vector<Fetch>& fetches);

  // The devices of the tasks that the session uses; those that nodes prefer come first.
  absl::StatusOr<std::vector<DeviceInfo>> ListDevices();

  // Cancels what runs. Every later call is FAILED_PRECONDITION.
  absl::Status Close();

 private:
  Session(const Graph& graph, bool allow_soft_placement, std::unique_ptr<SessionBackend> backend);
  absl::Status ExtendIfGrown();
  // Into the fetches and targets of a signature; says which of them are nodes.
  absl::Status AddFetches(const std::vector<Fetch>& fetches, Signature* signature, std::vector<bool>* is_node) const;

  const Graph& graph_;
  const bool allow_soft_placement_;
  const std::unique_ptr<SessionBackend> backend_;
  std::atomic<int> known_nodes_{0};
  Mutex extend_mutex_;
};

}  // namespace thalweg
