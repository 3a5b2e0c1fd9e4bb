// SPDX-License-Identifier: Apache-2.0
// Deduplicates repeated calls.
//
// A client that lost its connection repeats a call with the same id. If the first call is
// still running, the repetition waits for its response. If it has ended, the repetition
// gets the cached response.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "thalweg/base/mutex.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {

// Thread-safe.
class CallDeduplicator {
 public:
  // Limits of the cache: the number of responses and their total size.
  explicit CallDeduplicator(size_t max_answers = 256, size_t max_bytes = 64 << 20)
      : max_answers_(max_answers), max_bytes_(max_bytes) {}

  // Returns true if the caller must serve the call and answer it through Reply(). Returns
  // false for a repetition, which this class answers. Calls with id 0 are not deduplicated.
  bool Begin(int64_t id, ServerCall& call);
  // Answers `call` and its repetitions.
  void Reply(int64_t id, ServerCall& call, const absl::Status& status, const grpc::ByteBuffer& answer);
  // Serves a call that Begin() has let in. If `serve` throws, repetitions get that error, and
  // the exception goes on to the server, which answers the call itself.
  void Serve(int64_t id, absl::FunctionRef<void()> serve);

 private:
  struct Entry {
    bool ended = false;
    absl::Status status;
    grpc::ByteBuffer answer;
    std::vector<ServerCall*> repetitions;
  };
  // Ends the call and returns its repetitions.
  std::vector<ServerCall*> End(int64_t id, const absl::Status& status, const grpc::ByteBuffer& answer);

  const size_t max_answers_;
  const size_t max_bytes_;
  Mutex mutex_;
  absl::flat_hash_map<int64_t, Entry> calls_ ABSL_GUARDED_BY(mutex_);
  std::deque<int64_t> ended_ ABSL_GUARDED_BY(mutex_);  // oldest first
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;           // total size of the cached responses
};

}  // namespace thalweg
