// SPDX-License-Identifier: Apache-2.0
// main() of the C++ test programs. If a test takes longer than --hang_after, it prints the stacks of all threads and
// ends the program: a hang that happens once in a thousand runs leaves evidence.
#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"

ABSL_FLAG(absl::Duration, hang_after, absl::Minutes(4),
          "how long one test may take before the stacks of all threads are printed and the program ends");

namespace {

const int kPrintStack = SIGRTMAX - 1, kTestHangs = SIGRTMAX - 2;

pid_t ThreadId() { return static_cast<pid_t>(syscall(SYS_gettid)); }

void PrintStack(int) {
  char head[64], name[16] = {};
  prctl(PR_GET_NAME, name);
  const int size = std::snprintf(head, sizeof(head), "\nThread %d %s\n", ThreadId(), name);
  if (write(STDERR_FILENO, head, size) < 0) return;
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
}

// Runs on any thread, as a signal handler.
void TestHangs(int) {
  PrintStack(0);
  DIR* const threads = opendir("/proc/self/task");
  while (const dirent* entry = threads != nullptr ? readdir(threads) : nullptr) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread == 0 || thread == ThreadId()) continue;
    syscall(SYS_tgkill, getpid(), thread, kPrintStack);
    usleep(50'000);  // the stacks of two threads shall not mix
  }
  _exit(1);
}

void SetHandler(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

// A timer and not a thread, because some tests fork.
class HangDetector : public testing::EmptyTestEventListener {
 public:
  HangDetector() {
    void* frame[1];
    backtrace(frame, 1);  // loads libgcc here, not in a signal handler
    SetHandler(kPrintStack, PrintStack);
    SetHandler(kTestHangs, TestHangs);
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = kTestHangs;
    timer_create(CLOCK_MONOTONIC, &event, &timer_);
  }

  void OnTestStart(const testing::TestInfo&) override { SetTimer(absl::GetFlag(FLAGS_hang_after)); }
  void OnTestEnd(const testing::TestInfo&) override { SetTimer(absl::ZeroDuration()); }

 private:
  void SetTimer(absl::Duration timeout) {  // zero: off
    const itimerspec time{.it_interval = {}, .it_value = absl::ToTimespec(timeout)};
    timer_settime(timer_, 0, &time, nullptr);
  }

  timer_t timer_ = {};
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new HangDetector);
  return RUN_ALL_TESTS();
}
