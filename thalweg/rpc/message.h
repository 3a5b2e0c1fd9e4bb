// Messages in gRPC's buffers. Large tensors lie in a message as their own
// memory, which the buffer keeps alive: nothing is copied to send them.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "thalweg/cluster/worker.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// INVALID_ARGUMENT, naming the message, if the bytes are not one.
absl::Status ParseMessage(grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message);
grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message);

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

// Tensors that go with another message.
tensorflow::PushedTensor ToPushedTensor(const Transfer& transfer);
absl::StatusOr<Transfer> FromPushedTensor(tensorflow::PushedTensor& pushed);

// A RecvTensorResponse: the elements are copied once, into a tensor.
absl::Status ParseRecvTensorResponse(grpc::ByteBuffer& buffer, Rendezvous::Value* value);
absl::StatusOr<grpc::ByteBuffer> SerializeRecvTensorResponse(const Rendezvous::Value& value);

}  // namespace thalweg
