// SPDX-License-Identifier: Apache-2.0
// A link between two processes of this machine.
//
// A message is one packet of a Unix socket. What is more than a few kilobytes lies
// in memory that both processes see, and the receiver keeps it there as long as it
// needs it. Bytes that the sender has in exported memory (base/exported_memory.h)
// stay where they are; it copies others to memory of the link. Only processes of
// the same user are linked.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
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
  ~SameHostLink() override;

  absl::Status Start(Side side) override;
  bool greeted() const override { return greeted_.load(std::memory_order_acquire); }
  absl::Status Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces,
                    std::shared_ptr<const void> holder) override;
  using Link::Send;
  absl::Status SendPieces(const LinkMessage& message, absl::Span<const HeldBytes> pieces) override;
  void Break() override;
  void Close() override;
  uint64_t unsent_bytes() const override;

  void Ready() override;

 private:
  class Outgoing;
  struct Header;
  struct Part;
  struct Packet {
    std::string bytes;
    FileHandle file;
    uint64_t body_bytes = 0;  // in `file`
    // In the sender's memory, for the receiver.
    absl::InlinedVector<uint64_t, 4> blocks;
    bool exports = false;  // names exported memory
  };
  struct Run;

  struct Received {
    LinkMessage message;
    LinkBody body;
  };

  SameHostLink(SocketLoop* loop, FileHandle socket, Handlers handlers, std::shared_ptr<SharedMemory> memory);
  absl::Status Greet();
  // Where the body goes. Adds the blocks and the file to the packet.
  absl::Status Place(std::vector<Run>& runs, std::vector<Part>* parts, Packet* packet);
  absl::Status PlaceInFile(const std::vector<Run>& runs, const std::vector<size_t>& which, std::vector<Part>* parts,
                           Packet* packet);
  absl::Status Queue(Packet packet) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SendExports() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if it was sent, false if the socket is full.
  absl::StatusOr<bool> Write(const Packet& packet, int file);
  bool HasRoom(const Packet& packet) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next message or greeting; nullopt if there is none now.
  absl::StatusOr<std::optional<Received>> Read();
  absl::StatusOr<Received> Parse(absl::string_view packet, FileHandle file);
  absl::Status ParseHello(const Header& header, FileHandle file);
  absl::StatusOr<LinkBody> ParseBody(absl::string_view parts, absl::string_view bytes, FileHandle file) const;
  bool Detach();

  SocketLoop* const loop_;
  const FileHandle socket_;
  const std::shared_ptr<Outgoing> outgoing_;
  uint64_t id_ = 0;  // in the loop
  std::atomic<bool> greeted_{false};

  // Only the thread that receives.
  std::shared_ptr<SharedMemory> incoming_;
  std::shared_ptr<const SharedMemory> incoming_exports_;
  bool has_greeted_ = false;

  mutable Mutex mutex_;
  bool receiving_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_sent_exports_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Packet> unsent_ ABSL_GUARDED_BY(mutex_);
  uint64_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // in the files of those
  int unsent_files_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Handlers> handlers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
