// SPDX-License-Identifier: Apache-2.0
// The messages of a group that are not values: who has arrived at which operation, and what has failed.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/net_group_peer.h"

namespace thalweg {
namespace {

constexpr size_t kMaxControlBytes = size_t{64} << 20;  // that wait to be sent to a member

}  // namespace

void NetGroup::SendControlToAll(uint32_t type, absl::string_view body, absl::string_view rest) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (peers_[rank] != nullptr) SendControl(rank, type, body, rest);
  }
}

void NetGroup::SendControl(int rank, uint32_t type, absl::string_view body, absl::string_view rest) {
  Peer& peer = *peers_[rank];
  if (peer.control_closed) return;
  const NetControlFrame frame{.type = type, .bytes = static_cast<uint32_t>(body.size() + rest.size())};
  absl::StrAppend(&peer.control_out, AsBytes(frame), body, rest);
  FlushControl(rank);
  if (peer.control_out.size() > kMaxControlBytes && !lost_) {
    Lose(Unavailable(Name(rank), " takes no messages any more"));
  }
}

// A connection that breaks is noticed when it is read.
void NetGroup::FlushControl(int rank) {
  Peer& peer = *peers_[rank];
  while (!peer.control_out.empty()) {
    const ssize_t n =
        send(peer.control.get(), peer.control_out.data(), peer.control_out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) {
      if (n < 0 && !WouldBlock()) peer.control_out.clear();
      return;
    }
    peer.control_out.erase(0, static_cast<size_t>(n));
  }
}

void NetGroup::ReadControl(int rank) {
  Peer& peer = *peers_[rank];
  bool closed = false;
  // A bounded number, so that no member keeps this thread to itself.
  for (int i = 0; i < 16 && !closed; ++i) {
    char buffer[16 << 10];
    const ssize_t n = recv(peer.control.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n < 0 && WouldBlock()) break;
    if (n <= 0) {
      closed = true;
    } else {
      peer.control_in.append(buffer, static_cast<size_t>(n));
    }
    size_t at = 0;
    while (peer.control_in.size() - at >= sizeof(NetControlFrame)) {
      NetControlFrame frame;
      std::memcpy(&frame, peer.control_in.data() + at, sizeof(frame));
      absl::Status taken;
      if (frame.bytes > sizeof(NetArrival) + std::max(kNetInlineBytes, kNetMaxMessage)) {
        taken = InvalidArgument(Name(rank), " announces a control message of ", frame.bytes, " bytes");
      } else if (peer.control_in.size() - at - sizeof(frame) < frame.bytes) {
        break;
      } else {
        taken =
            TakeControlFrame(rank, frame, absl::string_view(peer.control_in).substr(at + sizeof(frame), frame.bytes));
      }
      if (!taken.ok()) {
        peer.control_closed = true;
        shutdown(peer.control.get(), SHUT_RD);
        peer.control_in.clear();
        return Lose(taken, /*at_once=*/true);
      }
      at += sizeof(frame) + frame.bytes;
    }
    peer.control_in.erase(0, at);
  }
  if (!closed) return;
  peer.control_closed = true;
  peer.left = true;
  Lose(Unavailable("A member of the group has died, or has left it: ", Name(rank)));
}

absl::Status NetGroup::TakeControlFrame(int rank, const NetControlFrame& frame, absl::string_view body) {
  if (frame.type == NetControlFrame::kArrive) return TakeArrival(rank, body);
  NetFailure failure;
  if (frame.type != NetControlFrame::kFail || body.size() < sizeof(failure)) {
    return InvalidArgument(Name(rank), " has sent a control message of type ", frame.type, " and ", body.size(),
                           " bytes");
  }
  std::memcpy(&failure, body.data(), sizeof(failure));
  body.remove_prefix(sizeof(failure));
  const absl::Status why(static_cast<absl::StatusCode>(std::clamp<uint32_t>(failure.code, 1, 16)), body);
  if (failure.step == 0) {
    peers_[rank]->left = true;
    Lose(why);
  } else {
    FailStep(failure.step, why, /*tell=*/false);
  }
  return absl::OkStatus();
}

absl::Status NetGroup::TakeArrival(int rank, absl::string_view body) {
  auto arrival = std::make_unique<NetArrived>();
  if (body.size() < sizeof(NetArrival) || body.size() > sizeof(NetArrival) + kNetInlineBytes) {
    return InvalidArgument(Name(rank), " announces an operation in ", body.size(), " bytes");
  }
  std::memcpy(&arrival->what, body.data(), sizeof(NetArrival));
  arrival->values = std::string(body.substr(sizeof(NetArrival)));
  const uint64_t key = arrival->what.key;
  const auto it = by_key_.find(key);
  if (failed_steps_.Find(arrival->what.step) != nullptr) return absl::OkStatus();
  if (it == by_key_.end()) return lost_ ? absl::OkStatus() : early_.Add(rank, std::move(arrival), name_);
  NetOperation& o = *it->second;
  if (o.arrivals[rank] != nullptr) return InvalidArgument(Name(rank), " arrives twice at operation ", key);
  o.arrivals[rank] = std::move(arrival);
  if (++o.arrived == ranks_) ArrivedAll(o);
  return absl::OkStatus();
}

}  // namespace thalweg
