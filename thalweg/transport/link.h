// SPDX-License-Identifier: Apache-2.0
// A link carries messages between two processes, in order, each exactly once, until it is lost.
//
// The calls of a client (rpc/link_channel.h) and the replies of a server (rpc/link_server.h) travel over
// links of any kind: shared memory (same_host_link.h) or TCP (tcp_link.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "thalweg/transport/shared_memory.h"
#include "thalweg/transport/socket_loop.h"

namespace thalweg {

struct LinkMessage {
  enum Kind : uint32_t {
    kHello = 1,  // the first message of each side; links send it themselves
    kCall,       // `text` is the method
    kReply,      // `code` and `text` are the status
    kCancel,     // cancels a call
  };
  Kind kind = kHello;
  uint32_t code = 0;
  uint64_t call = 0;  // chosen by the caller
  std::string text;
};

// The body of a message. Its bytes are those of the pieces, one after the other; each piece lives as long as
// its own holder.
struct LinkBody {
  LinkBody() = default;
  LinkBody(HeldBytes bytes) { pieces.push_back(std::move(bytes)); }  // NOLINT: links with one piece pass it on

  size_t size() const {
    size_t total = 0;
    for (const HeldBytes& piece : pieces) total += piece.size;
    return total;
  }
  std::string Join() const {
    std::string all;
    for (const HeldBytes& piece : pieces) all.append(piece.data, piece.size);
    return all;
  }

  absl::InlinedVector<HeldBytes, 2> pieces;
};

// Thread-safe.
class Link {
 public:
  using Work = absl::AnyInvocable<void()>;
  struct Handlers {
    // Called for one message after the other. The work that it returns runs while the next
    // messages are received.
    std::function<Work(LinkMessage message, LinkBody body)> receive;
    // The other side is gone, or sent something that is not a message. Called once, but not
    // after Close().
    std::function<void(const absl::Status&)> lost;
    // Everything that waited to be sent was sent. May be missing.
    std::function<void()> drained = nullptr;
  };
  enum class Side { kConnected, kAccepted };

  virtual ~Link() = default;

  // Begins to receive. Nothing can be sent before. The side that has connected sends a greeting;
  // the other side answers it before it receives anything else.
  virtual absl::Status Start(Side side) = 0;

  // The other side has sent something. If a link that has connected is lost before that, the other
  // side has received nothing.
  virtual bool greeted() const = 0;

  // Sends a message whose body is the concatenation of `pieces`. `holder` keeps the pieces alive
  // until they are sent. Does not block: if the socket is full, the message is sent later.
  // RESOURCE_EXHAUSTED if too much waits to be sent already, or there is no memory for the body:
  // the message is not sent, and the link lives. UNAVAILABLE if the link is closed. Any other
  // failure ends the link for both sides, so that nobody waits for a message that was lost.
  virtual absl::Status Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces,
                            std::shared_ptr<const void> holder) = 0;
  // The same. A link that shares memory lets go of each piece by itself, when the receiver has done so.
  virtual absl::Status SendPieces(const LinkMessage& message, absl::Span<const HeldBytes> pieces) {
    const auto holder = std::make_shared<const std::vector<HeldBytes>>(pieces.begin(), pieces.end());
    absl::InlinedVector<absl::string_view, 8> views;
    for (const HeldBytes& piece : pieces) views.emplace_back(piece.data, piece.size);
    return Send(message, views, holder);
  }
  // Sends a message without a body.
  absl::Status Send(const LinkMessage& message) { return Send(message, {}, nullptr); }

  // Both sides find the link lost.
  virtual void Break() = 0;
  virtual void Close() = 0;

  // The other side has begun a greeting or a message, and has not continued it for a long time.
  virtual bool stalled() const { return false; }
  // How many bytes wait for the other side to read.
  virtual uint64_t unsent_bytes() const { return 0; }
};

// A socket on which links are accepted. Thread-safe.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  virtual int fd() const = 0;  // readable when a client waits
  // nullptr if nobody waits, or somebody who may not connect. RESOURCE_EXHAUSTED if there is no
  // file descriptor for the client that waits.
  virtual absl::StatusOr<std::shared_ptr<Link>> Accept(SocketLoop* loop, Link::Handlers handlers) = 0;
};

}  // namespace thalweg
