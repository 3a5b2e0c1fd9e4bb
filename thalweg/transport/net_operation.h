// SPDX-License-Identifier: Apache-2.0
// One operation of a member of a group between hosts while it is in progress (transport/net_group.h), and what the
// member knows about operations that it has not started, or that are over. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/transport/net_frames.h"
#include "thalweg/transport/net_schedule.h"
#include "thalweg/transport/process_group.h"

namespace thalweg {

// The name of a rank, for errors.
using NetNames = std::function<std::string(int rank)>;

// A member has arrived at an operation.
struct NetArrived {
  NetArrival what;
  std::string values;  // if they are small
};

struct NetOperation {
  struct Move {
    NetMove what;
    char* data = nullptr;  // first byte
    size_t bytes = 0;
    size_t done = 0;  // bytes that were sent, received or merged
    std::unique_ptr<char[]> copy;
  };

  NetOperation(const HostCall& call, size_t bytes, ProcessGroup::Done done, int rank, int ranks);

  // This member's own arrival.
  NetArrived OwnArrival() const;
  // An error if members do not agree. REQUIRES: all have arrived.
  absl::Status CheckArrivals(const NetNames& name) const;
  // For small values: every member merges the values of all members itself, in the order of ranks.
  void MergeInline();
  // Makes the moves.
  void Begin(const RanksByHost& by_host);
  // Bytes up to which a move may go on: those that the move which it follows has moved. A merge that overwrites what a
  // send still has to read does not wait for the send, which goes on from a copy: the other member may not take the
  // values before this one has taken those of another operation, which come after the ones to be merged.
  size_t Limit(const Move& move);
  // Whether the operation still moves values from or to a member.
  bool Needs(int peer) const { return begun && (!receives[peer].empty() || !sends[peer].empty()); }
  // DEADLINE_EXCEEDED that names those for whom this member waits.
  absl::Status Overdue(const NetNames& name) const;

  const HostCall call;
  const size_t bytes;
  ProcessGroup::Done done;
  const int rank, ranks;
  const bool is_inline;
  const absl::Time start;
  std::vector<std::unique_ptr<NetArrived>> arrivals;  // by rank
  int arrived = 0;
  bool begun = false;
  std::vector<Move> moves;
  std::vector<std::deque<int>> sends, receives;  // by rank: moves that are not complete, in order
  size_t moves_left = 0;
  int frames_out = 0;   // that are sent in part
  bool ending = false;  // has failed, and waits for those frames
  absl::Time ending_since;
  bool over = false;  // `done` is to run; nothing of the call is used any more
  absl::Status status;
};

// Arrivals of other members at operations that this member has not started. The memory that a member makes others
// take has a limit.
class EarlyArrivals {
 public:
  explicit EarlyArrivals(int ranks) : bytes_(ranks) {}
  // INVALID_ARGUMENT if the member has arrived there already, RESOURCE_EXHAUSTED if it has at too many.
  absl::Status Add(int rank, std::unique_ptr<NetArrived> arrival, const NetNames& name);
  std::vector<std::pair<int, std::unique_ptr<NetArrived>>> Take(uint64_t key);
  void ForgetStep(int64_t step);
  void Clear();

 private:
  using Arrivals = std::vector<std::pair<int, std::unique_ptr<NetArrived>>>;  // ranks; few, as members keep pace
  void Release(const Arrivals::value_type& arrival);
  absl::flat_hash_map<uint64_t, Arrivals> arrivals_;  // by key
  std::vector<size_t> bytes_;                         // by rank
};

// The newest `limit` keys that were added, with a value each.
template <typename Key, typename Value>
class NewestKeys {
 public:
  explicit NewestKeys(size_t limit) : limit_(limit) {}
  // False if the key is there already; its value and age then stay.
  bool Add(const Key& key, Value value) {
    if (!values_.emplace(key, std::move(value)).second) return false;
    by_age_.push_back(key);
    if (by_age_.size() > limit_) {
      values_.erase(by_age_.front());
      by_age_.pop_front();
    }
    return true;
  }
  const Value* Find(const Key& key) const {
    const auto it = values_.find(key);
    return it == values_.end() ? nullptr : &it->second;
  }

 private:
  const size_t limit_;
  absl::flat_hash_map<Key, Value> values_;
  std::deque<Key> by_age_;
};

}  // namespace thalweg
