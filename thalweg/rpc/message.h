// Messages in gRPC's buffers. Large tensors lie in a message as their own
// memory, which the buffer keeps alive: nothing is copied to send them.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/tensor/tensor.h"
#include "thalweg/transport/same_host_link.h"

namespace thalweg {

// Below this a copy is cheaper than a slice of its own.
inline constexpr int64_t kSliceBytes = 4096;

// How many bytes of repeated values the tensors of one message may leave out. Those
// who write feeds and fetches write all values; a few constants need not.
inline constexpr int64_t kExpansionBytes = 1 << 20;

// INVALID_ARGUMENT, naming the message, if the bytes are not one.
absl::Status ParseMessage(grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message);
grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message);

// The same bytes, shared.
grpc::ByteBuffer FromHeld(HeldBytes bytes);
// Sends a message with these bytes as its body.
absl::Status SendOver(SameHostLink& link, const LinkMessage& message, const grpc::ByteBuffer& body);

// Writes a message field by field.
class MessageWriter {
 public:
  void Varint(int field, uint64_t value);  // left out if 0
  void Bytes(int field, absl::string_view value);
  void Message(int field, const google::protobuf::MessageLite& message);
  void AddTensor(int field, const Tensor& tensor);                               // a TensorProto
  void AddNamedTensor(int field, absl::string_view name, const Tensor& tensor);  // a NamedTensorProto

  void AddTransfer(int field, const Transfer& transfer);  // a PushedTensor

  // RESOURCE_EXHAUSTED if it is larger than a message can be (2 GB).
  absl::StatusOr<grpc::ByteBuffer> Finish();

 private:
  void Tag(int field, int type);
  void RawVarint(uint64_t value);
  void Body(const Tensor& tensor, const std::string& head);
  void Flush();

  std::string text_;  // what was written since the last slice
  std::vector<grpc::Slice> slices_;
  size_t bytes_ = 0;  // in slices_
};

// A PushRequest, the same way.
absl::StatusOr<grpc::ByteBuffer> SerializePushRequest(int64_t step_id, const std::vector<Transfer>& tensors);
struct Push {
  int64_t step_id = 0;
  std::vector<Transfer> tensors;
};
absl::StatusOr<Push> ParsePushRequest(grpc::ByteBuffer& buffer);

// A PushPieceRequest: the bytes from `offset` on of a tensor.
grpc::ByteBuffer SerializePiece(int64_t step_id, const Transfer& transfer, int64_t offset, int64_t bytes);

// Puts tensors together from their pieces. Tensors of which no piece has come for a
// minute are let go of. Thread-safe.
class PieceTable {
 public:
  PieceTable();

  // The tensor, if this was its last piece. INVALID_ARGUMENT if the bytes are no
  // piece, or not one of the tensor that others are of. RESOURCE_EXHAUSTED if the
  // tensors of which some pieces are missing take more than a quarter of the
  // machine's memory together.
  absl::StatusOr<std::optional<Push>> Add(grpc::ByteBuffer& buffer);
  // Lets go of what has come of a step.
  void Remove(int64_t step_id);
  // Lets go of tensors of which no piece has come since `then`. Runs by itself.
  void RemoveAbandoned(absl::Time then);
  int64_t bytes() const;  // of tensors of which some pieces are missing

 private:
  struct Incoming {
    Tensor tensor;
    std::map<int64_t, int64_t> pieces;  // that have come: where each begins and ends
    int64_t missing = 0;                // bytes
    absl::Time last;                    // when a piece came
  };
  using Key = std::pair<int64_t, std::string>;  // step and name

  // The tensor that a piece is of.
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
  Timer timer_;  // ends first
};

// Tensors that go with another message.
tensorflow::PushedTensor ToPushedTensor(const Transfer& transfer);
// `allowance` as in TensorFromProto().
absl::StatusOr<Transfer> FromPushedTensor(tensorflow::PushedTensor& pushed, int64_t* allowance);

// A RecvTensorResponse: the elements are copied once, into a tensor.
absl::Status ParseRecvTensorResponse(grpc::ByteBuffer& buffer, Rendezvous::Value* value);
absl::StatusOr<grpc::ByteBuffer> SerializeRecvTensorResponse(const Rendezvous::Value& value);

}  // namespace thalweg
