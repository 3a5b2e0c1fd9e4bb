// SPDX-License-Identifier: Apache-2.0
// thalweg server: serves one task of a cluster.
#include "thalweg/server/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "thalweg/base/log_format.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/proto_file.h"
#include "thalweg/client/task_completion.h"
#include "thalweg/cluster/cluster_def.h"
#include "thalweg/launch/fault_schedule.h"
#include "thalweg/launch/monitoring_environment.h"
#include "thalweg/monitor/task_monitor.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/server/script_channel.h"

ABSL_FLAG(std::string, cluster, "",
          "tasks of the cluster: \"ps|host:2222;host:2223,worker|host:2224\"; a task may be given as index=host:port");
ABSL_DECLARE_FLAG(std::string, job_name);  // defined in launch/job.cc
ABSL_DECLARE_FLAG(int, task_index);
ABSL_FLAG(std::string, server_def, "",
          "file with a tensorflow.ServerDef, instead of --cluster, --job_name and --task_index; \"-\": standard input");
ABSL_FLAG(int, cpus, 1, "number of CPU devices: /device:CPU:0, /device:CPU:1, ...");
ABSL_FLAG(bool, forever, false, "keep serving after all workers are done, until SIGTERM or SIGINT");
ABSL_FLAG(absl::Duration, orphan_after, absl::InfiniteDuration(),
          "exit with code 132 if no worker has been seen for this long");
ABSL_FLAG(absl::Duration, failed_after, absl::Seconds(60),
          "how long a worker whose program failed or was killed may take to be restarted; then synchronous training "
          "that waits for it fails, and a server without other workers exits with code 132; \"inf\": no limit");
ABSL_FLAG(absl::Duration, idle_after, absl::Seconds(10),
          "as a parameter server of TensorFlow workers: exit with code 0 when they have closed their sessions, cannot "
          "be reached, and no call has arrived for this long");
ABSL_FLAG(
    std::string, orphan_checkpoint, "",
    "with --orphan_after: save all variables before the exit, in a checkpoint of this prefix and the task's name; "
    "\"ckpt/orphan\" makes ckpt/orphan-ps-0");
// A lifeline connects the server to the program that owns it. The program writes one
// letter per request: "S100\n" tells the global step at which it stops, "D" announces that its work is done, "F" that
// it ends with an error; "J" waits for the end of the job, "L" lets the server finish its steps and exit. The server
// answers on its standard output ("Announced", "Joined", "Orphaned"). It serves until the program closes its end, so
// that the sessions of an exiting program are closed last.
ABSL_FLAG(int, lifeline, -1,
          "file descriptor of a pipe from the program that owns the server; the server exits when the other end is "
          "closed, and leaves SIGINT, SIGTERM and SIGHUP to that program");
ABSL_FLAG(int, script_channel, -1,
          "file descriptor of the socket over which ops such as tf.py_func call functions of the program that owns the "
          "server");
ABSL_FLAG(absl::Duration, peer_timeout, absl::Seconds(5),
          "how long a task may fail to answer before the steps that wait for it fail with UNAVAILABLE; a broken "
          "connection fails them immediately");
ABSL_FLAG(absl::Duration, client_lease, absl::Hours(24),
          "close a session that runs no step and that no client has called for this long; \"inf\": never");
ABSL_FLAG(absl::Duration, master_lease, absl::Minutes(10),
          "close the sessions of a remote master that has not answered for this long; \"inf\": never");
ABSL_DECLARE_FLAG(bool, keep_tensorflow_semantics);  // defined in python.cc
ABSL_DECLARE_FLAG(std::string, faults);              // defined in run.cc
ABSL_FLAG(bool, local_links, true,
          "use shared memory instead of the network between tasks of one user on this machine");
ABSL_FLAG(bool, collective_links, true,
          "run collectives with tasks on other machines over TCP connections of their own, on a free port; use "
          "--nocollective_links if only the cluster's ports are open between the machines");
ABSL_FLAG(
    bool, tcp_links, false,
    "use TCP links instead of gRPC between Thalweg tasks; the task listens on another port, which it tells its peers");
ABSL_FLAG(
    std::string, http, "localhost:0",
    "\"host:port\" on which to show the status of the job (docs/observing.md); port 0: any free port; \"off\": none");
ABSL_FLAG(
    std::string, http_token, "",
    "token that every request to the HTTP port must send, as \"Authorization: Bearer TOKEN\" or \"?token=TOKEN\"; "
    "by default the value of THALWEG_HTTP_TOKEN; if both are empty, no token is needed");
ABSL_FLAG(
    std::string, flight_folder, "",
    "existing folder for dumps of the flight recorder, which are written when a step fails, when a task is lost and on "
    "SIGUSR1; \"\": thalweg-flight-UID in the folder for temporary files, which keeps the last ones; \"off\": none");
ABSL_FLAG(bool, recorder, true, "record steps, events and scalars, for the status of the job and the flight recorder");
ABSL_FLAG(std::string, bind, "",
          "address to listen on; \"0.0.0.0\": all. By default loopback only if all tasks of the cluster are on it, "
          "otherwise also the address that the cluster gives this task");

namespace thalweg::cli {
namespace {

// The task's faults, of --faults or of the launcher's variable.
absl::StatusOr<std::unique_ptr<FaultInjector>> FaultsOf(const ClusterSpec& cluster, const TaskId& task) {
  std::string text = absl::GetFlag(FLAGS_faults);
  if (const char* const told = std::getenv(kFaultsVariable); text.empty() && told != nullptr) text = told;
  return StartFaults(text, cluster, task);
}

absl::StatusOr<std::unique_ptr<Server>> StartServer(std::unique_ptr<FaultInjector>* faults) {
  ServerOptions options{.cpu_devices = absl::GetFlag(FLAGS_cpus),
                        .bind = absl::GetFlag(FLAGS_bind),
                        .peer_timeout = absl::GetFlag(FLAGS_peer_timeout),
                        .client_lease = absl::GetFlag(FLAGS_client_lease),
                        .master_lease = absl::GetFlag(FLAGS_master_lease),
                        .local_links = absl::GetFlag(FLAGS_local_links),
                        .tcp_links = absl::GetFlag(FLAGS_tcp_links),
                        .collective_links = absl::GetFlag(FLAGS_collective_links),
                        .orphan_after = absl::GetFlag(FLAGS_orphan_after),
                        .orphan_checkpoint = absl::GetFlag(FLAGS_orphan_checkpoint),
                        .release_tokens_of_tasks_that_left = !absl::GetFlag(FLAGS_keep_tensorflow_semantics),
                        .failed_after = absl::GetFlag(FLAGS_keep_tensorflow_semantics)
                                            ? absl::InfiniteDuration()
                                            : absl::GetFlag(FLAGS_failed_after),
                        .idle_after = absl::GetFlag(FLAGS_idle_after),
                        .exit_when_stuck = true,
                        .http = absl::GetFlag(FLAGS_http),
                        .http_token = absl::GetFlag(FLAGS_http_token),
                        .flight_folder = absl::GetFlag(FLAGS_flight_folder),
                        .recorder = absl::GetFlag(FLAGS_recorder)};
  options = WithMonitoringOfEnvironment(std::move(options));
  if (options.peer_timeout <= absl::ZeroDuration()) {
    return InvalidArgument("--peer_timeout: expected more than 0, got ", absl::FormatDuration(options.peer_timeout));
  }
  if (options.client_lease <= absl::ZeroDuration() || options.master_lease <= absl::ZeroDuration()) {
    return InvalidArgument("--client_lease and --master_lease: expected more than 0");
  }
  if (options.cpu_devices < 1) return InvalidArgument("--cpus: expected at least 1, got ", options.cpu_devices);
  if (const int socket = absl::GetFlag(FLAGS_script_channel); socket >= 0) {
    ASSIGN_OR_RETURN(options.script, ScriptChannel::Create(FileHandle(socket)));
  }
  if (const std::string file = absl::GetFlag(FLAGS_server_def); !file.empty()) {
    tensorflow::ServerDef def;
    if (file == "-") {
      if (!def.ParseFromIstream(&std::cin))
        return InvalidArgument("The standard input is not a valid tensorflow.ServerDef");
    } else {
      RETURN_IF_ERROR(ReadProto(file, &def));
    }
    ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpecFromProto(def.cluster()));
    ASSIGN_OR_RETURN(*faults, FaultsOf(cluster, {def.job_name(), def.task_index()}));
    return Server::StartFromServerDef(def.SerializeAsString(), options);
  }
  if (absl::GetFlag(FLAGS_cluster).empty()) return InvalidArgument("Expected --cluster or --server_def");
  ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::Parse(absl::GetFlag(FLAGS_cluster)));
  TaskId task{absl::GetFlag(FLAGS_job_name), absl::GetFlag(FLAGS_task_index)};
  if (task.job.empty() && cluster.jobs().size() == 1) task.job = cluster.jobs()[0];
  ASSIGN_OR_RETURN(*faults, FaultsOf(cluster, task));
  return Server::Start(cluster, task, options);
}

// The events that the main thread waits for while gRPC's threads serve calls:
// signals, requests on the lifeline, and the end of Join() or Drain().
class Events {
 public:
  // REQUIRES: `signals` are blocked in all threads.
  Events(const sigset_t& signals, int lifeline)
      : signals_(signalfd(-1, &signals, SFD_CLOEXEC)), ended_(eventfd(0, EFD_CLOEXEC)), lifeline_(lifeline) {}
  ~Events() {
    close(signals_);
    close(ended_);
  }

  enum class Event {
    kSignal,
    kEnded,
    kToldToJoin,
    kToldDone,
    kToldFailed,
    kToldToLeave,
    kToldToStop,
    kToldStopStep,
    kCut
  };
  Event Wait() {
    while (true) {
      pollfd waits[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                        {.fd = ended_, .events = POLLIN, .revents = 0},
                        {.fd = lifeline_, .events = POLLIN, .revents = 0}};
      if (poll(waits, lifeline_ >= 0 ? 3 : 2, -1) < 0) continue;
      signalfd_siginfo info{};
      if (waits[0].revents != 0 && read(signals_, &info, sizeof(info)) == sizeof(info)) {
        signal_ = static_cast<int>(info.ssi_signo);
        return Event::kSignal;
      }
      if (waits[1].revents != 0) return Event::kEnded;
      if (waits[2].revents == 0) continue;
      char told = 0;
      if (read(lifeline_, &told, 1) != 1) return Event::kCut;
      if (told == 'J') return Event::kToldToJoin;
      if (told == 'D') return Event::kToldDone;
      if (told == 'F') return Event::kToldFailed;
      if (told == 'L') return Event::kToldToLeave;
      if (told == 'Q') return Event::kToldToStop;
      if (told == 'S' && ReadStopStep()) return Event::kToldStopStep;
    }
  }
  int signal() const { return signal_; }
  int64_t stop_step() const { return stop_step_; }
  bool has_lifeline() const { return lifeline_ >= 0; }
  void SetEnded() {
    const uint64_t one = 1;
    CHECK(write(ended_, &one, sizeof(one)) == sizeof(one));
  }

 private:
  // Digits and an end of line, which the program writes at once.
  bool ReadStopStep() {
    std::string digits;
    char c = 0;
    while (digits.size() < 20 && read(lifeline_, &c, 1) == 1 && c != '\n') digits += c;
    return absl::SimpleAtoi(digits, &stop_step_);
  }

  const int signals_, ended_, lifeline_;
  int signal_ = 0;
  int64_t stop_step_ = 0;
};

// Serves until the job is over, a signal arrives, or the lifeline is closed.
class Serving {
 public:
  Serving(Server& server, Events& events, std::ostream& out) : server_(server), events_(events), out_(out) {}

  absl::Status Run(bool join) {
    if (join) StartJoin();
    std::string why;
    while (why.empty()) why = Handle(events_.Wait());
    LOG(INFO) << server_.task().ToString() << " exits: " << why;
    stopping_ = true;
    server_.Stop();
    announcement_.reset();
    drain_.reset();
    join_.reset();
    return joined_;
  }

 private:
  // Returns the reason for which the server exits, or "" if it keeps serving.
  std::string Handle(Events::Event event) {
    switch (event) {
      case Events::Event::kSignal:
        return HandleSignal();
      case Events::Event::kEnded:
        return drain_ != nullptr ? "all its steps have ended" : joined_.ok() ? "the job is over" : "it is an orphan";
      case Events::Event::kToldToJoin:
        StartJoin();
        return "";
      case Events::Event::kToldDone:
        announced_ = true;
        HasTold(AnnounceDone(server_.target()));
        return "";
      case Events::Event::kToldFailed:
        announced_ = true;
        HasTold(AnnounceFailed(server_.target()));
        return "";
      case Events::Event::kToldStopStep:
        server_.SetStopStep(events_.stop_step());
        return "";
      case Events::Event::kToldToLeave:
        StartDrain();
        return "";
      case Events::Event::kToldToStop:
        return "its program has stopped it";
      case Events::Event::kCut:
        return HandleCut();
    }
    return "";
  }

  // A program that was killed has announced nothing, so the server does it. The port must soon be
  // free for a restarted program: tasks that do not answer are not waited for.
  std::string HandleCut() {
    constexpr absl::Duration kAnnounceTime = absl::Seconds(1);
    if (announced_ || join_ != nullptr || absl::GetFlag(FLAGS_keep_tensorflow_semantics)) {
      return "its program has exited";
    }
    const auto told = std::make_shared<Notification>();
    announcement_ = std::make_unique<Thread>("announce", [target = server_.target(), told] {
      AnnounceFailed(target).IgnoreError();  // if the others cannot be reached, they notice by themselves
      told->Notify();
    });
    if (!told->WaitForNotificationWithTimeout(kAnnounceTime)) LOG(WARNING) << "some tasks could not be told in time";
    return "its program was killed";
  }

  void HasTold(const absl::Status& told) {
    if (!told.ok()) LOG(WARNING) << told.message();
    Say("Announced");
  }

  // Drains the server: running steps finish first. A second signal exits immediately.
  std::string HandleSignal() {
    if (events_.signal() == SIGUSR1) {
      const absl::StatusOr<std::string> path = server_.DumpFlightRecorder();
      LOG(INFO) << server_.task().ToString()
                << " was asked for its flight recorder: " << (path.ok() ? *path : std::string(path.status().message()));
      return "";
    }
    if (events_.has_lifeline()) return "";  // the program decides
    if (drain_ != nullptr) _exit(128 + events_.signal());
    LOG(INFO) << server_.task().ToString() << " finishes its steps and exits: received " << strsignal(events_.signal());
    StartDrain();
    return "";
  }

  void StartDrain() {
    if (drain_ != nullptr) return;
    drain_ = std::make_unique<Thread>("drain", [this] {
      server_.Drain();
      events_.SetEnded();
    });
  }

  void StartJoin() {
    if (join_ != nullptr) return;
    join_ = std::make_unique<Thread>("join", [this] {
      joined_ = server_.Join();
      if (!events_.has_lifeline()) return events_.SetEnded();
      if (stopping_) return;  // Stop() made Join() return; the job is not over
      LOG(INFO) << server_.task().ToString() << ": " << (joined_.ok() ? "the job is over" : joined_.message());
      Say(joined_.ok() ? "Joined" : "Orphaned");
    });
  }

  void Say(const char* line) {
    MutexLock lock(&mutex_);
    out_ << line << std::endl;
  }

  Server& server_;
  Events& events_;
  Mutex mutex_;
  std::ostream& out_;  // written under mutex_
  std::atomic<bool> stopping_ = false;
  absl::Status joined_;     // written by join_
  bool announced_ = false;  // the program has said how it ends
  std::unique_ptr<Thread> join_, drain_, announcement_;
};

// Raises the limit of open files as far as the system allows, because every client
// and every other task needs a connection.
void AllowManyConnections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status RunServer(std::ostream& out) {
  AllowManyConnections();
  // Threads inherit the signal mask, so the signals reach only Events::Wait().
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  const int lifeline = absl::GetFlag(FLAGS_lifeline);
  if (lifeline >= 0) sigaddset(&signals, SIGHUP);
  signal(SIGPIPE, SIG_IGN);  // the reader of our standard output may have exited
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  std::unique_ptr<FaultInjector> faults;  // outlives the server, whose calls they strike
  absl::StatusOr<std::unique_ptr<Server>> server = StartServer(&faults);
  if (!server.ok()) {
    out << "Server failed: " << absl::StatusCodeToString(server.status().code()) << ": " << server.status().message()
        << std::endl;
    return server.status();
  }
  SetLogTask(ShortTaskName((*server)->task().ToString()));
  out << "Started server with target: " << (*server)->target() << std::endl;
  Events events(signals, lifeline);
  return Serving(**server, events, out).Run(/*join=*/lifeline < 0 && !absl::GetFlag(FLAGS_forever));
}

}  // namespace

Command ServerCommand() {
  return {.name = "server",
          .summary = "Serves one task of a cluster to Thalweg's and TensorFlow's clients and servers.",
          .usage = "--cluster C --job_name J --task_index I | --server_def FILE",
          .flags = {"cluster",         "job_name",       "task_index",
                    "server_def",      "cpus",           "bind",
                    "forever",         "orphan_after",   "orphan_checkpoint",
                    "failed_after",    "idle_after",     "peer_timeout",
                    "client_lease",    "master_lease",   "local_links",
                    "lifeline",        "script_channel", "keep_tensorflow_semantics",
                    "faults",          "http",           "http_token",
                    "flight_folder",   "recorder",       "tcp_links",
                    "collective_links"},
          .run = RunServer};
}

}  // namespace thalweg::cli
