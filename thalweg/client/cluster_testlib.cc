// SPDX-License-Identifier: Apache-2.0
#include "thalweg/client/cluster_testlib.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/free_ports.h"
#include "thalweg/base/logging.h"

namespace thalweg {
namespace {

// The program beside the one that runs.
std::string ProgramPath() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  CHECK(!error) << error.message();
  return (self.parent_path() / "thalweg").string();
}

// `thalweg server` for a task, in a process that ends with this one. Returns
// when it listens.
pid_t StartProcess(const ClusterSpec& spec, const TaskId& task, const ServerOptions& options,
                   const std::string& faults) {
  std::vector<std::string> jobs;
  for (const std::string& job : spec.jobs()) {
    std::vector<std::string> tasks;
    for (const TaskId& t : spec.tasks()) {
      if (t.job == job) tasks.push_back(absl::StrCat(t.index, "=", *spec.Address(t)));
    }
    jobs.push_back(absl::StrCat(job, "|", absl::StrJoin(tasks, ";")));
  }
  const std::string program = ProgramPath();
  const std::string cluster = absl::StrCat("--cluster=", absl::StrJoin(jobs, ","));
  const std::string job = absl::StrCat("--job_name=", task.job);
  const std::string index = absl::StrCat("--task_index=", task.index);
  const std::string timeout = absl::StrCat("--peer_timeout=", absl::FormatDuration(options.peer_timeout));
  const char* links = options.local_links ? "--local_links" : "--nolocal_links";
  const char* collective_links = options.collective_links ? "--collective_links" : "--nocollective_links";
  const char* tcp = options.tcp_links ? "--tcp_links" : "--notcp_links";
  const std::string inject = absl::StrCat("--faults=", faults);
  const std::string level = absl::StrCat("--minloglevel=", static_cast<int>(MinLogLevel()));
  std::vector<const char*> args{program.c_str(),  "server",        cluster.c_str(), job.c_str(),
                                index.c_str(),    timeout.c_str(), links,           tcp,
                                collective_links, inject.c_str(),  level.c_str(),   nullptr};

  int output[2];
  CHECK(pipe2(output, O_CLOEXEC) == 0);
  const pid_t parent = getpid();
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {  // only what is safe between fork and exec
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(output[1], STDOUT_FILENO);
    execv(program.c_str(), const_cast<char**>(args.data()));
    _exit(127);
  }
  close(output[1]);
  std::string said;
  char c = 0;
  while (said.find("Started server") == std::string::npos) {
    CHECK(read(output[0], &c, 1) == 1) << program << " ended before it listened; it said: " << said;
    said.push_back(c);
  }
  close(output[0]);
  return child;
}

}  // namespace

TestCluster::TestCluster(const std::map<std::string, int>& jobs, const std::vector<TaskId>& later, TasksIn tasks_in,
                         const ServerOptions& options, int tasks_per_host)
    : tasks_in_(tasks_in), tasks_per_host_(tasks_per_host), options_(options) {
  CHECK(tasks_per_host == 0 || tasks_in == TasksIn::kThisProcess);
  if (tasks_in_ == TasksIn::kProcessesOverGrpc) options_.local_links = options_.tcp_links = false;
  if (tasks_in_ == TasksIn::kProcessesOverTcp) {
    options_.local_links = false;
    options_.tcp_links = true;
  }
  int tasks = 0;
  for (const auto& [job, count] : jobs) tasks += count;
  absl::StatusOr<std::vector<int>> free_ports = FreePorts(tasks);
  CHECK(free_ports.ok()) << free_ports.status();
  std::vector<int>& ports = *free_ports;
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i) {
      const absl::Status status = spec_.AddTask({job, i}, absl::StrCat("localhost:", ports.back()));
      CHECK(status.ok()) << status;
      ports.pop_back();
    }
  }
  for (const TaskId& task : spec_.tasks()) {
    if (std::find(later.begin(), later.end(), task) == later.end()) Start(task);
  }
}

TestCluster::~TestCluster() {
  while (!processes_.empty()) Stop(processes_.begin()->first);
}

void TestCluster::Start(const TaskId& task, const std::string& faults) {
  if (tasks_in_ == TasksIn::kThisProcess) {
    ServerOptions options = options_;
    if (tasks_per_host_ > 0) {
      options.collective_host = absl::StrCat("host ", task.index / tasks_per_host_, " of process ", getpid());
    }
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(spec_, task, options);
    CHECK(server.ok()) << server.status();
    servers_[task] = *std::move(server);
  } else {
    processes_[task] = StartProcess(spec_, task, options_, faults);
  }
}

void TestCluster::Stop(const TaskId& task) {
  servers_.erase(task);
  if (const auto it = processes_.find(task); it != processes_.end()) {
    kill(it->second, SIGKILL);
    waitpid(it->second, nullptr, 0);
    processes_.erase(it);
  }
}

void TestCluster::Signal(const TaskId& task, int signal) {
  const pid_t process = processes_.at(task);
  CHECK(kill(process, signal) == 0);
  // It takes effect when the process is scheduled: it might still answer.
  if (signal == SIGSTOP) CHECK(waitpid(process, nullptr, WUNTRACED) == process);
}

bool TestCluster::Runs(const TaskId& task) {
  const auto it = processes_.find(task);
  if (it == processes_.end()) return false;
  if (waitpid(it->second, nullptr, WNOHANG) != it->second) return true;
  processes_.erase(it);
  return false;
}

std::string TestCluster::target(const TaskId& task) const { return absl::StrCat("grpc://", *spec_.Address(task)); }

}  // namespace thalweg
