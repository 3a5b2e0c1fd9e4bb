// SPDX-License-Identifier: Apache-2.0
// Links for tests: pairs of every kind, and a link with faults.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/transport/link.h"
#include "thalweg/transport/socket_loop.h"

namespace thalweg {

enum class LinkKind { kInProcess, kSharedMemory, kTcp };
std::string NameOf(LinkKind kind);

// Both ends of a link, started. `max_unsent` limits what a TCP link queues, `budget` what it receives at once.
struct LinkPair {
  std::shared_ptr<Link> client, server;
};
struct LinkPairOptions {
  uint64_t max_unsent = uint64_t{1} << 30;
  uint64_t budget = uint64_t{1} << 30;
};
absl::StatusOr<LinkPair> MakeLinkPair(LinkKind kind, SocketLoop* loop, Link::Handlers client, Link::Handlers server,
                                      LinkPairOptions options = {});

// What happens to the messages that are sent over a FaultyLink.
struct LinkFault {
  enum Kind {
    kDrop,       // it is lost
    kDelay,      // it is sent later, and so are those that come after it
    kDuplicate,  // it is sent twice
    kReorder,    // it is sent after the next one, or a little later if none comes
    kTruncate,   // half of its body is sent
    kFail,       // it is not sent, and the link is lost
  };
  Kind kind = kDrop;
  int nth = 1;  // the first message is 1
  absl::Duration delay = absl::Milliseconds(50);
};

// Wraps a link. Only the nth message that is sent over it meets the fault.
std::shared_ptr<Link> MakeFaultyLink(std::shared_ptr<Link> link, LinkFault fault);
// The same for every link that a listener accepts.
std::unique_ptr<LinkListener> MakeFaultyListener(std::unique_ptr<LinkListener> listener, LinkFault fault);

}  // namespace thalweg
