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

// Which server a session connects to, and how it runs steps.
struct SessionOptions {
  std::string target;                 // "grpc://host:port" of a server; "" is this process
  int cpu_devices = 1;                // number of devices: /device:CPU:0, CPU:1, ... (TensorFlow's device_count)
  int threads = 0;                    // threads that run kernels; 0: one per core
  bool allow_soft_placement = false;  // use another device where the named one does not exist or has no kernel
  bool log_device_placement = false;  // log the device of every node
  absl::Duration operation_timeout = absl::InfiniteDuration();  // limit of a step that has no timeout of its own
  // On a server: how long opening a session may wait for tasks to start.
  absl::Duration open_timeout = absl::InfiniteDuration();
  Cancellation* cancellation = nullptr;  // ends the wait early; used only while the session opens
  GraphOptimizerOptions optimizer;       // which rewrites of the graph are made before it runs
  // On a server: the session has variables of its own instead of sharing them with other sessions.
  bool isolate_session_state = false;
  // On a server: the tasks that the session uses ("/job:ps", "/job:worker/task:0"). Opening the session waits for
  // these only. Empty: all tasks of the cluster.
  std::vector<std::string> device_filters;
  // On a server: the task where the members of a collective meet
  // ("/job:worker/replica:0/task:0"). "": the session's own task. Sessions that take
  // part in the same collectives must name the same task.
  std::string collective_leader;
};

// How one step runs: its deadline, and the data that it records.
struct RunOptions {
  absl::Duration timeout = absl::InfiniteDuration();  // DEADLINE_EXCEEDED if the step takes longer
  bool trace = false;                                 // record when and where every node ran, in RunMetadata
  bool output_partition_graphs = false;               // return the graphs that ran, in RunMetadata
  Cancellation* cancellation = nullptr;               // cancels the step from outside
  // On a server: a client that does not know whether a step has run may repeat it
  // under the same number. Variable updates that the step has already made are not
  // made again. `client` is a random number of the client; 0: steps are not numbered.
  uint64_t client = 0;
  int64_t sequence = 0;  // number of the step, rising from 1
  // On a server: the step reads a consistent snapshot of all tasks. While it runs, no
  // other step changes variables outside the master's own task.
  bool one_moment = false;
  // On a server: the global step at which the program stops, for the time left in the job's
  // status. 0: not known.
  int64_t stop_step = 0;
};

class BackendCallable;
class SessionBackend;
struct Signature;

// A tensor to compute ("node:0"), or a node to run for its effect only. Made from an
// Output, an Operation, a variable or a name.
struct Fetch {
  // The value of an output.
  Fetch(Output output);  // NOLINT: implicit by design
  // An operation to run for its effect, such as the initializer of a variable.
  Fetch(Operation operation) : Fetch(Target(operation)) {}  // NOLINT
  // A value that converts to Output, such as a variable.
  template <typename T>
  requires std::is_convertible_v<const T&, Output> Fetch(const T& value)  // NOLINT
      : Fetch(static_cast<Output>(value)) {}
  // By name: "node:0", or "node" for its first output. A node without outputs is run for its effect.
  Fetch(std::string name);  // NOLINT
  // By name, as from a std::string.
  Fetch(const char* name) : Fetch(std::string(name)) {}  // NOLINT
  // The node of an output, run for its effect only: its value is neither copied nor sent.
  static Fetch Target(Output output);
  // The node with a name, run for its effect only.
  static Fetch Target(std::string node);
  // True if both name the same tensor or node.
  friend bool operator==(const Fetch&, const Fetch&) = default;

  std::string name;      // "node:0", or "node" if is_node
  bool is_node = false;  // run for its effect only
};

// A value that replaces a tensor of the graph for one step.
struct Feed {
  // For an output, or for the tensor with a name ("node:0"):
  Feed(Output output, Tensor value) : name(output.node == nullptr ? "" : output.name()), value(std::move(value)) {}
  Feed(std::string name, Tensor value) : name(std::move(name)), value(std::move(value)) {}

  std::string name;  // "node:0"
  Tensor value;      // must have the tensor's type and fit its shape
};

// A device that a session may use.
struct DeviceInfo {
  std::string name;          // "/job:worker/replica:0/task:0/device:CPU:0"
  std::string type;          // "CPU"
  int64_t memory_limit = 0;  // in bytes; 0: not known
  uint64_t incarnation = 0;  // random; another one after a restart of the task
};

// Runs steps of a graph, in this process or on the servers of a cluster.
// Thread-safe: many threads may run steps at once. The graph may grow between
// steps, not during one. It must outlive the session.
class Session {
 public:
  ~Session();
  // A set of fetches and feeds that was prepared once and runs many times:
  //
  //   ASSIGN_OR_RETURN(auto step, session->Prepare({loss, Fetch::Target(train_op)}, {images, labels}));
  //   ASSIGN_OR_RETURN(auto results, step.Run({image_batch, label_batch}));
  //
  // Thread-safe. It must not run after its Session is destroyed.
  class Callable {
   public:
    // Runs a step. `feeds` has the values of the feeds, in their order. Returns the results of the fetches.
    absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Tensor> feeds, const RunOptions& options = {},
                                            RunMetadata* metadata = nullptr) const;

   private:
    friend class Session;
    std::shared_ptr<const BackendCallable> callable_;
    std::vector<bool> is_node_;
  };

  // Opens a session. Returns the graph's first error, if it has one. UNAVAILABLE or DEADLINE_EXCEEDED, naming the
  // target, if the server does not answer.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph, const SessionOptions& options = {});

  // Runs one step. Returns a result for each fetch, in order; that of a node is an
  // empty Tensor.
  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds = {},
                                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);

  // Looks up names and prepares the step for many runs, which then cost less than Run().
  absl::StatusOr<Callable> Prepare(const std::vector<Fetch>& fetches, const std::vector<Output>& feeds = {});

  // Says where each node that these fetches need would run, and why. Runs nothing.
  absl::StatusOr<std::vector<Placed>> ExplainPlacement(const std::vector<Fetch>& fetches);

  // The devices of the tasks that the session uses; those that nodes prefer come first.
  absl::StatusOr<std::vector<DeviceInfo>> ListDevices();

  // Cancels running steps. Every later call fails with FAILED_PRECONDITION.
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
