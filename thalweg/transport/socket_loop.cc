// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/socket_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr uint64_t kPosted = 0;  // the id of the counter of what was posted

}  // namespace

SocketLoop::SocketLoop(std::string name, int max_threads)
    : name_(std::move(name)),
      max_threads_(max_threads),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      posted_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
  CHECK(epoll_.valid() && posted_fd_.valid()) << "no more file descriptors";
  epoll_event posted{.events = EPOLLIN, .data = {.u64 = kPosted}};
  CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, posted_fd_.get(), &posted) == 0);
  MutexLock lock(&mutex_);
  AddThread();
  CHECK(threads_ == 1) << "no more threads";
}

SocketLoop::~SocketLoop() {
  absl::flat_hash_map<uint64_t, std::shared_ptr<Source>> sources;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    sources.swap(sources_);
  }
  sources.clear();
  // Each thread that ends wakes the next.
  const uint64_t one = 1;
  (void)!write(posted_fd_.get(), &one, sizeof(one));
  MutexLock lock(&mutex_);
  while (threads_ > 0) changed_.Wait(&mutex_);
}

absl::StatusOr<uint64_t> SocketLoop::Add(int fd, std::shared_ptr<Source> source) {
  uint64_t id = 0;
  {
    MutexLock lock(&mutex_);
    id = next_id_++;
    sources_.emplace(id, std::move(source));
  }
  epoll_event event{.events = EPOLLONESHOT, .data = {.u64 = id}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int error = errno;
    Remove(id, fd);
    return ResourceExhausted("Cannot wait for another socket: ", std::strerror(error));
  }
  return id;
}

void SocketLoop::Wait(uint64_t source, int fd, bool write, bool read) {
  epoll_event event{.events = EPOLLONESHOT | EPOLLRDHUP | (read ? EPOLLIN : 0u) | (write ? EPOLLOUT : 0u),
                    .data = {.u64 = source}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);  // fails if it was removed meanwhile
}

void SocketLoop::Remove(uint64_t source, int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  std::shared_ptr<Source> removed;
  MutexLock lock(&mutex_);
  const auto it = sources_.find(source);
  if (it == sources_.end()) return;
  removed = std::move(it->second);
  sources_.erase(it);
}

void SocketLoop::Post(absl::AnyInvocable<void()> work) {
  {
    MutexLock lock(&mutex_);
    posted_.push_back(std::move(work));
  }
  const uint64_t one = 1;
  (void)!write(posted_fd_.get(), &one, sizeof(one));
}

void SocketLoop::AddThread() {
  const absl::Status status = CatchExceptions([this] {
    std::thread([this] {
      pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
      Run();
    }).detach();
  });
  if (!status.ok()) {
    LOG(ERROR) << name_ << " serves one message after the other: " << status.message();
    return;
  }
  ++threads_;
  ++idle_;
}

// What was posted first; an empty one if another thread has taken it.
absl::AnyInvocable<void()> SocketLoop::TakePosted() {
  uint64_t one = 0;
  (void)!read(posted_fd_.get(), &one, sizeof(one));
  MutexLock lock(&mutex_);
  if (posted_.empty()) return nullptr;
  absl::AnyInvocable<void()> work = std::move(posted_.front());
  posted_.pop_front();
  return work;
}

// One event: false if this thread is to end.
bool SocketLoop::RunOne() {
  epoll_event event{};
  const int n = epoll_wait(epoll_.get(), &event, 1, -1);
  std::shared_ptr<Source> source;
  {
    MutexLock lock(&mutex_);
    if (closed_ && posted_.empty()) {
      --idle_;
      return false;
    }
    if (n <= 0) return true;  // interrupted
    if (event.data.u64 != kPosted) {
      const auto it = sources_.find(event.data.u64);
      if (it == sources_.end()) return true;
      source = it->second;
    }
    // Somebody must wait while this one works.
    if (--idle_ == 0 && (threads_ < max_threads_ || closed_)) AddThread();
  }
  LogExceptions("a link", [&] {
    if (source != nullptr) {
      source->Ready();
    } else if (absl::AnyInvocable<void()> work = TakePosted(); work) {
      work();
    }
  });
  source.reset();
  MutexLock lock(&mutex_);
  if (idle_ >= kMaxIdle) return false;
  ++idle_;
  return true;
}

void SocketLoop::Run() {
  while (RunOne()) {
  }
  const uint64_t one = 1;
  MutexLock lock(&mutex_);
  if (closed_) (void)!write(posted_fd_.get(), &one, sizeof(one));
  if (--threads_ == 0) changed_.SignalAll();
}

}  // namespace thalweg
