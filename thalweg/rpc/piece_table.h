// SPDX-License-Identifier: Apache-2.0
// PieceTable: large tensors that arrive in pieces, over several connections at once.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/rpc/message.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// A PushPieceRequest: `bytes` bytes of a tensor, starting at `offset`.
grpc::ByteBuffer SerializePiece(int64_t step_id, const Transfer& transfer, int64_t offset, int64_t bytes);

// Assembles tensors from their pieces. Discards tensors for which no piece has arrived for
// a minute. Thread-safe.
class PieceTable {
 public:
  PieceTable();

  // Adds a piece, and returns the tensor if this was its last piece. INVALID_ARGUMENT if the
  // bytes are not a piece, or do not match the other pieces of the tensor.
  // RESOURCE_EXHAUSTED if all incomplete tensors together would take more than a quarter of
  // the machine's memory.
  absl::StatusOr<std::optional<Push>> Add(grpc::ByteBuffer& buffer);
  // Discards the pieces of a step.
  void Remove(int64_t step_id);
  // Discards tensors for which no piece has arrived since `then`. A timer calls it.
  void RemoveAbandoned(absl::Time then);
  int64_t bytes() const;  // total size of the incomplete tensors

 private:
  struct Incoming {
    Tensor tensor;
    std::map<int64_t, int64_t> pieces;  // begin -> end of the pieces that have arrived
    int64_t missing = 0;                // number of missing bytes
    absl::Time last;                    // when the last piece arrived
  };
  using Key = std::pair<int64_t, std::string>;  // step id and rendezvous key

  // The tensor that a piece belongs to.
  absl::StatusOr<Incoming*> FindOrAdd(const Key& key, DType dtype, const Shape& shape)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Which>
  void RemoveIf(Which which) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_bytes_;
  mutable Mutex mutex_;
  std::map<Key, Incoming> incoming_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  Timer timer_;  // the last member: destroyed first, so that no alarm uses the others
};

}  // namespace thalweg
