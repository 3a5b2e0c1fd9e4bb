// SPDX-License-Identifier: Apache-2.0
// Threads that wait for sockets and do what comes, in place.
//
// They all wait for the same set of sockets, so that an event wakes one of them
// and no thread has to wake another before it works.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

// Thread-safe.
class SocketLoop {
 public:
  // The handler of one socket.
  class Source {
   public:
    virtual ~Source() = default;
    // Called when the socket can be read, can be written (if Wait() asked for that) or is closed. The
    // loop does not wait for the socket again until the next Wait().
    virtual void Ready() = 0;
  };

  // Work that blocks occupies a thread each, `max_threads` at most. Further work waits until one of them is free.
  explicit SocketLoop(std::string name, int max_threads = 1024);
  ~SocketLoop();  // waits for calls of Ready() and posted work to end, then releases the sources

  // Registers a socket; Wait() starts to watch it. RESOURCE_EXHAUSTED if epoll takes no more sockets.
  absl::StatusOr<uint64_t> Add(int fd, std::shared_ptr<Source> source);
  // Calls Ready() the next time that the socket of the source can be read, or written.
  // With `read` false, only if it can be written or is closed.
  void Wait(uint64_t source, int fd, bool write, bool read = true);
  // REQUIRES: the socket is still open.
  void Remove(uint64_t source, int fd);
  // Runs on one of the threads.
  void Post(absl::AnyInvocable<void()> work);

 private:
  // Does nothing if the system has no more threads: the existing ones go on.
  void AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  bool RunOne();
  absl::AnyInvocable<void()> TakePosted();

  // More than these end.
  static constexpr int kMaxIdle = 16;
  const std::string name_;
  const int max_threads_;
  const FileHandle epoll_;
  const FileHandle posted_fd_;  // counts what is in posted_
  Mutex mutex_;
  CondVar changed_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Source>> sources_ ABSL_GUARDED_BY(mutex_);
  std::deque<absl::AnyInvocable<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace thalweg
