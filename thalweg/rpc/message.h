// SPDX-License-Identifier: Apache-2.0
// Messages in gRPC's buffers. A message refers to the memory of large tensors and keeps it
// alive, so sending them needs no copy.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/tensor/tensor.h"
#include "thalweg/transport/link.h"

namespace thalweg {

// Tensors below this size are copied, which is cheaper than a separate slice.
inline constexpr int64_t kSliceBytes = 4096;

// How many bytes of repeated values the tensors of one message may omit. Clients encode all
// values of feeds; only a few constants rely on repetition.
inline constexpr int64_t kExpansionBytes = 1 << 20;

// INVALID_ARGUMENT, naming the message type, if the bytes do not parse.
absl::Status ParseMessage(grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message);
grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message);

// Wraps the bytes without copying them.
grpc::ByteBuffer FromLink(LinkBody body);
// Sends a message with `body` over a link.
absl::Status SendOver(Link& link, const LinkMessage& message, const grpc::ByteBuffer& body);

// Writes a message field by field.
class MessageWriter {
 public:
  void Varint(int field, uint64_t value);  // omitted if 0
  void Bytes(int field, absl::string_view value);
  void Message(int field, const google::protobuf::MessageLite& message);
  void AddTensor(int field, const Tensor& tensor);                               // a TensorProto
  void AddNamedTensor(int field, absl::string_view name, const Tensor& tensor);  // a NamedTensorProto

  void AddTransfer(int field, const Transfer& transfer);  // a PushedTensor

  // RESOURCE_EXHAUSTED if the message exceeds 2 GB.
  absl::StatusOr<grpc::ByteBuffer> Finish();

 private:
  void Tag(int field, int type);
  void RawVarint(uint64_t value);
  void Body(const Tensor& tensor, const std::string& head);
  void Flush();

  std::string text_;  // bytes since the last slice
  std::vector<grpc::Slice> slices_;
  size_t bytes_ = 0;  // in slices_
};

// A PushRequest, written without copying large tensors.
absl::StatusOr<grpc::ByteBuffer> SerializePushRequest(int64_t step_id, const std::vector<Transfer>& tensors);
struct Push {
  int64_t step_id = 0;
  std::vector<Transfer> tensors;
};
absl::StatusOr<Push> ParsePushRequest(grpc::ByteBuffer& buffer);

// Tensors that are part of another message.
tensorflow::PushedTensor ToPushedTensor(const Transfer& transfer);
// `allowance` as in TensorFromProto().
absl::StatusOr<Transfer> FromPushedTensor(tensorflow::PushedTensor& pushed, int64_t* allowance);

// Parses a RecvTensorResponse. The elements are copied once, into the tensor.
absl::Status ParseRecvTensorResponse(grpc::ByteBuffer& buffer, Rendezvous::Value* value);
absl::StatusOr<grpc::ByteBuffer> SerializeRecvTensorResponse(const Rendezvous::Value& value);

}  // namespace thalweg
