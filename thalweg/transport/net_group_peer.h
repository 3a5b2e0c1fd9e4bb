// SPDX-License-Identifier: Apache-2.0
// What a NetGroup knows about another member, and helpers of the files that implement the group: net_group.cc (threads
// and the life of operations), net_group_control.cc (messages) and net_group_values.cc (values).
#pragma once

#include <cerrno>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "thalweg/transport/net_group.h"

namespace thalweg {

struct NetGroup::Peer {
  FileHandle control, values;
  bool control_closed = false;
  bool left = false;  // it will not arrive at more operations
  bool values_closed = false;
  absl::Time values_closed_at;

  std::string control_in, control_out;

  // The frame that is being sent.
  struct {
    bool active = false;
    NetDataFrame frame;
    size_t header_left = 0;
    size_t left = 0;
    NetOperation* operation = nullptr;
    int move = 0;
  } out;
  bool blocked = false;  // the connection takes no more bytes now

  // The frame that is being received.
  struct {
    NetDataFrame frame;
    size_t header_have = 0;
    bool active = false;  // the header is complete and was checked
    size_t left = 0;
    NetOperation* operation = nullptr;  // nullptr: the bytes are dropped
    int move = 0;
    size_t unmerged = 0;  // bytes in `scratch`
  } in;
  std::unique_ptr<char[]> scratch;
};

template <typename T>
absl::string_view AsBytes(const T& value) {
  return absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Whether the last call on a socket failed only because it would have to wait.
inline bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace thalweg
