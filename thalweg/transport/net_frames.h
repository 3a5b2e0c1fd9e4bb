// SPDX-License-Identifier: Apache-2.0
// The bytes that members of a group between hosts exchange (transport/net_group.h). Integers have the byte order of the
// machine: members check NetHello::magic, which differs between byte orders.
//
// Two members have two connections, one for control frames and one for values, so that news of a failure never waits
// behind values. Both begin with a NetHello from the member of higher rank and a NetWelcome from the other.
//
//   control: (NetControlFrame, body of `bytes` bytes)*
//   values:  (NetDataFrame, `bytes` bytes of values)*
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg {

constexpr uint32_t kNetMagic = 0x74776e67;
constexpr uint32_t kNetVersion = 2;
constexpr size_t kNetTokenBytes = 16;
constexpr size_t kNetNameBytes = 64;

enum class NetChannel : uint32_t { kControl = 0, kValues = 1 };
constexpr int kNetChannels = 2;

struct NetHello {
  uint32_t magic = kNetMagic;
  uint32_t version = kNetVersion;
  char token[kNetTokenBytes] = {};  // the receiver's, which only members of its groups know
  char group[kNetNameBytes] = {};   // its name, padded with zeros
  int32_t rank = 0;                 // the sender's
  int32_t ranks = 0;
  uint32_t channel = 0;
  uint32_t reserved = 0;
};

struct NetWelcome {
  uint32_t magic = kNetMagic;
  uint32_t version = kNetVersion;
  char token[kNetTokenBytes] = {};  // the receiver's
  char refusal[128] = {};           // why the sender does not accept the connection, or ""
};

struct NetControlFrame {
  enum Type : uint32_t {
    kArrive = 1,  // body: NetArrival and, for operations on few bytes, the values
    kFail = 2,    // body: NetFailure and the message
  };
  uint32_t type = 0;
  uint32_t bytes = 0;
};

// A member has arrived at an operation.
struct NetArrival {
  uint64_t key = 0;
  int64_t step = 0;
  uint64_t elements = 0;
  uint32_t operation = 0;
  uint32_t tag = 0;
  int32_t root = 0;
  uint32_t element_bytes = 0;
  uint32_t rank_order = 0;
  uint32_t between_hosts = 0;
};

// A step has failed or, if `step` is 0, the group.
struct NetFailure {
  int64_t step = 0;
  uint32_t code = 0;
  uint32_t reserved = 0;
};

struct NetDataFrame {
  uint64_t key = 0;
  uint64_t offset = 0;  // where the bytes begin in the values
  uint64_t bytes = 0;
};

// Limits that members check.
constexpr size_t kNetInlineBytes = 4096;                // largest values in a NetArrival
constexpr size_t kNetFrameBytes = size_t{1} << 20;      // largest NetDataFrame::bytes
constexpr size_t kNetMaxMessage = 2048;                 // largest message of a NetFailure
constexpr size_t kNetMaxEarlyBytes = size_t{64} << 20;  // arrivals of one member at operations that have not begun here

}  // namespace thalweg
