// SPDX-License-Identifier: Apache-2.0
// Counts the calls to one peer and the bytes that they exchange.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "thalweg/base/clock.h"

namespace thalweg {

// Thread-safe, without locks.
class Traffic {
 public:
  enum Path { kSharedMemory = 0, kGrpc = 1, kTcp = 2 };
  static constexpr int kPaths = 3;
  static const char* NameOf(int path) { return path == kGrpc ? "grpc" : path == kTcp ? "tcp" : "shared memory"; }

  explicit Traffic(std::string address) : address_(std::move(address)) {}

  void Sent(Path path, int64_t bytes) {
    sent_[path].fetch_add(bytes, std::memory_order_relaxed);
    calls_[path].fetch_add(1, std::memory_order_relaxed);
  }
  void Received(Path path, int64_t bytes, bool ok) {
    received_[path].fetch_add(bytes, std::memory_order_relaxed);
    (ok ? answers_ : failures_)[path].fetch_add(1, std::memory_order_relaxed);
    if (ok) last_answer_nanos_.store(NowNanos(), std::memory_order_relaxed);
  }

  // Bytes that wait because the peer does not read them, as of the last call or answer.
  void SetUnsent(Path path, uint64_t bytes) {
    unsent_[path].store(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }

  const std::string& address() const { return address_; }  // "host:port" of the peer
  int64_t sent(int path) const { return sent_[path].load(std::memory_order_relaxed); }
  int64_t received(int path) const { return received_[path].load(std::memory_order_relaxed); }
  int64_t unsent(int path) const { return unsent_[path].load(std::memory_order_relaxed); }
  int64_t calls(int path) const { return calls_[path].load(std::memory_order_relaxed); }
  int64_t failures(int path) const { return failures_[path].load(std::memory_order_relaxed); }
  // Time of the last successful answer (NowNanos()); 0: there was none.
  int64_t last_answer_nanos() const { return last_answer_nanos_.load(std::memory_order_relaxed); }

 private:
  using Counts = std::array<std::atomic<int64_t>, kPaths>;
  const std::string address_;
  Counts sent_{}, received_{}, calls_{}, answers_{}, failures_{}, unsent_{};
  std::atomic<int64_t> last_answer_nanos_{0};
};

// Counts the calls of one method of a server by the code of their answers. Thread-safe.
class CallCounts {
 public:
  static constexpr int kCodes = 17;  // those of gRPC

  void Add(int code) {
    counts_[code >= 0 && code < kCodes ? code : 2].fetch_add(1, std::memory_order_relaxed);  // 2: UNKNOWN
  }
  int64_t count(int code) const { return counts_[code].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<int64_t>, kCodes> counts_{};
};

}  // namespace thalweg
