// thalweg server: one task of a cluster.
#include "thalweg/proto/config.pb.h"
#include "thalweg/server/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/proto_file.h"
#include "thalweg/client/task_completion.h"

ABSL_FLAG(std::string, cluster, "",
          "who is in the cluster: \"ps|host:2222;host:2223,worker|host:2224\"; tasks may be given as index=host:port");
ABSL_DECLARE_FLAG(std::string, job_name);  // of launch/job.cc
ABSL_DECLARE_FLAG(int, task_index);
ABSL_FLAG(std::string, server_def, "",
          "a file with a tensorflow.ServerDef, instead of the three above; \"-\" is the standard input");
ABSL_FLAG(int, cpus, 1, "number of devices: /device:CPU:0, /device:CPU:1, ...");
ABSL_FLAG(bool, forever, false, "serve on when all workers have said that they are done");
ABSL_FLAG(absl::Duration, orphan_after, absl::InfiniteDuration(),
          "leave, with code 132, if for this long there was no worker");
ABSL_FLAG(absl::Duration, idle_after, absl::Seconds(10),
          "as a parameter server of TensorFlow's workers, leave, with code 0, when they have closed their sessions and "
          "are gone and nothing came for this long");
ABSL_FLAG(std::string, orphan_checkpoint, "",
          "then save all variables first, as the checkpoint of this name and the task's: \"ckpt/orphan\" makes "
          "ckpt/orphan-ps-0");
// The program that owns the server writes to it: "D" when its work is done, "J"
// to wait for the end of the job, "L" to have the server finish its steps and
// leave. The server answers on its standard output ("Announced", "Joined",
// "Orphaned") and serves until the program closes its end: sessions of a program
// that ends are closed last of all.
ABSL_FLAG(int, lifeline, -1,
          "a file descriptor: the server ends when its other end is closed. SIGINT, SIGTERM and SIGHUP, which reach "
          "the program as well, are left to the program");
ABSL_FLAG(absl::Duration, peer_timeout, absl::Seconds(5),
          "a task that a step waits for and that does not answer for so long is taken for dead; one whose connection "
          "breaks is dead at once");
ABSL_FLAG(absl::Duration, client_lease, absl::Hours(24),
          "close a session that no client has called for this long and that runs no step; \"inf\" keeps all");
ABSL_FLAG(absl::Duration, master_lease, absl::Minutes(10),
          "let go of what a master has registered here when it does not answer for this long; \"inf\" keeps all");
ABSL_DECLARE_FLAG(bool, keep_tensorflow_semantics);  // of python.cc
ABSL_FLAG(bool, local_links, true, "exchange messages with tasks of the same user on this machine in shared memory");
ABSL_FLAG(std::string, bind, "",
          "the address to listen on, \"0.0.0.0\" for all; by default loopback only if all tasks of the cluster are "
          "there, else also the address that the cluster gives this task");

namespace thalweg::cli {
namespace {

absl::StatusOr<std::unique_ptr<Server>> StartServer() {
  const ServerOptions options{.cpu_devices = absl::GetFlag(FLAGS_cpus),
                              .bind = absl::GetFlag(FLAGS_bind),
                              .peer_timeout = absl::GetFlag(FLAGS_peer_timeout),
                              .client_lease = absl::GetFlag(FLAGS_client_lease),
                              .master_lease = absl::GetFlag(FLAGS_master_lease),
                              .local_links = absl::GetFlag(FLAGS_local_links),
                              .orphan_after = absl::GetFlag(FLAGS_orphan_after),
                              .orphan_checkpoint = absl::GetFlag(FLAGS_orphan_checkpoint),
                              .release_tokens_of_tasks_that_left = !absl::GetFlag(FLAGS_keep_tensorflow_semantics),
                              .idle_after = absl::GetFlag(FLAGS_idle_after)};
  if (options.peer_timeout <= absl::ZeroDuration()) {
    return InvalidArgument("--peer_timeout: expected more than 0, got ", absl::FormatDuration(options.peer_timeout));
  }
  if (options.client_lease <= absl::ZeroDuration() || options.master_lease <= absl::ZeroDuration()) {
    return InvalidArgument("--client_lease and --master_lease: expected more than 0");
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

// What the server waits for, besides calls.
class Events {
 public:
  // REQUIRES: the signals are blocked in all threads.
  Events(const sigset_t& signals, int lifeline)
      : signals_(signalfd(-1, &signals, SFD_CLOEXEC)), ended_(eventfd(0, EFD_CLOEXEC)), lifeline_(lifeline) {}
  ~Events() {
    close(signals_);
    close(ended_);
  }

  enum class Event { kSignal, kEnded, kToldToJoin, kToldDone, kToldToLeave, kCut };
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
      if (told == 'L') return Event::kToldToLeave;
    }
  }
  int signal() const { return signal_; }
  bool has_lifeline() const { return lifeline_ >= 0; }
  void SetEnded() {
    const uint64_t one = 1;
    CHECK(write(ended_, &one, sizeof(one)) == sizeof(one));
  }

 private:
  const int signals_, ended_, lifeline_;
  int signal_ = 0;
};

// Serves until the job is over, or somebody wants it to end.
class Serving {
 public:
  Serving(Server& server, Events& events, std::ostream& out) : server_(server), events_(events), out_(out) {}

  absl::Status Run(bool join) {
    if (join) StartJoin();
    std::string why;
    while (why.empty()) why = Handle(events_.Wait());
    LOG(INFO) << server_.task().ToString() << " ends: " << why;
    stopping_ = true;
    server_.Stop();
    drain_.reset();
    join_.reset();
    return joined_;
  }

 private:
  // Why the server ends, or "" if it serves on.
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
        if (const absl::Status told = AnnounceDone(server_.target()); !told.ok()) LOG(WARNING) << told.message();
        Say("Announced");
        return "";
      case Events::Event::kToldToLeave:
        StartDrain();
        return "";
      case Events::Event::kCut:
        return "its program has ended";
    }
    return "";
  }

  // Running steps finish first. A second signal ends the server at once.
  std::string HandleSignal() {
    if (events_.has_lifeline()) return "";  // the program decides
    if (drain_ != nullptr) _exit(128 + events_.signal());
    LOG(INFO) << server_.task().ToString() << " leaves: " << strsignal(events_.signal());
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
      if (stopping_) return;  // which ends the wait, too
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
  absl::Status joined_;  // written by join_
  std::unique_ptr<Thread> join_, drain_;
};

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
  const int lifeline = absl::GetFlag(FLAGS_lifeline);
  if (lifeline >= 0) sigaddset(&signals, SIGHUP);
  signal(SIGPIPE, SIG_IGN);  // the reader of the standard output may be gone
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  absl::StatusOr<std::unique_ptr<Server>> server = StartServer();
  if (!server.ok()) {
    out << "Server failed: " << absl::StatusCodeToString(server.status().code()) << ": " << server.status().message()
        << std::endl;
    return server.status();
  }
  out << "Started server with target: " << (*server)->target() << std::endl;
  Events events(signals, lifeline);
  return Serving(**server, events, out).Run(/*join=*/lifeline < 0 && !absl::GetFlag(FLAGS_forever));
}

}  // namespace

Command ServerCommand() {
  return {.name = "server",
          .summary = "Serves one task of a cluster to TensorFlow's clients and servers, and ours.",
          .usage = "--cluster C --job_name J --task_index I | --server_def FILE",
          .flags = {"cluster", "job_name", "task_index", "server_def", "cpus", "bind", "forever", "orphan_after",
                    "orphan_checkpoint", "idle_after", "peer_timeout", "client_lease", "master_lease", "local_links",
                    "lifeline", "keep_tensorflow_semantics"},
          .run = Run};
}

}  // namespace thalweg::cli
