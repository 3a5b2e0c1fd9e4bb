// SPDX-License-Identifier: Apache-2.0
// A link between two processes of this machine.
//
// A message is one packet of a Unix socket. What is more than a few kilobytes lies
// in memory that both processes see: the sender copies it there, and the receiver
// reads it in place. Only processes of the same user are linked.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "thalweg/base/mutex.h"
#include "thalweg/transport/link.h"
#include "thalweg/transport/shared_memory.h"
#include "thalweg/transport/socket_loop.h"

namespace thalweg {

// Thread-safe.
class SameHostLink : public Link, public SocketLoop::Source, public std::enable_shared_from_this<SameHostLink> {
 public:
  // The loop must live until the link is closed or lost.
  static absl::StatusOr<std::shared_ptr<SameHostLink>> Create(SocketLoop* loop, FileHandle socket, Handlers handlers);
  ~SameHostLink() override = default;

  absl::Status Start(Side side) override;
  bool greeted() const override { return greeted_.load(std::memory_order_acquire); }
  absl::Status Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces,
                    std::shared_ptr<const void> holder) override;
  using Link::Send;
  void Break() override;
  void Close() override;

  void Ready() override;

 private:
  struct Header;
  struct Packet {
    std::string bytes;
    FileHandle file;
    uint64_t body_bytes = 0;  // in `file`
  };

  struct Received {
    LinkMessage message;
    HeldBytes body;
  };

  SameHostLink(SocketLoop* loop, FileHandle socket, Handlers handlers, std::shared_ptr<SharedMemory> memory);
  absl::Status Greet();
  absl::Status Place(absl::Span<const absl::string_view> pieces, Header* header, Packet* packet);
  // True if it was sent, false if the socket is full.
  absl::StatusOr<bool> Write(const Packet& packet, int file);
  bool HasRoom(const Packet& packet) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // nullopt if there is none now.
  absl::StatusOr<std::optional<Received>> Read();
  absl::StatusOr<Received> Parse(absl::string_view packet, FileHandle file);
  bool Detach();

  SocketLoop* const loop_;
  const FileHandle socket_;
  BlockArena outgoing_;
  uint64_t id_ = 0;  // in the loop
  std::atomic<bool> greeted_{false};

  // Only the thread that receives.
  std::shared_ptr<SharedMemory> incoming_;
  bool has_greeted_ = false;

  Mutex mutex_;
  bool receiving_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Packet> unsent_ ABSL_GUARDED_BY(mutex_);
  uint64_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // in the files of those
  int unsent_files_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Handlers> handlers_ ABSL_GUARDED_BY(mutex_);
};

// The address of a server: a name that goes with the process. `host` is the address of
// this machine at which its port is; empty if the port is at all of them.
// UNAVAILABLE if no process of this user listens there.
absl::StatusOr<FileHandle> ConnectLocally(int port, absl::string_view host = "");
absl::StatusOr<FileHandle> ListenLocally(int port, absl::string_view host = "");
// Accepts links on what ListenLocally() returned.
std::unique_ptr<LinkListener> MakeSameHostListener(FileHandle socket);
// nullopt if no connection waits, or one of another user. RESOURCE_EXHAUSTED if the process has no
// file descriptor left for the connection.
absl::StatusOr<std::optional<FileHandle>> AcceptLocally(int listener);

}  // namespace thalweg
