// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/message.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/time/clock.h"
#include "google/protobuf/io/coded_stream.h"
#include "thalweg/base/status.h"
#include "thalweg/base/varint.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/rpc/message_input.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using google::protobuf::io::CodedInputStream;
using tensorflow::NamedTensorProto;
using tensorflow::PushedTensor;
using tensorflow::PushRequest;
using tensorflow::RecvTensorResponse;
using tensorflow::TensorProto;

size_t VarintSize(uint64_t value) {
  size_t n = 1;
  for (; value >= 0x80; value >>= 7) ++n;
  return n;
}

// The part of a TensorProto before the elements: type, shape, and the tag and length of
// tensor_content. Empty if the tensor has no such encoding (strings, resources, variants).
std::string ContentHead(const Tensor& tensor) {
  const size_t size = ElementSize(tensor.dtype());
  if (size == 0) return "";
  tensorflow::TensorProto proto;
  proto.set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  tensor.shape().ToProto(proto.mutable_tensor_shape());
  std::string head = proto.SerializeAsString();
  if (const uint64_t bytes = tensor.num_elements() * size; bytes > 0) {
    AppendVarint(&head, TagOf(TensorProto::kTensorContentFieldNumber, kBytesType));
    AppendVarint(&head, bytes);
  }
  return head;
}

}  // namespace

absl::Status ParseMessage(grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message) {
  grpc::ProtoBufferReader reader(&buffer);
  if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return InvalidArgument("The message (", buffer.Length(), " bytes) is not a valid ", message->GetTypeName());
}

grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message) {
  grpc::Slice slice(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer FromLink(LinkBody body) {
  absl::InlinedVector<grpc::Slice, 4> slices;
  for (HeldBytes& piece : body.pieces) {
    auto* holder = new std::shared_ptr<const void>(std::move(piece.holder));
    slices.emplace_back(
        const_cast<char*>(piece.data), piece.size,
        [](void* held) { delete static_cast<std::shared_ptr<const void>*>(held); }, holder);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status SendOver(Link& link, const LinkMessage& message, const grpc::ByteBuffer& body) {
  std::vector<grpc::Slice> slices;
  if (body.Valid() && !body.Dump(&slices).ok()) return Internal("The body of a message cannot be read");
  absl::InlinedVector<HeldBytes, 8> pieces;
  for (grpc::Slice& s : slices) {
    auto holder = std::make_shared<const grpc::Slice>(std::move(s));  // a short slice contains its bytes
    pieces.push_back({reinterpret_cast<const char*>(holder->begin()), holder->size(), holder});
  }
  return link.SendPieces(message, pieces);
}

void MessageWriter::Tag(int field, int type) { AppendVarint(&text_, TagOf(field, type)); }
void MessageWriter::RawVarint(uint64_t value) { AppendVarint(&text_, value); }

void MessageWriter::Varint(int field, uint64_t value) {
  if (value == 0) return;
  Tag(field, kVarintType);
  RawVarint(value);
}

void MessageWriter::Bytes(int field, absl::string_view value) {
  Tag(field, kBytesType);
  RawVarint(value.size());
  text_.append(value.data(), value.size());
}

void MessageWriter::Message(int field, const google::protobuf::MessageLite& message) {
  Tag(field, kBytesType);
  RawVarint(message.ByteSizeLong());
  message.AppendToString(&text_);
}

void MessageWriter::Flush() {
  if (text_.empty()) return;
  slices_.emplace_back(text_);
  bytes_ += text_.size();
  text_.clear();
}

void MessageWriter::Body(const Tensor& tensor, const std::string& head) {
  text_ += head;
  const size_t bytes = ContentBytes(tensor);
  if (bytes < kSliceBytes) {
    text_.append(static_cast<const char*>(tensor.raw()), bytes);
    return;
  }
  Flush();
  auto* holder = new Tensor(tensor);  // shares the buffer; gRPC deletes it after the send
  slices_.emplace_back(
      tensor.raw(), bytes, [](void* held) { delete static_cast<Tensor*>(held); }, holder);
  bytes_ += bytes;
}

void MessageWriter::AddTensor(int field, const Tensor& tensor) {
  const std::string head = ContentHead(tensor);
  if (head.empty()) {
    tensorflow::TensorProto proto;
    TensorToProto(tensor, &proto);
    return Message(field, proto);
  }
  Tag(field, kBytesType);
  RawVarint(head.size() + ContentBytes(tensor));
  Body(tensor, head);
}

void MessageWriter::AddNamedTensor(int field, absl::string_view name, const Tensor& tensor) {
  std::string head = ContentHead(tensor);
  size_t body = head.size() + ContentBytes(tensor);
  if (head.empty()) {
    tensorflow::TensorProto proto;
    TensorToProto(tensor, &proto);
    head = proto.SerializeAsString();
    body = head.size();
  }
  const bool as_content = ElementSize(tensor.dtype()) != 0;
  Tag(field, kBytesType);
  // The length of the NamedTensorProto: two fields, each with a tag of one byte, a length and its bytes.
  RawVarint(1 + VarintSize(name.size()) + name.size() + 1 + VarintSize(body) + body);
  Bytes(NamedTensorProto::kNameFieldNumber, name);
  Tag(NamedTensorProto::kTensorFieldNumber, kBytesType);
  RawVarint(body);
  if (as_content) {
    Body(tensor, head);
  } else {
    text_ += head;
  }
}

void MessageWriter::AddTransfer(int field, const Transfer& transfer) {
  const Tensor& tensor = transfer.value.tensor;
  // The receiver must check the values of bools, so they are sent as a TensorProto.
  const bool as_content = tensor.has_value() && tensor.dtype() != kBool && ContentBytes(tensor) > 0;
  const std::string head = as_content ? ContentHead(tensor) : "";
  if (head.empty()) return Message(field, ToPushedTensor(transfer));
  const size_t body = head.size() + ContentBytes(tensor);
  const size_t dead = transfer.value.dead ? 2 : 0;  // tag and value
  Tag(field, kBytesType);
  RawVarint(1 + VarintSize(transfer.key.size()) + transfer.key.size() + dead + 1 + VarintSize(body) + body);
  Bytes(PushedTensor::kKeyFieldNumber, transfer.key);
  Varint(PushedTensor::kIsDeadFieldNumber, transfer.value.dead ? 1 : 0);
  Tag(PushedTensor::kContentFieldNumber, kBytesType);
  RawVarint(body);
  Body(tensor, head);
}

absl::StatusOr<grpc::ByteBuffer> MessageWriter::Finish() {
  Flush();
  if (bytes_ > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return ResourceExhausted("A message of ", bytes_, " bytes is larger than gRPC can send (2 GB)");
  }
  return grpc::ByteBuffer(slices_.data(), slices_.size());
}

absl::StatusOr<grpc::ByteBuffer> SerializePushRequest(int64_t step_id, const std::vector<Transfer>& tensors) {
  MessageWriter writer;
  writer.Varint(PushRequest::kStepIdFieldNumber, static_cast<uint64_t>(step_id));
  for (const Transfer& t : tensors) {
    if (t.value.tensor.has_value()) RETURN_IF_ERROR(CheckEncodable(t.value.tensor));
    writer.AddTransfer(PushRequest::kTensorFieldNumber, t);
  }
  return writer.Finish();
}

tensorflow::PushedTensor ToPushedTensor(const Transfer& transfer) {
  tensorflow::PushedTensor pushed;
  pushed.set_key(transfer.key);
  pushed.set_is_dead(transfer.value.dead);
  if (transfer.value.tensor.has_value()) TensorToProto(transfer.value.tensor, pushed.mutable_tensor());
  return pushed;
}

absl::StatusOr<Transfer> FromPushedTensor(tensorflow::PushedTensor& pushed, int64_t* allowance) {
  Transfer transfer{.key = std::move(*pushed.mutable_key()), .value = {.tensor = {}, .dead = pushed.is_dead()}};
  if (pushed.has_tensor()) {
    ASSIGN_OR_RETURN(transfer.value.tensor, TensorFromProto(std::move(*pushed.mutable_tensor()), allowance));
  } else if (!pushed.is_dead()) {
    return InvalidArgument("There is no tensor for ", transfer.key);
  }
  return transfer;
}

namespace {

// Reads a PushedTensor. nullopt if it is malformed.
// REQUIRES: 0 <= length <= in.BytesUntilLimit()
std::optional<Transfer> ReadTransfer(MessageInput& input, int length, int64_t* allowance) {
  CodedInputStream& in = input.in();
  const auto limit = in.PushLimit(length);
  tensorflow::PushedTensor head;
  std::optional<Tensor> content;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag == TagOf(PushedTensor::kIsDeadFieldNumber, kVarintType)) {
      uint32_t dead = 0;
      if (!in.ReadVarint32(&dead)) return std::nullopt;
      head.set_is_dead(dead != 0);
      continue;
    }
    int n = 0;
    if (!ReadLength(in, &n)) return std::nullopt;
    if (tag == TagOf(PushedTensor::kKeyFieldNumber, kBytesType)) {
      if (!in.ReadString(head.mutable_key(), n)) return std::nullopt;
    } else if (tag == TagOf(PushedTensor::kTensorFieldNumber, kBytesType)) {
      std::string bytes;
      if (!in.ReadString(&bytes, n) || !head.mutable_tensor()->ParseFromString(bytes)) {
        return std::nullopt;
      }
    } else if (tag == TagOf(PushedTensor::kContentFieldNumber, kBytesType)) {
      if (content = ReadContentTensor(input, n); !content.has_value()) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (!in.ConsumedEntireMessage()) return std::nullopt;
  in.PopLimit(limit);
  if (content.has_value()) return Transfer{head.key(), {*std::move(content), head.is_dead()}};
  absl::StatusOr<Transfer> transfer = FromPushedTensor(head, allowance);
  return transfer.ok() ? std::optional<Transfer>(*std::move(transfer)) : std::nullopt;
}

std::optional<Push> ReadPush(MessageInput& input) {
  CodedInputStream& in = input.in();
  Push push;
  int64_t allowance = kExpansionBytes;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag == TagOf(PushRequest::kStepIdFieldNumber, kVarintType)) {
      uint64_t step_id = 0;
      if (!in.ReadVarint64(&step_id)) return std::nullopt;
      push.step_id = static_cast<int64_t>(step_id);
    } else if (tag == TagOf(PushRequest::kTensorFieldNumber, kBytesType)) {
      int length = 0;
      if (!ReadLength(in, &length)) return std::nullopt;
      std::optional<Transfer> transfer = ReadTransfer(input, length, &allowance);
      if (!transfer.has_value()) return std::nullopt;
      push.tensors.push_back(*std::move(transfer));
    } else {
      return std::nullopt;
    }
  }
  return in.ConsumedEntireMessage() ? std::optional<Push>(std::move(push)) : std::nullopt;
}

}  // namespace

absl::StatusOr<Push> ParsePushRequest(grpc::ByteBuffer& buffer) {
  MessageInput input(buffer);
  std::optional<Push> push = input.ok() ? ReadPush(input) : std::nullopt;
  if (push.has_value()) return *std::move(push);
  return InvalidArgument("The request (", buffer.Length(), " bytes) is not a valid PushRequest");
}

absl::StatusOr<grpc::ByteBuffer> SerializeRecvTensorResponse(const Rendezvous::Value& value) {
  MessageWriter writer;
  if (value.tensor.has_value()) {
    RETURN_IF_ERROR(CheckEncodable(value.tensor));
    writer.Varint(RecvTensorResponse::kIsDeadFieldNumber, value.dead ? 1 : 0);
    writer.Varint(RecvTensorResponse::kSendStartMicrosFieldNumber,
                  static_cast<uint64_t>(absl::ToUnixMicros(absl::Now())));
    writer.AddTensor(RecvTensorResponse::kTensorFieldNumber, value.tensor);
  } else {
    // A dead value has no tensor, but TensorFlow requires one in the message.
    tensorflow::RecvTensorResponse response;
    response.set_is_dead(value.dead);
    response.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
    response.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(0);
    return SerializeMessage(response);
  }
  return writer.Finish();
}

absl::Status ParseRecvTensorResponse(grpc::ByteBuffer& buffer, Rendezvous::Value* value) {
  {
    grpc::ByteBuffer copy = buffer;  // shares the slices
    MessageInput input(copy);
    CodedInputStream& in = input.in();
    bool simple = input.ok();
    bool dead = false;
    std::optional<Tensor> tensor;
    while (simple) {
      const uint32_t tag = in.ReadTag();
      if (tag == 0) break;
      uint64_t number = 0;
      if (tag == TagOf(RecvTensorResponse::kTensorFieldNumber, kBytesType)) {
        int length = 0;
        simple = ReadLength(in, &length) && (tensor = ReadContentTensor(input, length)).has_value();
      } else if (tag == TagOf(RecvTensorResponse::kIsDeadFieldNumber, kVarintType)) {
        simple = in.ReadVarint64(&number);
        dead = number != 0;
      } else if (tag == TagOf(RecvTensorResponse::kSendStartMicrosFieldNumber, kVarintType)) {
        simple = in.ReadVarint64(&number);
      } else {
        simple = false;
      }
    }
    if (simple && tensor.has_value() && in.ConsumedEntireMessage()) {
      *value = {*std::move(tensor), dead};
      return absl::OkStatus();
    }
  }
  tensorflow::RecvTensorResponse response;
  RETURN_IF_ERROR(ParseMessage(buffer, &response));
  value->dead = response.is_dead();
  if (value->dead) return absl::OkStatus();
  int64_t allowance = kExpansionBytes;
  ASSIGN_OR_RETURN(value->tensor, TensorFromProto(std::move(*response.mutable_tensor()), &allowance));
  return absl::OkStatus();
}

}  // namespace thalweg
