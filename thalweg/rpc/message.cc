#include "thalweg/rpc/message.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/time/clock.h"
#include "google/protobuf/io/coded_stream.h"
#include "thalweg/base/status.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using google::protobuf::io::CodedInputStream;
using tensorflow::NamedTensorProto;
using tensorflow::PushedTensor;
using tensorflow::PushPieceRequest;
using tensorflow::PushRequest;
using tensorflow::RecvTensorResponse;
using tensorflow::TensorProto;

constexpr int kVarintType = 0;
constexpr int kBytesType = 2;
constexpr uint32_t TagOf(int field, int type) { return static_cast<uint32_t>(field << 3 | type); }

size_t VarintSize(uint64_t value) {
  size_t n = 1;
  for (; value >= 0x80; value >>= 7) ++n;
  return n;
}

void AppendVarint(std::string* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

// The part of a TensorProto before the elements: type, shape, and the tag and
// length of tensor_content. Empty if this tensor cannot be written so.
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

size_t ContentBytes(const Tensor& tensor) { return tensor.num_elements() * ElementSize(tensor.dtype()); }

// Reads a TensorProto whose elements come last, as tensor_content, straight
// into a tensor. nullopt if it is of any other form.
std::optional<Tensor> ReadContentTensor(CodedInputStream& in, int length) {
  const auto limit = in.PushLimit(length);
  tensorflow::TensorProto head;
  for (;;) {
    const uint32_t tag = in.ReadTag();
    if (tag == TagOf(TensorProto::kDtypeFieldNumber, kVarintType)) {
      uint32_t dtype = 0;
      if (!in.ReadVarint32(&dtype)) return std::nullopt;
      head.set_dtype(static_cast<tensorflow::DataType>(dtype));
    } else if (tag == TagOf(TensorProto::kTensorShapeFieldNumber, kBytesType)) {
      uint32_t bytes = 0;
      if (!in.ReadVarint32(&bytes)) return std::nullopt;
      const auto shape_limit = in.PushLimit(static_cast<int>(bytes));
      if (!head.mutable_tensor_shape()->MergeFromCodedStream(&in) || !in.ConsumedEntireMessage()) return std::nullopt;
      in.PopLimit(shape_limit);
    } else if (tag == TagOf(TensorProto::kTensorContentFieldNumber, kBytesType)) {
      uint32_t bytes = 0;
      if (!in.ReadVarint32(&bytes) || static_cast<int>(bytes) != in.BytesUntilLimit()) return std::nullopt;
      const int number = head.dtype();
      if (number <= 0 || number >= 100 || !IsKnown(static_cast<DType>(number))) return std::nullopt;
      const DType dtype = static_cast<DType>(number);
      const absl::StatusOr<Shape> shape = Shape::FromProto(head.tensor_shape());
      if (!shape.ok() || dtype == kBool || ElementSize(dtype) == 0 ||
          shape->num_elements() != static_cast<int64_t>(bytes / ElementSize(dtype)) ||
          bytes % ElementSize(dtype) != 0) {
        return std::nullopt;
      }
      absl::StatusOr<Tensor> tensor = Tensor::Allocate(dtype, *shape);
      if (!tensor.ok() || !in.ReadRaw(tensor->raw(), static_cast<int>(bytes))) return std::nullopt;
      in.PopLimit(limit);
      return *std::move(tensor);
    } else {
      return std::nullopt;
    }
  }
}

}  // namespace

absl::Status ParseMessage(grpc::ByteBuffer& buffer, google::protobuf::MessageLite* message) {
  grpc::ProtoBufferReader reader(&buffer);
  if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return InvalidArgument("The bytes of the call are no ", message->GetTypeName(), " (", buffer.Length(), " bytes)");
}

grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message) {
  grpc::Slice slice(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer FromHeld(HeldBytes bytes) {
  auto* holder = new std::shared_ptr<const void>(std::move(bytes.holder));
  const grpc::Slice slice(
      const_cast<char*>(bytes.data), bytes.size,
      [](void* held) { delete static_cast<std::shared_ptr<const void>*>(held); }, holder);
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status SendOver(SameHostLink& link, const LinkMessage& message, const grpc::ByteBuffer& body) {
  std::vector<grpc::Slice> slices;
  if (body.Valid() && !body.Dump(&slices).ok()) return Internal("The body of a message cannot be read");
  absl::InlinedVector<absl::string_view, 8> pieces;
  for (const grpc::Slice& s : slices) pieces.emplace_back(reinterpret_cast<const char*>(s.begin()), s.size());
  return link.Send(message, pieces);
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
  auto* holder = new Tensor(tensor);
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
  // A bool must be checked where it arrives: TensorProto's way.
  const bool as_content = tensor.has_value() && tensor.dtype() != kBool && ContentBytes(tensor) > 0;
  const std::string head = as_content ? ContentHead(tensor) : "";
  if (head.empty()) return Message(field, ToPushedTensor(transfer));
  const size_t body = head.size() + ContentBytes(tensor);
  const size_t dead = transfer.value.dead ? 2 : 0;
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

absl::StatusOr<Transfer> FromPushedTensor(tensorflow::PushedTensor& pushed) {
  Transfer transfer{.key = std::move(*pushed.mutable_key()), .value = {.tensor = {}, .dead = pushed.is_dead()}};
  if (pushed.has_tensor()) {
    ASSIGN_OR_RETURN(transfer.value.tensor, TensorFromProto(std::move(*pushed.mutable_tensor())));
  } else if (!pushed.is_dead()) {
    return InvalidArgument("There is no tensor for ", transfer.key);
  }
  return transfer;
}

namespace {

// Reads a PushedTensor. nullopt if it is malformed.
std::optional<Transfer> ReadTransfer(CodedInputStream& in, int length) {
  const auto limit = in.PushLimit(length);
  tensorflow::PushedTensor head;
  std::optional<Tensor> content;
  while (const uint32_t tag = in.ReadTag()) {
    uint32_t n = 0;
    if (!in.ReadVarint32(&n)) return std::nullopt;
    if (tag == TagOf(PushedTensor::kIsDeadFieldNumber, kVarintType)) {
      head.set_is_dead(n != 0);
      continue;
    }
    if (static_cast<int64_t>(n) > in.BytesUntilLimit()) return std::nullopt;
    if (tag == TagOf(PushedTensor::kKeyFieldNumber, kBytesType)) {
      if (!in.ReadString(head.mutable_key(), static_cast<int>(n))) return std::nullopt;
    } else if (tag == TagOf(PushedTensor::kTensorFieldNumber, kBytesType)) {
      std::string bytes;
      if (!in.ReadString(&bytes, static_cast<int>(n)) || !head.mutable_tensor()->ParseFromString(bytes)) {
        return std::nullopt;
      }
    } else if (tag == TagOf(PushedTensor::kContentFieldNumber, kBytesType)) {
      if (content = ReadContentTensor(in, static_cast<int>(n)); !content.has_value()) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (!in.ConsumedEntireMessage()) return std::nullopt;
  in.PopLimit(limit);
  if (content.has_value()) return Transfer{head.key(), {*std::move(content), head.is_dead()}};
  absl::StatusOr<Transfer> transfer = FromPushedTensor(head);
  return transfer.ok() ? std::optional<Transfer>(*std::move(transfer)) : std::nullopt;
}

std::optional<Push> ReadPush(CodedInputStream& in) {
  Push push;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag == TagOf(PushRequest::kStepIdFieldNumber, kVarintType)) {
      uint64_t step_id = 0;
      if (!in.ReadVarint64(&step_id)) return std::nullopt;
      push.step_id = static_cast<int64_t>(step_id);
    } else if (tag == TagOf(PushRequest::kTensorFieldNumber, kBytesType)) {
      uint32_t length = 0;
      if (!in.ReadVarint32(&length) || length > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
        return std::nullopt;
      }
      std::optional<Transfer> transfer = ReadTransfer(in, static_cast<int>(length));
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
  grpc::ProtoBufferReader reader(&buffer);
  CodedInputStream in(&reader);
  std::optional<Push> push = reader.status().ok() ? ReadPush(in) : std::nullopt;
  if (push.has_value()) return *std::move(push);
  return InvalidArgument("The bytes of the call are no PushRequest (", buffer.Length(), " bytes)");
}

grpc::ByteBuffer SerializePiece(int64_t step_id, const Transfer& transfer, int64_t offset, int64_t bytes) {
  const Tensor& tensor = transfer.value.tensor;
  tensorflow::PushPieceRequest head;
  head.set_step_id(step_id);
  head.set_key(transfer.key);
  head.set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  tensor.shape().ToProto(head.mutable_shape());
  head.set_offset(offset);
  std::string text = head.SerializeAsString();
  AppendVarint(&text, TagOf(PushPieceRequest::kDataFieldNumber, kBytesType));
  AppendVarint(&text, static_cast<uint64_t>(bytes));
  auto* holder = new Tensor(tensor);
  const grpc::Slice slices[] = {
      grpc::Slice(text), grpc::Slice(
                             static_cast<char*>(const_cast<void*>(tensor.raw())) + offset, static_cast<size_t>(bytes),
                             [](void* held) { delete static_cast<Tensor*>(held); }, holder)};
  return grpc::ByteBuffer(slices, 2);
}

namespace {

// A tensor of which nothing has come for so long will not be whole any more.
constexpr absl::Duration kAbandonedAfter = absl::Minutes(10);

// What comes before the data of a piece; `bytes` is how much of that follows.
bool ReadPieceHead(CodedInputStream& in, tensorflow::PushPieceRequest* head, uint32_t* bytes) {
  for (;;) {
    const uint32_t tag = in.ReadTag();
    uint64_t number = 0;
    if (!in.ReadVarint64(&number) || tag == 0) return false;
    if (tag == TagOf(PushPieceRequest::kStepIdFieldNumber, kVarintType)) {
      head->set_step_id(static_cast<int64_t>(number));
    } else if (tag == TagOf(PushPieceRequest::kDtypeFieldNumber, kVarintType)) {
      head->set_dtype(static_cast<tensorflow::DataType>(number));
    } else if (tag == TagOf(PushPieceRequest::kOffsetFieldNumber, kVarintType)) {
      head->set_offset(static_cast<int64_t>(number));
    } else if (number > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
      return false;
    } else if (tag == TagOf(PushPieceRequest::kKeyFieldNumber, kBytesType)) {
      if (!in.ReadString(head->mutable_key(), static_cast<int>(number))) return false;
    } else if (tag == TagOf(PushPieceRequest::kShapeFieldNumber, kBytesType)) {
      std::string shape;
      if (!in.ReadString(&shape, static_cast<int>(number)) || !head->mutable_shape()->ParseFromString(shape)) {
        return false;
      }
    } else if (tag == TagOf(PushPieceRequest::kDataFieldNumber, kBytesType)) {
      *bytes = static_cast<uint32_t>(number);
      return true;
    } else {
      return false;
    }
  }
}

}  // namespace

void PieceTable::RemoveAbandoned() {
  const absl::Time old = absl::Now() - kAbandonedAfter;
  std::erase_if(incoming_, [&](const auto& entry) { return entry.second.last < old; });
}

void PieceTable::Remove(int64_t step_id) {
  MutexLock lock(&mutex_);
  std::erase_if(incoming_, [&](const auto& entry) { return entry.first.first == step_id; });
}

absl::StatusOr<std::optional<Push>> PieceTable::Add(grpc::ByteBuffer& buffer) {
  const size_t length = buffer.Length();
  grpc::ProtoBufferReader reader(&buffer);
  CodedInputStream in(&reader);
  tensorflow::PushPieceRequest head;
  uint32_t bytes = 0;
  if (!reader.status().ok() || !ReadPieceHead(in, &head, &bytes) || bytes > length) {
    return InvalidArgument("The bytes of the call are no PushPieceRequest (", length, " bytes)");
  }
  const int dtype = head.dtype();
  if (dtype <= 0 || dtype >= 100 || !IsKnown(static_cast<DType>(dtype)) || static_cast<DType>(dtype) == kBool ||
      ElementSize(static_cast<DType>(dtype)) == 0) {
    return InvalidArgument("A piece of ", head.key(), " cannot be of type ", dtype);
  }
  ASSIGN_OR_RETURN(const Shape shape, Shape::FromProto(head.shape()));
  Tensor tensor;  // shares the memory with the one in the table
  {
    MutexLock lock(&mutex_);
    RemoveAbandoned();
    Incoming& incoming = incoming_[{head.step_id(), head.key()}];
    if (!incoming.tensor.has_value()) {
      ASSIGN_OR_RETURN(incoming.tensor, Tensor::Allocate(static_cast<DType>(dtype), shape));
      incoming.missing = static_cast<int64_t>(ContentBytes(incoming.tensor));
    }
    const int64_t size = static_cast<int64_t>(ContentBytes(incoming.tensor)), begin = head.offset();
    const bool inside = begin >= 0 && bytes > 0 && begin <= size - static_cast<int64_t>(bytes);
    const int64_t end = inside ? begin + static_cast<int64_t>(bytes) : begin;
    const auto next = incoming.pieces.lower_bound(begin);
    const bool overlaps = (next != incoming.pieces.end() && next->first < end) ||
                          (next != incoming.pieces.begin() && std::prev(next)->second > begin);
    if (incoming.tensor.dtype() != static_cast<DType>(dtype) || incoming.tensor.shape() != shape || !inside ||
        overlaps) {
      if (incoming.pieces.empty()) incoming_.erase({head.step_id(), head.key()});
      return InvalidArgument("A piece of ", head.key(), " does not fit the tensor that others are of");
    }
    incoming.pieces.emplace(begin, end);
    incoming.last = absl::Now();
    tensor = incoming.tensor;
  }
  // Pieces are apart: threads copy them side by side.
  char* to = static_cast<char*>(const_cast<void*>(static_cast<const Tensor&>(tensor).raw())) + head.offset();
  if (!in.ReadRaw(to, static_cast<int>(bytes))) return InvalidArgument("A piece of ", head.key(), " is cut short");
  MutexLock lock(&mutex_);
  const auto it = incoming_.find({head.step_id(), head.key()});
  if (it == incoming_.end()) return std::nullopt;  // the step has ended
  it->second.missing -= static_cast<int64_t>(bytes);
  if (it->second.missing > 0) return std::nullopt;
  incoming_.erase(it);
  Push push{.step_id = head.step_id(), .tensors = {}};
  push.tensors.push_back({head.key(), {std::move(tensor), false}});
  return push;
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
    // A dead value has no tensor, but the message must.
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
    grpc::ProtoBufferReader reader(&copy);
    CodedInputStream in(&reader);
    bool simple = reader.status().ok();
    bool dead = false;
    std::optional<Tensor> tensor;
    while (simple) {
      const uint32_t tag = in.ReadTag();
      if (tag == 0) break;
      uint64_t number = 0;
      if (tag == TagOf(RecvTensorResponse::kTensorFieldNumber, kBytesType)) {
        uint32_t length = 0;
        simple = in.ReadVarint32(&length) && (tensor = ReadContentTensor(in, static_cast<int>(length))).has_value();
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
  ASSIGN_OR_RETURN(value->tensor, TensorFromProto(std::move(*response.mutable_tensor())));
  return absl::OkStatus();
}

}  // namespace thalweg
