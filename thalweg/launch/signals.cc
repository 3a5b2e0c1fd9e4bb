// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"

namespace thalweg {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT};

// A process has one set of handlers, and a handler gets no argument: this is the
// process's, not ours to own. Where handlers write the signal to; 0 is free.
using Listeners = std::array<std::atomic<int>, 8>;
Listeners listeners;
Listeners dump_listeners;  // called on SIGUSR1
std::atomic<int> dump_installed{0};
std::atomic<int> received{0};
std::atomic<int> installed{0};

void Tell(const Listeners& all, char byte) {
  for (const std::atomic<int>& listener : all) {
    if (const int fd = listener.load(); fd > 0 && write(fd, &byte, 1) != 1) continue;
  }
}

void AddListener(Listeners& all, int fd) {
  for (std::atomic<int>& listener : all) {
    int free = 0;
    if (listener.compare_exchange_strong(free, fd)) return;
  }
  LOG(FATAL) << "too many listeners for signals";
}

void RemoveListener(Listeners& all, int fd) {
  for (std::atomic<int>& listener : all) {
    int own = fd;
    if (listener.compare_exchange_strong(own, 0)) return;
  }
}

void HandleDump(int signal) {
  const int saved = errno;
  Tell(dump_listeners, static_cast<char>(signal));
  errno = saved;
}

void InstallDump(bool on) {
  struct sigaction action {};
  action.sa_handler = on ? HandleDump : SIG_DFL;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR1, &action, nullptr);
}

void Handle(int signal) {
  const int saved = errno;
  if (received.fetch_add(1) > 0) {
    ::signal(signal, SIG_DFL);
    raise(signal);  // takes effect when this handler returns
  }
  Tell(listeners, static_cast<char>(signal));
  errno = saved;
}

void Install(bool on) {
  struct sigaction action {};
  action.sa_handler = on ? Handle : SIG_DFL;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

class StopOnSignalHook : public Hook {
 public:
  StopOnSignalHook() : on_signal_([this](int signal) { Stop(signal); }) {}
  void Attach(const std::shared_ptr<Interruption>& interruption) override {
    MutexLock lock(&mutex_);
    interruption_ = interruption;
    if (signal_ != 0) interruption_->Request(strsignal(signal_));
  }

 private:
  void Stop(int signal) {
    MutexLock lock(&mutex_);
    signal_ = signal;
    if (interruption_ != nullptr) interruption_->Request(strsignal(signal));
  }

  Mutex mutex_;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Interruption> interruption_ ABSL_GUARDED_BY(mutex_);
  OnSignal on_signal_;
};

}  // namespace

OnSignal::OnSignal(std::function<void(int)> then) {
  CHECK(pipe2(fds_, O_CLOEXEC) == 0) << strerror(errno);
  thread_ = std::make_unique<Thread>("signals", [fd = fds_[0], then = std::move(then)] {
    char signal = 0;
    if (read(fd, &signal, 1) != 1 || signal == 0) return;
    LOG(INFO) << "Stopping: received signal " << static_cast<int>(signal) << " (" << strsignal(signal) << ")";
    then(signal);
  });
  AddListener(listeners, fds_[1]);
  if (installed.fetch_add(1) == 0) Install(true);
}

OnSignal::~OnSignal() {
  if (installed.fetch_sub(1) == 1) {
    Install(false);
    received = 0;
  }
  RemoveListener(listeners, fds_[1]);
  const char end = 0;
  CHECK(write(fds_[1], &end, 1) == 1);
  thread_.reset();
  close(fds_[0]);
  close(fds_[1]);
}

OnDumpSignal::OnDumpSignal(std::function<void()> then) {
  CHECK(pipe2(fds_, O_CLOEXEC) == 0) << strerror(errno);
  thread_ = std::make_unique<Thread>("dump-signal", [fd = fds_[0], then = std::move(then)] {
    for (char signal = 0; read(fd, &signal, 1) == 1 && signal != 0;) then();
  });
  AddListener(dump_listeners, fds_[1]);
  if (dump_installed.fetch_add(1) == 0) InstallDump(true);
}

OnDumpSignal::~OnDumpSignal() {
  if (dump_installed.fetch_sub(1) == 1) InstallDump(false);
  RemoveListener(dump_listeners, fds_[1]);
  const char end = 0;
  CHECK(write(fds_[1], &end, 1) == 1);
  thread_.reset();
  close(fds_[0]);
  close(fds_[1]);
}

std::shared_ptr<Hook> StopOnSignal() { return std::make_shared<StopOnSignalHook>(); }

}  // namespace thalweg
