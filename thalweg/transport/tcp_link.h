// SPDX-License-Identifier: Apache-2.0
// A link over TCP, between tasks on different machines.
//
// Messages are framed as tcp_frame.h says. They are sent from the memory of the tensors and received
// into memory of the size that the header names, so a body is not copied in this process. No thread
// blocks: a full socket is waited for in the SocketLoop.
//
// Neither side can make the other one's memory grow: the sender refuses messages when too much waits
// to be sent, and the receiver of a server stops reading when its ReceiveBudget is used up.
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
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "thalweg/base/mutex.h"
#include "thalweg/transport/link.h"
#include "thalweg/transport/receive_budget.h"
#include "thalweg/transport/shared_memory.h"
#include "thalweg/transport/socket_loop.h"
#include "thalweg/transport/tcp_frame.h"

namespace thalweg {

struct TcpLinkOptions {
  std::string token;                      // that a client must present; only for accepted links
  std::shared_ptr<ReceiveBudget> budget;  // nullptr: messages are limited one by one only
  uint64_t max_unsent_bytes = uint64_t{1} << 30;
  // stalled(): a client must greet within `greeting`. Over more than `stall_timeout`, a message must come at 64 KB/s
  // at least.
  absl::Duration greeting = absl::Seconds(10);
  absl::Duration stall_timeout = absl::Seconds(60);
};

// Thread-safe.
class TcpLink : public Link, public SocketLoop::Source, public std::enable_shared_from_this<TcpLink> {
 public:
  // `socket` is what DialTcp() returned, or was accepted. The loop must live until the link is
  // closed or lost.
  static std::shared_ptr<TcpLink> Create(SocketLoop* loop, FileHandle socket, Handlers handlers,
                                         TcpLinkOptions options = {});
  ~TcpLink() override = default;

  absl::Status Start(Side side) override;
  bool greeted() const override { return greeted_.load(std::memory_order_acquire); }
  bool closed() const;
  absl::Status Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces,
                    std::shared_ptr<const void> holder) override;
  using Link::Send;
  void Break() override;
  void Close() override;
  bool stalled() const override;
  uint64_t unsent_bytes() const override;

  void Ready() override;

 private:
  struct Unsent {
    std::string head;  // header and text
    absl::InlinedVector<absl::string_view, 4> pieces;
    std::shared_ptr<const void> holder;  // keeps the pieces alive
    uint64_t bytes = 0;
  };
  // A message of which the header has come.
  struct Incoming {
    TcpHeader header;
    std::string text;
    char* body = nullptr;  // nullptr while it waits for memory
    std::shared_ptr<const void> holder;
    uint64_t filled = 0;
    ReceiveBudget::Lease lease;
  };
  struct Received {
    LinkMessage message;
    HeldBytes body;
  };

  TcpLink(SocketLoop* loop, FileHandle socket, Handlers handlers, TcpLinkOptions options);

  // The number of bytes of the first unsent messages that the socket took; 0 if it is full.
  absl::StatusOr<uint64_t> Write(absl::Span<const Unsent* const> messages, uint64_t skip);
  // Messages that were sent are moved to `sent`, which is destroyed without the lock.
  absl::Status Flush(std::vector<Unsent>* sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The next message; nullopt if it is not complete.
  absl::StatusOr<std::optional<Received>> Read();
  enum class Progress { kPartial, kComplete, kStarved };
  // Takes what the buffer has of the message.
  absl::StatusOr<Progress> Assemble();
  absl::Status CheckHeader(const TcpHeader& header) const;
  absl::StatusOr<bool> PrepareBody();
  absl::Status Greet(const Received& hello);
  void Granted(ReceiveBudget::Lease lease);
  bool HangsUp() const;
  bool Detach();

  SocketLoop* const loop_;
  const FileHandle socket_;
  const TcpLinkOptions options_;
  uint64_t id_ = 0;  // in the loop
  std::atomic<bool> greeted_{false};
  // For stalled(): when the link, or the message that is being received, began (0: none is), and what
  // has come of it.
  std::atomic<int64_t> begun_nanos_;
  std::atomic<uint64_t> got_bytes_{0};
  std::atomic<bool> leased_{false};  // the message has memory of the budget

  // Only the thread that receives.
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // what the buffer holds
  std::optional<Incoming> incoming_;

  mutable Mutex mutex_;
  bool receiving_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool starved_ ABSL_GUARDED_BY(mutex_) = false;                       // waits for memory, and does not read
  std::optional<ReceiveBudget::Lease> lease_ ABSL_GUARDED_BY(mutex_);  // was granted meanwhile
  uint64_t ticket_ ABSL_GUARDED_BY(mutex_) = 0;                        // of the last wait for memory
  std::deque<Unsent> unsent_ ABSL_GUARDED_BY(mutex_);
  uint64_t front_sent_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of the first unsent message
  uint64_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Handlers> handlers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
