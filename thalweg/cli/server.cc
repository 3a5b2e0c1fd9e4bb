// thalweg server: one task of a cluster.
#include "thalweg/client/server.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iostream>
#include <string>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/proto_file.h"

ABSL_FLAG(std::string, cluster, "",
          "who is in the cluster: \"ps|host:2222;host:2223,worker|host:2224\"; tasks may be given as index=host:port");
ABSL_DECLARE_FLAG(std::string, job_name);  // of launch/job.cc
ABSL_DECLARE_FLAG(int, task_index);
ABSL_FLAG(std::string, server_def, "",
          "a file with a tensorflow.ServerDef, instead of the three above; \"-\" is the standard input");
ABSL_FLAG(int, cpus, 1, "number of devices: /device:CPU:0, /device:CPU:1, ...");
ABSL_FLAG(int, lifeline, -1, "a file descriptor: the server ends when its other end is closed");
ABSL_FLAG(absl::Duration, peer_timeout, absl::Seconds(10),
          "a task that a step waits for and that does not answer for so long is taken for dead");
ABSL_FLAG(std::string, bind, "0.0.0.0", "the address to listen on");

namespace thalweg::cli {
namespace {

absl::StatusOr<std::unique_ptr<Server>> StartServer() {
  const ServerOptions options{.cpu_devices = absl::GetFlag(FLAGS_cpus),
                              .bind = absl::GetFlag(FLAGS_bind),
                              .peer_timeout = absl::GetFlag(FLAGS_peer_timeout)};
  if (options.peer_timeout <= absl::ZeroDuration()) {
    return InvalidArgument("--peer_timeout: expected more than 0, got ", absl::FormatDuration(options.peer_timeout));
  }
  if (options.cpu_devices < 1) return InvalidArgument("--cpus: expected at least 1, got ", options.cpu_devices);
  if (const std::string file = absl::GetFlag(FLAGS_server_def); !file.empty()) {
    tensorflow::ServerDef def;
    if (file == "-") {
      if (!def.ParseFromIstream(&std::cin)) return InvalidArgument("The standard input holds no ServerDef");
    } else {
      RETURN_IF_ERROR(ReadProto(file, &def));
    }
    return Server::Start(def, options);
  }
  if (absl::GetFlag(FLAGS_cluster).empty()) return InvalidArgument("Expected --cluster or --server_def");
  ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::Parse(absl::GetFlag(FLAGS_cluster)));
  TaskId task{absl::GetFlag(FLAGS_job_name), absl::GetFlag(FLAGS_task_index)};
  if (task.job.empty() && cluster.jobs().size() == 1) task.job = cluster.jobs()[0];
  return Server::Start(cluster, task, options);
}

// Waits for one of the signals or, if there is a lifeline, until it is cut.
// Returns which it was.
std::string WaitForEnd(const sigset_t& signals, int lifeline) {
  const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
  pollfd waits[] = {{.fd = signal_fd, .events = POLLIN, .revents = 0},
                    {.fd = lifeline, .events = POLLIN, .revents = 0}};
  while (poll(waits, lifeline >= 0 ? 2 : 1, -1) < 0 && errno == EINTR) {
  }
  signalfd_siginfo info{};
  if (waits[0].revents != 0 && read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
    return info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT";
  }
  return "its starter has ended";
}

// Every client and every other task has a connection: as many as the system
// allows.
void AllowManyConnections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status Run(std::ostream& out) {
  AllowManyConnections();
  // Threads inherit the mask: signals reach only the wait below.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  absl::StatusOr<std::unique_ptr<Server>> server = StartServer();
  if (!server.ok()) {
    out << "Server failed: " << absl::StatusCodeToString(server.status().code()) << ": " << server.status().message()
        << std::endl;
    return server.status();
  }
  out << "Started server with target: " << (*server)->target() << std::endl;
  LOG(INFO) << (*server)->task().ToString() << " ends: " << WaitForEnd(signals, absl::GetFlag(FLAGS_lifeline));
  (*server)->Stop();
  return absl::OkStatus();
}

}  // namespace

Command ServerCommand() {
  return {.name = "server",
          .summary = "Serves one task of a cluster to TensorFlow's clients and servers, and ours.",
          .usage = "--cluster C --job_name J --task_index I | --server_def FILE",
          .flags = {"cluster", "job_name", "task_index", "server_def", "cpus", "bind", "peer_timeout", "lifeline"},
          .run = Run};
}

}  // namespace thalweg::cli
