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
std::array<std::atomic<int>, 8> listeners;
std::atomic<int> received{0};
std::atomic<int> installed{0};

void Handle(int signal) {
  const int saved = errno;
  if (received.fetch_add(1) > 0) {
    ::signal(signal, SIG_DFL);
    raise(signal);  // takes effect when this handler returns
  }
  const char byte = static_cast<char>(signal);
  for (const std::atomic<int>& listener : listeners) {
    if (const int fd = listener.load(); fd > 0 && write(fd, &byte, 1) != 1) continue;
  }
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
  void Attach(std::shared_ptr<Interruption> interruption) override {
    MutexLock lock(&mutex_);
    interruption_ = std::move(interruption);
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
  bool found = false;
  for (std::atomic<int>& listener : listeners) {
    int free = 0;
    if ((found = listener.compare_exchange_strong(free, fds_[1]))) break;
  }
  CHECK(found) << "too many listeners for signals";
  if (installed.fetch_add(1) == 0) Install(true);
}

OnSignal::~OnSignal() {
  if (installed.fetch_sub(1) == 1) {
    Install(false);
    received = 0;
  }
  for (std::atomic<int>& listener : listeners) {
    int own = fds_[1];
    if (listener.compare_exchange_strong(own, 0)) break;
  }
  const char end = 0;
  CHECK(write(fds_[1], &end, 1) == 1);
  thread_.reset();
  close(fds_[0]);
  close(fds_[1]);
}

std::shared_ptr<Hook> StopOnSignal() { return std::make_shared<StopOnSignalHook>(); }

}  // namespace thalweg
