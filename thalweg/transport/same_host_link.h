// SPDX-License-Identifier: Apache-2.0
// A link between two processes of this machine that carries calls.
//
// A message is one packet of a Unix socket. What is more than a few kilobytes lies
// in memory that both processes see: the sender copies it there, and the receiver
// reads it in place. Only processes of the same user are linked.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "thalweg/base/mutex.h"
#include "thalweg/transport/shared_memory.h"
#include "thalweg/transport/socket_loop.h"

namespace thalweg {

struct LinkMessage {
  enum Kind : uint32_t {
    kHello = 1,  // the first one of each side: brings its memory
    kCall,       // `text` is the method
    kReply,      // `code` and `text` are the status
    kCancel,     // of a call
  };
  Kind kind = kHello;
  uint32_t code = 0;
  uint64_t call = 0;  // chosen by the caller
  std::string text;
};

// Thread-safe.
class SameHostLink : public SocketLoop::Source, public std::enable_shared_from_this<SameHostLink> {
 public:
  using Work = absl::AnyInvocable<void()>;
  struct Handlers {
    // Called for one message after the other. The work that it returns runs
    // while the next ones are received.
    std::function<Work(LinkMessage message, HeldBytes body)> receive;
    // The other side has gone, or sent what is no message. Called once, but not
    // after Close().
    std::function<void(const absl::Status&)> lost;
  };

  // The loop must live until the link is closed or lost.
  static absl::StatusOr<std::shared_ptr<SameHostLink>> Create(SocketLoop* loop, FileHandle socket, Handlers handlers);
  ~SameHostLink() override = default;

  // Begins to receive. Nothing can be sent before. The side that has connected
  // greets; the other greets it back before it receives anything else.
  enum class Side { kConnected, kAccepted };
  absl::Status Start(Side side);

  // The other side has sent something. If a link that has connected is lost before
  // that, nothing of what it has sent was received.
  bool greeted() const { return greeted_.load(std::memory_order_acquire); }

  // The body is what `pieces` have together. UNAVAILABLE if the link is closed.
  // Does not wait: what the socket does not take now goes later. RESOURCE_EXHAUSTED
  // if too much waits already, or there is no memory for the body: the message was
  // not sent, and the link lives. Any other failure ends the link for both sides:
  // nobody waits for a message that was lost.
  absl::Status Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces = {});
  // Both sides find the link lost.
  void Break();
  void Close();

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
// UNAVAILABLE if nobody of this user listens there.
absl::StatusOr<FileHandle> ConnectLocally(int port, absl::string_view host = "");
absl::StatusOr<FileHandle> ListenLocally(int port, absl::string_view host = "");
// nullopt if nobody waits, or somebody who may not. RESOURCE_EXHAUSTED if there
// is no file descriptor for whoever waits.
absl::StatusOr<std::optional<FileHandle>> AcceptLocally(int listener);

}  // namespace thalweg
