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
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "thalweg/cluster/cluster_spec.h"

namespace thalweg {

class ScriptFunctions;

// How a server listens, what it records, and how long it waits for peers.
struct ServerOptions {
  int cpu_devices = 1;  // number of devices: /device:CPU:0, CPU:1, ...
  int threads = 0;      // threads that run kernels; 0: one per core
  // The address to listen on. Empty: loopback if all tasks of the cluster are there;
  // otherwise also the task's address in the cluster or, if this machine does not have
  // that address, all addresses.
  std::string bind;
  // If a task that a step waits for does not answer for this long, the step fails with
  // UNAVAILABLE. A broken connection fails it at once.
  absl::Duration peer_timeout = absl::Seconds(5);
  // A session without a running step is closed when its client has not called it for this
  // long, since a killed client leaves its sessions open. A client that comes back later
  // gets ABORTED, as after a restart of the server, and must open another session.
  absl::Duration client_lease = absl::Hours(24);
  // The sessions and graphs that a master in another task has registered here are released
  // when it does not answer for this long, or at once if it restarts.
  absl::Duration master_lease = absl::Minutes(10);
  // Exchange messages with tasks of the same user on this machine through shared memory.
  bool local_links = true;
  // Exchange messages with other Thalweg tasks over TCP links instead of gRPC. The task listens on
  // another port, which it tells its peers over gRPC. If that port cannot be reached, they use gRPC.
  bool tcp_links = false;
  // Run collectives with tasks on other machines over TCP connections of their own, on a free port that is chosen
  // when the first collective begins. False: over the cluster's ports, by gRPC, which is slower.
  bool collective_links = true;
  // For tests: the host on which collectives take the task to be, if not this machine. Tasks with the same name share
  // memory, so they must run on one machine.
  std::string collective_host;
  // How long Join() waits while the job has no worker and no client uses this task.
  absl::Duration orphan_after = absl::InfiniteDuration();
  // Before Join() gives up for that reason, it saves all variables of this task in the
  // checkpoint `orphan_checkpoint`-<job>-<index>, for example "ckpt/orphan-ps-0".
  std::string orphan_checkpoint;
  // Let synchronous training of TensorFlow programs (SyncReplicasOptimizer) continue with
  // the remaining workers when one is done. False: the others wait for it forever, as with
  // TensorFlow's servers.
  bool release_tokens_of_tasks_that_left = true;
  // Once a worker is done, Join() no longer waits for a worker that has been unreachable
  // for this long.
  absl::Duration gone_after = absl::Seconds(30);
  // How long a worker whose program ended with an error (AnnounceFailed()), or that does not
  // answer any more, may take to be restarted. Then synchronous training of TensorFlow
  // programs that waits for it fails with DEADLINE_EXCEEDED. If a program ended with an error
  // and no other worker is left, so does Join().
  absl::Duration failed_after = absl::Seconds(60);
  // TensorFlow's masters do not announce that they are done. A parameter server that only
  // they have used returns from Join() when their sessions are closed, their tasks are
  // unreachable and no call has come for this long.
  absl::Duration idle_after = absl::Seconds(10);
  // Stop() cancels the running steps and waits until they have ended. Kernels that compute or
  // write do not notice that at once. After this time, it logs as an error which steps still
  // run, and waits on, because the steps use this object.
  absl::Duration stop_timeout = absl::Seconds(4);
  // If Stop() has not returned after `stop_timeout`, ends the process with _exit(1), as `thalweg server` does.
  bool exit_when_stuck = false;
  // "host:port" of the HTTP port with the status of the job (docs/observing.md); port 0 is
  // any free port. "": there is none.
  std::string http = "localhost:0";
  // Token that requests to the HTTP port must carry: "Authorization: Bearer TOKEN", or
  // "?token=TOKEN". "": nothing.
  std::string http_token;
  // Folder for dumps of the flight recorder: the last steps and events, as JSON and as a Chrome
  // trace. They are written when a step fails or a task is lost, at growing intervals, and by
  // DumpFlightRecorder(). "": thalweg-flight-UID in the folder for temporary files, which keeps
  // the last ones; "off": no dumps.
  std::string flight_folder;
  // Record steps, events and scalars, for the status of the job and the flight recorder. If it is
  // false, /metrics and `thalweg status` know no steps. docs/observing.md says what it costs.
  bool recorder = true;
  // The Python functions of this server's program, for tf.py_func and similar ops.
  // nullptr: these ops fail.
  std::shared_ptr<ScriptFunctions> script;
};

// One task of a cluster, running in this process. Thread-safe.
class Server {
 public:
  // Starts the server and listens on the task's port in the cluster; port 0 chooses a free
  // one. The other tasks need not run yet. INVALID_ARGUMENT if the cluster has no such task
  // or its address has no port, UNKNOWN if the port is in use.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ClusterSpec& cluster, const TaskId& task,
                                                       const ServerOptions& options = {});
  // The same for a tensorflow.ServerDef in its binary format, which also has the options of all sessions.
  // INVALID_ARGUMENT if it cannot be read or asks for another protocol than gRPC.
  static absl::StatusOr<std::unique_ptr<Server>> StartFromServerDef(absl::string_view server_def,
                                                                    const ServerOptions& options = {});
  // Starts a cluster of one task, "/job:local/task:0", on a free port.
  static absl::StatusOr<std::unique_ptr<Server>> StartLocal(const ServerOptions& options = {});
  // Calls Stop().
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& target() const;  // for SessionOptions: "grpc://localhost:2222"
  const TaskId& task() const;         // the task of the cluster that it is
  int port() const;                   // the port it listens on
  // The address of the status page, "http://localhost:8080/". "": there is none.
  const std::string& http_address() const;

  // Tells the job's status at which global step this task's program stops. Sessions of C++ tell
  // it themselves (RunOptions::stop_step).
  void SetStopStep(int64_t step);

  // Writes the flight recorders of all tasks to the flight folder, and returns the path of the
  // JSON file.
  absl::StatusOr<std::string> DumpFlightRecorder();

  // Ends all sessions and frees the port. Running steps fail with CANCELLED or, in other
  // tasks, UNAVAILABLE. See ServerOptions::stop_timeout for steps that do not end.
  void Stop();
  // Stops gracefully. Refuses new sessions, with UNAVAILABLE; lets sessions run steps until
  // they pause or half of `timeout` has passed; then refuses new steps too, waits for
  // those that run, and stops.
  void Drain(absl::Duration timeout = absl::Seconds(10));
  // Waits for the end of the job; for tasks that only serve others, such as parameter
  // servers. The server keeps serving until it is stopped.
  //
  // Returns OK when every worker has announced that it is done (AnnounceDone()), waits in
  // Join() too, or is lost; for TensorFlow's workers see ServerOptions::idle_after. Also
  // returns OK after Stop(). DEADLINE_EXCEEDED if the job had no worker for
  // ServerOptions::orphan_after, or if its workers failed (ServerOptions::failed_after); the
  // message says where the variables were saved, or why they were not.
  absl::Status Join();

 private:
  class State;
  explicit Server(std::unique_ptr<State> state);
  absl::Status SaveOrphan(const absl::Status& orphaned);
  const std::unique_ptr<State> state_;
};

}  // namespace thalweg
