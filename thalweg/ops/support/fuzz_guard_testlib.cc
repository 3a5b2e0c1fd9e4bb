// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/fuzz_guard_testlib.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

namespace thalweg {
namespace {

constexpr int kSeconds = 20;  // CPU time limit of one case

void ShowCase(int signal) {
  const char* const what = signal == SIGPROF ? "hangs in " : "died in ";
  (void)!write(STDERR_FILENO, what, strlen(what));
  (void)!write(STDERR_FILENO, FuzzCase().data(), FuzzCase().size());
  (void)!write(STDERR_FILENO, "\n", 1);
  ::signal(signal, SIG_DFL);
  raise(signal == SIGPROF ? SIGABRT : signal);
}

}  // namespace

std::string& FuzzCase() {
  static std::string* const text = new std::string;
  return *text;
}

FuzzGuard::FuzzGuard(int64_t memory) {
  const stack_t stack = {.ss_sp = stack_, .ss_flags = 0, .ss_size = sizeof(stack_)};  // the other may be full
  sigaltstack(&stack, nullptr);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action = {};
    action.sa_handler = ShowCase;
    action.sa_flags = SA_ONSTACK;
    sigaction(kSignals[i], &action, &before_[i]);
  }
  getrlimit(RLIMIT_AS, &limit_);
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  rlimit limit = limit_;
#ifndef __SANITIZE_ADDRESS__  // which reserves terabytes
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, pages * sysconf(_SC_PAGESIZE) + memory);
#endif
  setrlimit(RLIMIT_AS, &limit);
}

FuzzGuard::~FuzzGuard() {
  const itimerval none = {};
  setitimer(ITIMER_PROF, &none, nullptr);
  setrlimit(RLIMIT_AS, &limit_);
  const stack_t none_such = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  sigaltstack(&none_such, nullptr);
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

void FuzzGuard::StartCase() {
  const itimerval time = {.it_interval = {}, .it_value = {.tv_sec = kSeconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &time, nullptr);
}

void FuzzWatch::Run() {
  MutexLock lock(&mutex_);
  while (!ended_) {
    changed_.WaitWithDeadline(&mutex_, absl::Now() + absl::Milliseconds(500));
    if (running_ == nullptr || absl::Now() < since_ + absl::Seconds(3)) continue;
    running_->Cancel(absl::DeadlineExceededError("the case takes long"));
    running_ = nullptr;
  }
}

}  // namespace thalweg
