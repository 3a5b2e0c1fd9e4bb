// SPDX-License-Identifier: Apache-2.0
// Jobs of real processes: small shell scripts stand for the programs.
#include "thalweg/launch/host_launcher.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/launch/job.h"

namespace thalweg {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class HostLauncherTest : public FolderTest {
 protected:
  // Runs a script for every task; its $1 and $2 are job and index.
  absl::StatusOr<int> Run(const std::string& script, HostJobOptions options = {}) {
    options.command = {"bash", "-c", script, "task", "{job_name}", "{task_index}", "{ps_hosts}", "{worker_hosts}"};
    return RunCommand(std::move(options));
  }
  absl::StatusOr<int> RunCommand(HostJobOptions options) {
    std::ostringstream out, err;
    options.out = &out;
    options.err = &err;
    absl::StatusOr<int> code = RunHostJob(options);
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  std::string out_, err_;
};

TEST_F(HostLauncherTest, EveryTaskLearnsWhoItIs) {
  const auto code = Run("echo \"$1 $2 $3 $4 $TF_CONFIG\"", {.ps = 1, .workers = 2});
  ASSERT_THAT(code, IsOk());
  EXPECT_EQ(*code, 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("ps 0     | ps 0 localhost:"), HasSubstr("worker 0 | worker 0 localhost:"),
                          HasSubstr("worker 1 | worker 1 localhost:")));
  // The launcher understands its options.
  const size_t at = out_.find("{", out_.find("worker 1 |"));
  const auto job = Job::From({}, {{"TF_CONFIG", out_.substr(at, out_.find('\n', at) - at)}});
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->task, (TaskId{"worker", 1}));
  EXPECT_EQ(job->cluster.num_tasks("ps"), 1);
  EXPECT_THAT(out_, HasSubstr(absl::StrCat("worker 1 | worker 1 ", *job->cluster.Address({"ps", 0}), " ",
                                           *job->cluster.Address({"worker", 0}), ",")));
}

TEST_F(HostLauncherTest, OutputComesInLines) {
  EXPECT_THAT(*Run("printf 'a\\r\\n'; echo b >&2; printf c", {.ps = 0}), 0);
  EXPECT_EQ(out_, "worker 0 | a\nworker 0 | c\n");
  EXPECT_EQ(err_, "worker 0 | b\n");
}

TEST_F(HostLauncherTest, ParameterServersEndWithTheWorkers) {
  EXPECT_EQ(*Run("[ $1 = worker ] || exec sleep 100", {.ps_grace = absl::Milliseconds(50)}), 0);
  EXPECT_THAT(err_, HasSubstr("ps 0 still runs although the workers have exited: sending SIGTERM"));
  // The worker ends once nothing but SIGKILL ends the other.
  EXPECT_EQ(*Run(absl::StrCat("if [ $1 = worker ]; then until [ -e ", Path("deaf"), " ]; do sleep 0.01; done; else ",
                              "trap '' TERM; touch ", Path("deaf"), "; while :; do sleep 0.1; done; fi"),
                 {.ps_grace = absl::Milliseconds(50), .kill_after = absl::Milliseconds(50)}),
            0);
  EXPECT_THAT(err_, HasSubstr("ps 0 does not exit: sending SIGKILL"));
}

TEST_F(HostLauncherTest, TheCodeIsThatOfTheFirstThatFailed) {
  // The others are ready to be told to end: a shell that is about to become
  // another program may lose a signal.
  const std::string ready = Path("ready_");
  const std::string waits = absl::StrCat("trap 'exit 0' TERM; touch ", ready, "$1$2; while :; do sleep 0.02; done");
  const auto fails_after = [&](const std::string& others, const std::string& how) {
    return absl::StrCat("until [ -e ", ready, others, " ]; do sleep 0.01; done; ", how);
  };
  EXPECT_EQ(*Run(absl::StrCat("if [ $1$2 = worker1 ]; then ", fails_after("ps0", fails_after("worker0", "exit 7")),
                              "; fi; ", waits),
                 {.workers = 2}),
            7);
  EXPECT_EQ(err_, "run      | worker 1 ended with code 7; the job ends\n");
  ASSERT_EQ(unlink((ready + "worker0").c_str()), 0);
  EXPECT_EQ(*Run(absl::StrCat("if [ $1 = ps ]; then ", fails_after("worker0", "kill -KILL $$"), "; fi; ", waits)), 137);
  EXPECT_EQ(err_, "run      | ps 0 was ended by signal 9 (Killed); the job ends\n");
}

TEST_F(HostLauncherTest, WhatIsWorthATryIsStartedAgain) {
  const std::string count = Path("count");
  const std::string script =
      absl::StrCat("echo x >> ", count, "; [ $(wc -l < ", count, ") -ge 3 ] || exit 142; echo done");
  EXPECT_EQ(*Run(script, {.ps = 0, .max_restarts = 5}), 0);
  EXPECT_THAT(err_, AllOf(HasSubstr("worker 0 ended with code 142; restarting it (1 of 5)"),
                          HasSubstr("restarting it (2 of 5)"), Not(HasSubstr("(3 of 5)"))));
  EXPECT_EQ(out_, "worker 0 | done\n");
  EXPECT_EQ(*Run("kill -SEGV $$", {.ps = 0, .max_restarts = 1}), 139);
  EXPECT_THAT(err_, HasSubstr("(Segmentation fault), after 1 restarts; the job ends"));
  EXPECT_EQ(*Run("exit 1", {.ps = 0, .max_restarts = 2}), 1);
  EXPECT_THAT(err_, AllOf(HasSubstr("ended with code 1; restarting it (2 of 2)"),
                          HasSubstr("ended with code 1, after 2 restarts; the job ends")));
  EXPECT_EQ(*Run("exit 3", {.ps = 0, .max_restarts = 1}), 3);
  EXPECT_THAT(err_, HasSubstr("ended with code 3, which a restart would not change; the job ends"));
}

// It was killed after it had announced its end.
TEST_F(HostLauncherTest, AWorkerIsNotStartedAgainForServersThatHaveLeft) {
  const std::string go = Path("go"), gone = Path("gone");
  EXPECT_EQ(*Run(absl::StrCat("if [ $1 = ps ]; then until [ -e ", go, " ]; do sleep 0.01; done; touch ", gone,
                              "; else touch ", go, "; until [ -e ", gone, " ]; do sleep 0.01; done; kill -KILL $$; fi"),
                 {.max_restarts = 100}),
            137);
  EXPECT_THAT(err_, AllOf(HasSubstr("restarting it (2 of 100)"), Not(HasSubstr("(3 of 100)")),
                          HasSubstr("worker 0 is not started again: the parameter servers have left")));
}

TEST_F(HostLauncherTest, OnATerminalStepsAreInTheTable) {
  EXPECT_EQ(*Run("echo hello; echo step 3/9 loss 0.5; echo step 9/9 loss 0.25", {.ps = 0, .terminal = true}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("worker 0 | hello\n"), Not(HasSubstr("| step")), HasSubstr("step 9/9"),
                          HasSubstr("loss 0.25"), HasSubstr("done")));
}

// A signal that is meant for the process goes to any thread that does not block it.
TEST_F(HostLauncherTest, InAProcessWithOtherThreads) {
  Notification over;
  const Thread other("other", [&] { over.WaitForNotification(); });
  EXPECT_EQ(*Run("exec >&- 2>&-; sleep 0.05", {.workers = 2}), 0);
  over.Notify();
}

TEST_F(HostLauncherTest, WhatCannotBeStartedIsSaid) {
  EXPECT_THAT(RunCommand({.command = {"/nowhere/program"}}),
              Fails(absl::StatusCode::kNotFound, "There is no program '/nowhere/program'"));
  EXPECT_THAT(RunCommand({.command = {"no_such_program"}}),
              Fails(absl::StatusCode::kNotFound, "There is no program 'no_such_program' in PATH"));
  EXPECT_THAT(RunCommand({.command = {"/etc/passwd"}}),
              Fails(absl::StatusCode::kPermissionDenied, "'/etc/passwd' is not executable"));
  std::ofstream(Path("broken")) << "not a program";
  ASSERT_EQ(chmod(Path("broken").c_str(), 0700), 0);
  EXPECT_THAT(RunCommand({.command = {Path("broken")}}),
              Fails(absl::StatusCode::kPermissionDenied, "Exec format error"));
  EXPECT_THAT(RunCommand({}), Fails(absl::StatusCode::kInvalidArgument, "Expected a program"));
  EXPECT_THAT(RunCommand({.workers = 0, .command = {"true"}}), Fails(absl::StatusCode::kInvalidArgument, "--workers"));
  // Ports that are taken.
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(s, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(s, 1), 0);
  ASSERT_EQ(getsockname(s, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const int port = ntohs(address.sin_port);
  EXPECT_THAT(
      RunCommand({.command = {"true"}, .base_port = port}),
      Fails(absl::StatusCode::kUnavailable, absl::StrCat("Port ", port, " is not available: Address already in use")));
  close(s);
}

// The launcher in a process of its own, which can be given signals.
class SignalledLauncherTest : public HostLauncherTest {
 protected:
  void Start(const std::string& script) {
    ASSERT_EQ(pipe(fds_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      std::ostringstream ignored;
      const std::string told = absl::StrCat("/proc/self/fd/", fds_[1]);
      HostJobOptions options{.command = {"bash", "-c", script, "task", "{job_name}", told}};
      options.out = options.err = &ignored;
      const auto code = RunHostJob(options);
      _exit(code.ok() ? *code : 99);
    }
    close(fds_[1]);
  }
  ~SignalledLauncherTest() override { close(fds_[0]); }
  // The output of the tasks until all have ended or there are `n` bytes.
  std::string Read(size_t n) {
    std::string text;
    char c = 0;
    while (text.size() < n && read(fds_[0], &c, 1) == 1) text.push_back(c);
    return text;
  }
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  int fds_[2] = {-1, -1};
  pid_t pid_ = -1;
};

// To the workers; parameter servers, which they may need, come after them.
TEST_F(SignalledLauncherTest, SignalsArePassedOn) {
  Start("trap 'printf ${1:0:1} >&9; exit 0' INT TERM; exec 9>$2; printf r >&9; while :; do sleep 0.02; done");
  EXPECT_EQ(Read(2), "rr");
  kill(pid_, SIGINT);
  EXPECT_EQ(Read(100), "wp");
  EXPECT_EQ(Wait(), 128 + SIGINT);
}

TEST_F(SignalledLauncherTest, TheSecondKills) {
  Start("trap 'printf t >&9' TERM; exec 9>$2; printf r >&9; while :; do sleep 0.02; done");
  EXPECT_EQ(Read(2), "rr");
  kill(pid_, SIGTERM);
  EXPECT_EQ(Read(1), "t");
  kill(pid_, SIGINT);
  EXPECT_EQ(Wait(), 128 + SIGTERM);
}

TEST_F(SignalledLauncherTest, TasksDieWithTheLauncher) {
  Start("exec 9>$2; printf r >&9; exec sleep 100");
  EXPECT_EQ(Read(2), "rr");
  kill(pid_, SIGKILL);
  EXPECT_EQ(Read(100), "");  // the pipe is closed when the last of them is gone
  EXPECT_EQ(Wait(), -SIGKILL);
}

FaultPlan Faults(const std::string& text) {
  absl::StatusOr<FaultPlan> plan = FaultPlan::Parse(text);
  CHECK(plan.ok()) << plan.status();
  return *std::move(plan);
}

TEST_F(HostLauncherTest, AFaultKillsATaskOnce) {
  const std::string script = "echo \"run of $1 $2\"; if [ $1 = ps ]; then sleep 1; else sleep 1; fi";
  const auto code =
      Run(script, {.ps = 0, .workers = 2, .max_restarts = 3, .faults = Faults("seed=1,kill=worker:1@200ms")});
  ASSERT_THAT(code, IsOk());
  EXPECT_EQ(*code, 0) << err_;
  EXPECT_THAT(err_, AllOf(HasSubstr("faults: seed=1,kill=worker:1@200ms"), HasSubstr("worker 1 was ended by signal 9"),
                          HasSubstr("(1 of 3)"), Not(HasSubstr("(2 of 3)"))));
}

TEST_F(HostLauncherTest, AFaultStopsATaskForAWhile) {
  // Says how long its longest pause was, in tenths of a second.
  const std::string script =
      "most=0; last=$(date +%s%N); for i in $(seq 20); do sleep 0.05; now=$(date +%s%N); "
      "gap=$(( (now - last) / 100000000 )); last=$now; [ $gap -gt $most ] && most=$gap; done; "
      "[ $most -ge 8 ] && echo \"$2 was stopped\"; exit 0";
  const auto code = Run(script, {.ps = 0, .workers = 2, .faults = Faults("stop=worker:1@200ms+1s")});
  ASSERT_THAT(code, IsOk());
  EXPECT_EQ(*code, 0) << err_;
  EXPECT_THAT(out_, HasSubstr("1 was stopped"));
  EXPECT_THAT(err_, HasSubstr("end of injected fault: stop=worker:1@200ms+1s"));
}

TEST_F(HostLauncherTest, TasksAreToldOfTheirOwnFaultsOnce) {
  const std::string script = "echo \"$1 $2 has <$THALWEG_FAULTS>\"; if [ $2 = 1 ] && mkdir once; then exit 130; fi";
  const auto code = Run(absl::StrCat("cd ", Path(""), "; ", script),
                        {.ps = 1,
                         .workers = 2,
                         .max_restarts = 1,
                         .faults = Faults("seed=4,fail=worker:1@restore,disk=ps:0:full@1h,kill=ps:0@2h")});
  ASSERT_THAT(code, IsOk());
  EXPECT_EQ(*code, 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("worker 0 has <>"), HasSubstr("worker 1 has <seed=4,fail=worker:1@restore:1>"),
                          HasSubstr("worker 1 has <>"), HasSubstr("ps 0 has <seed=4,disk=ps:0:full@")));
  EXPECT_THAT(out_, Not(HasSubstr("kill=")));
}

TEST_F(HostLauncherTest, AFaultSetsTheClockOfTheTasks) {
  const std::string script = "before=$(date +%s); sleep 0.6; after=$(date +%s); echo \"jumped $(( after - before ))\"";
  const auto code = Run(script, {.ps = 0, .workers = 1, .faults = Faults("clock=+1000s@300ms")});
  ASSERT_THAT(code, IsOk());
  EXPECT_EQ(*code, 0) << err_;
  EXPECT_THAT(out_, testing::ContainsRegex("jumped 100[01]"));
}

TEST_F(HostLauncherTest, AFaultOfATaskThatThereIsNot) {
  EXPECT_THAT(Run("true", {.ps = 0, .workers = 1, .faults = Faults("kill=ps:0@1s")}),
              Fails(absl::StatusCode::kInvalidArgument, "the job has no task ps:0"));
}

}  // namespace
}  // namespace thalweg
