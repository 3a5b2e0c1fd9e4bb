// SPDX-License-Identifier: Apache-2.0
// The values of a group's operations: frames to and from the other members.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "thalweg/base/status.h"
#include "thalweg/transport/net_group_peer.h"

namespace thalweg {
namespace {

// Bytes that are received before they are merged. They stay in a core's cache.
constexpr size_t kMergeBytes = size_t{128} << 10;
// A member passes values on once it has so many, or all of them.
constexpr size_t kPieceBytes = size_t{64} << 10;
// Bytes that are sent or received before other connections have their turn.
constexpr size_t kQuantumBytes = size_t{1} << 20;

}  // namespace

// Chooses the next values to send to a member: those of the oldest operation that has enough of them.
bool NetGroup::NextFrame(int rank) {
  Peer& peer = *peers_[rank];
  for (const auto& operation : operations_) {
    if (!operation->begun || operation->ending || operation->sends[rank].empty()) continue;
    const int index = operation->sends[rank].front();
    const NetOperation::Move& move = operation->moves[index];
    const size_t ready = operation->Limit(move) - move.done;
    if (ready < std::min(kPieceBytes, move.bytes - move.done)) continue;
    const size_t most =
        std::max<size_t>(1, kNetFrameBytes / operation->call.element_bytes) * operation->call.element_bytes;
    const size_t bytes = std::min(ready / operation->call.element_bytes * operation->call.element_bytes, most);
    if (bytes == 0) continue;
    const auto offset = static_cast<uint64_t>(move.what.begin) * operation->call.element_bytes + move.done;
    peer.out = {.active = true,
                .frame = {.key = operation->call.key, .offset = offset, .bytes = bytes},
                .header_left = sizeof(NetDataFrame),
                .left = bytes,
                .operation = operation.get(),
                .move = index};
    ++operation->frames_out;
    return true;
  }
  return false;
}

// Sends values to a member until the connection takes no more, or the turn is over: then returns true.
bool NetGroup::SendValues(int rank) {
  Peer& peer = *peers_[rank];
  size_t sent = 0;
  while (sent < kQuantumBytes && !peer.blocked && !peer.values_closed) {
    auto& out = peer.out;
    if (!out.active && !NextFrame(rank)) break;
    NetOperation& o = *out.operation;
    NetOperation::Move& move = o.moves[out.move];
    iovec parts[2] = {{reinterpret_cast<char*>(&out.frame) + sizeof(NetDataFrame) - out.header_left, out.header_left},
                      {move.data + move.done, out.left}};
    msghdr message{};
    message.msg_iov = out.header_left > 0 ? parts : parts + 1;
    message.msg_iovlen = out.header_left > 0 ? 2 : 1;
    const ssize_t n = sendmsg(peer.values.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (!WouldBlock()) {
        ValuesClosed(rank);
        break;
      }
      peer.blocked = true;
      break;
    }
    sent += static_cast<size_t>(n);
    const size_t of_header = std::min(static_cast<size_t>(n), out.header_left);
    out.header_left -= of_header;
    out.left -= static_cast<size_t>(n) - of_header;
    move.done += static_cast<size_t>(n) - of_header;
    if (out.left > 0 || out.header_left > 0) continue;
    out.active = false;
    --o.frames_out;
    if (move.done == move.bytes) {
      o.sends[rank].pop_front();
      --o.moves_left;
    }
    if (o.ending && o.frames_out == 0) {
      End(o, o.status, true);
    } else {
      EndIfComplete(o);
    }
  }
  return sent >= kQuantumBytes;
}

// Bytes of the current frame that may be received now.
size_t NetGroup::ReceiveLimit(const Peer& peer) const {
  if (peer.in.operation == nullptr) return peer.in.left;
  const NetOperation::Move& move = peer.in.operation->moves[peer.in.move];
  return std::min(peer.in.left, peer.in.operation->Limit(move) - move.done - peer.in.unmerged);
}

// Whether bytes from a member can be used now. Values of an operation that has not begun here stay in the connection.
bool NetGroup::CanReceive(int rank) const {
  const Peer& peer = *peers_[rank];
  if (peer.in.active) return ReceiveLimit(peer) > 0;
  if (peer.in.header_have < sizeof(NetDataFrame)) return true;
  const auto it = by_key_.find(peer.in.frame.key);
  return it == by_key_.end() || it->second->begun;
}

// Checks the header of a frame. False if the operation has not begun here.
absl::StatusOr<bool> NetGroup::StartReceiving(int rank) {
  Peer& peer = *peers_[rank];
  auto& in = peer.in;
  if (in.frame.bytes == 0 || in.frame.bytes > kNetFrameBytes) {
    return InvalidArgument(Name(rank), " announces ", in.frame.bytes, " bytes of values in one message");
  }
  in.left = in.frame.bytes;
  in.unmerged = 0;
  in.operation = nullptr;
  if (peer.scratch == nullptr) peer.scratch = std::make_unique<char[]>(kMergeBytes);
  const auto it = by_key_.find(in.frame.key);
  if (it == by_key_.end()) {
    if (failed_keys_.Find(in.frame.key) == nullptr && !lost_) {
      return InvalidArgument(Name(rank), " has sent values of operation ", in.frame.key, ", which is not under way");
    }
    in.active = true;
    return true;
  }
  NetOperation& o = *it->second;
  if (!o.begun) return false;
  if (o.receives[rank].empty()) {
    return InvalidArgument(Name(rank), " has sent more values than operation ", in.frame.key, " has");
  }
  const int index = o.receives[rank].front();
  const NetOperation::Move& move = o.moves[index];
  const auto expected = static_cast<uint64_t>(move.what.begin) * o.call.element_bytes + move.done;
  // Where the sender of an all-to-all has its values, and where they belong here.
  const uint64_t offset = o.call.operation == HostOperation::kAllToAll
                              ? expected - static_cast<uint64_t>(rank) * (o.bytes / ranks_) +
                                    static_cast<uint64_t>(rank_) * (o.bytes / ranks_)
                              : expected;
  if (in.frame.offset != offset || in.frame.bytes > move.bytes - move.done ||
      in.frame.bytes % o.call.element_bytes != 0) {
    return InvalidArgument(Name(rank), " has sent ", in.frame.bytes, " bytes of values at ", in.frame.offset,
                           " of operation ", in.frame.key, ", expected at most ", move.bytes - move.done, " at ",
                           offset);
  }
  in.operation = &o;
  in.move = index;
  in.active = true;
  return true;
}

// Takes bytes that have been received: into the scratch memory if they are merged or dropped, else into their place.
void NetGroup::Received(int rank, size_t bytes) {
  Peer& peer = *peers_[rank];
  auto& in = peer.in;
  in.left -= bytes;
  if (in.left == 0) {
    in.active = false;
    in.header_have = 0;
  }
  if (in.operation == nullptr) return;
  NetOperation& o = *in.operation;
  NetOperation::Move& move = o.moves[in.move];
  if (move.what.kind == NetMove::Kind::kMerge) {
    in.unmerged += bytes;
    const size_t size = o.call.element_bytes;
    const size_t whole = in.unmerged / size * size;
    if (whole > 0) {
      o.call.merge(move.data + move.done, peer.scratch.get(), static_cast<int64_t>(whole / size));
      if (move.what.finish && o.call.finish != nullptr) {
        o.call.finish(move.data + move.done, static_cast<int64_t>(whole / size), ranks_);
      }
      std::memmove(peer.scratch.get(), peer.scratch.get() + whole, in.unmerged - whole);
      in.unmerged -= whole;
      move.done += whole;
    }
  } else {
    move.done += bytes;
  }
  if (in.left == 0) in.operation = nullptr;
  if (move.done < move.bytes) return;
  o.receives[rank].pop_front();
  --o.moves_left;
  EndIfComplete(o);
}

// Receives values from a member as long as there are any, or until its turn is over.
void NetGroup::ReceiveValues(int rank) {
  Peer& peer = *peers_[rank];
  auto& in = peer.in;
  size_t received = 0;
  while (received < kQuantumBytes && !peer.values_closed) {
    if (!in.active && in.header_have == sizeof(NetDataFrame)) {
      const absl::StatusOr<bool> started = StartReceiving(rank);
      if (!started.ok()) {
        shutdown(peer.values.get(), SHUT_RD);
        Lose(started.status(), /*at_once=*/true);
        ValuesClosed(rank);
        break;
      }
      if (!*started) break;
    }
    // The rest of a frame and the header of the next one are read together.
    iovec parts[2];
    int count = 0;
    size_t payload = 0;
    if (in.active) {
      payload = ReceiveLimit(peer);
      if (payload == 0) break;
      char* place = peer.scratch.get();
      if (in.operation == nullptr) {
        payload = std::min(payload, kMergeBytes);
      } else if (const NetOperation::Move& move = in.operation->moves[in.move];
                 move.what.kind == NetMove::Kind::kMerge) {
        place += in.unmerged;
        payload = std::min(payload, kMergeBytes - in.unmerged);
      } else {
        place = move.data + move.done;
      }
      parts[count++] = {place, payload};
    }
    const bool with_header = !in.active || payload == in.left;
    const size_t header_at = in.active ? 0 : in.header_have;
    NetDataFrame next = in.frame;
    if (with_header) parts[count++] = {reinterpret_cast<char*>(&next) + header_at, sizeof(next) - header_at};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t n = recvmsg(peer.values.get(), &message, MSG_DONTWAIT);
    if (n < 0 && WouldBlock()) break;
    if (n <= 0) {
      ValuesClosed(rank);
      break;
    }
    received += static_cast<size_t>(n);
    const size_t of_payload = std::min(static_cast<size_t>(n), payload);
    const size_t of_header = static_cast<size_t>(n) - of_payload;
    if (of_payload > 0) Received(rank, of_payload);
    if (of_header > 0) {
      in.frame = next;
      in.header_have = header_at + of_header;
    }
    if (static_cast<size_t>(n) < payload) break;  // the connection is empty
  }
}

}  // namespace thalweg
