// Calls that come twice run once.
//
// A client that lost its connection repeats a call under the same id. If the
// first is still running, the second waits for its answer; if it has ended, the
// second gets the answer that was kept.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "thalweg/base/mutex.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {

// Thread-safe.
class CallDeduplicator {
 public:
  // How many answers are kept, and how many bytes they may have together.
  explicit CallDeduplicator(size_t max_answers = 256, size_t max_bytes = 64 << 20)
      : max_answers_(max_answers), max_bytes_(max_bytes) {}

  // True if the call is to be served, and then answered through Reply(). False
  // if it is a repetition: it is answered from here. An id of 0 never repeats.
  bool Begin(int64_t id, ServerCall& call);
  // Answers `call` and its repetitions.
  void Reply(int64_t id, ServerCall& call, const absl::Status& status, const grpc::ByteBuffer& answer);

 private:
  struct Entry {
    bool ended = false;
    absl::Status status;
    grpc::ByteBuffer answer;
    std::vector<ServerCall*> repetitions;
  };
  const size_t max_answers_;
  const size_t max_bytes_;
  Mutex mutex_;
  absl::flat_hash_map<int64_t, Entry> calls_ ABSL_GUARDED_BY(mutex_);
  std::deque<int64_t> ended_ ABSL_GUARDED_BY(mutex_);  // oldest first
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;           // of the answers that are kept
};

}  // namespace thalweg
