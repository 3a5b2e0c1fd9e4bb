// SPDX-License-Identifier: Apache-2.0
// Server: one task of a cluster. It has devices, takes sessions as a master, and
// runs parts of steps as a worker.
//
//   ASSIGN_OR_RETURN(auto server, Server::Start(cluster, {"worker", 0}));
//   ASSIGN_OR_RETURN(auto session, Session::Create(graph, {.target = server->target()}));
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/cluster/cluster_spec.h"

namespace tensorflow {
class ConfigProto;
class ServerDef;
}  // namespace tensorflow

namespace thalweg {

class ScriptFunctions;

struct ServerOptions {
  int cpu_devices = 1;  // /device:CPU:0, CPU:1, ...
  int threads = 0;      // 0: one per core
  // Where it listens. Empty: only at loopback if that is where all tasks of the cluster
  // are, otherwise also at the address that the cluster gives the task, or, if that is
  // none of this machine's, at all addresses.
  std::string bind;
  // A task that something here waits for and that does not answer for so long is
  // taken for dead: the step fails with UNAVAILABLE. A task whose connection
  // breaks is dead at once.
  absl::Duration peer_timeout = absl::Seconds(5);
  // A session that no client has called for so long, and that runs no step, is closed:
  // clients that are killed leave theirs behind. One that comes back after that finds
  // its session gone (ABORTED), and makes another, as after a restart of the server.
  absl::Duration client_lease = absl::Hours(24);
  // What masters elsewhere have registered here is let go of when they do not answer
  // for so long, and at once when they come back as another process.
  absl::Duration master_lease = absl::Minutes(10);
  // Tasks of the same user on this machine exchange messages through shared
  // memory.
  bool local_links = true;
  // How long Join() waits while there is no worker and nobody uses this task.
  absl::Duration orphan_after = absl::InfiniteDuration();
  // If Join() gives up so, all variables of this task go into the checkpoint
  // `orphan_checkpoint`-<job>-<index> first: "ckpt/orphan" is "ckpt/orphan-ps-0".
  std::string orphan_checkpoint;
  // Synchronous training of TensorFlow programs (SyncReplicasOptimizer) goes on
  // with the workers that are left when one says that it is done. False: the
  // others wait for it for ever, as TensorFlow's do.
  bool release_tokens_of_tasks_that_left = true;
  // Once some worker is done, one that has not said so and cannot be reached for
  // this long is not waited for.
  absl::Duration gone_after = absl::Seconds(30);
  // Masters of TensorFlow do not say that they are done. A parameter server that
  // only they have worked with leaves when their sessions were closed, their tasks
  // cannot be reached, and nothing came for this long.
  absl::Duration idle_after = absl::Seconds(10);
  // The Python functions of the program that this server belongs to, for the ops of
  // tf.py_func. nullptr: there is no such program, and these ops fail.
  std::shared_ptr<ScriptFunctions> script;
};

// Thread-safe.
class Server {
 public:
  // Listens when it returns, on the port of its task in the cluster; 0 is one
  // that is free. INVALID_ARGUMENT if the cluster has no such task or its
  // address no port, UNKNOWN if the port is in use. The other tasks need not
  // run yet.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ClusterSpec& cluster, const TaskId& task,
                                                       const ServerOptions& options = {});
  /// @cond INTERNAL
  // From TensorFlow's message; `options` has what it does not say.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const tensorflow::ServerDef& def, ServerOptions options = {});
  /// @endcond
  // A cluster of one task, "/job:local/task:0", on a port that is free.
  static absl::StatusOr<std::unique_ptr<Server>> StartLocal(const ServerOptions& options = {});
  ~Server();  // Stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& target() const;  // "grpc://localhost:2222"
  const TaskId& task() const;
  int port() const;

  // Ends every session and every step, which fail with CANCELLED or, in other
  // tasks, UNAVAILABLE, and frees the port.
  void Stop();
  // Ends well: takes no new sessions, lets those that there are go on until they
  // pause or half of `timeout` is over, takes no new steps then, waits for those
  // that run, and stops. What is refused fails with UNAVAILABLE.
  void Drain(absl::Duration timeout = absl::Seconds(10));
  // For a task that has nothing to do by itself, as a parameter server. Returns
  // OK when the job is over, which is when all workers have said that they are
  // done (AnnounceDone()), wait here too, or have gone away; for workers of
  // TensorFlow see options.idle_after; or when another thread has called Stop().
  // The server serves until it is stopped.
  // DEADLINE_EXCEEDED if there was no worker for options.orphan_after; it says
  // where the variables were saved, or why they were not.
  absl::Status Join();

 private:
  class State;
  explicit Server(std::unique_ptr<State> state);
  // `session_config` has the options of every session, under what the session asks for.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ClusterSpec& cluster, const TaskId& task,
                                                       const ServerOptions& options,
                                                       const tensorflow::ConfigProto& session_config);
  absl::Status SaveOrphan(const absl::Status& orphaned);
  const std::unique_ptr<State> state_;
};

}  // namespace thalweg
