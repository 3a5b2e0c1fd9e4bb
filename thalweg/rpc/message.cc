// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/message.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/time/clock.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "thalweg/base/machine_memory.h"
#include "thalweg/base/status.h"
#include "thalweg/base/varint.h"
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

size_t ContentBytes(const Tensor& tensor) { return tensor.num_elements() * ElementSize(tensor.dtype()); }

// Reads the length of a field. Returns false if the message ends before the field does, so that a
// wrong length cannot claim memory. REQUIRES: a limit is set.
bool ReadLength(CodedInputStream& in, int* length) {
  uint64_t n = 0;
  if (!in.ReadVarint64(&n) || n > static_cast<uint64_t>(in.BytesUntilLimit())) return false;
  *length = static_cast<int>(n);
  return true;
}

// Tensors of at least this size are not copied out of a message, if its memory allows that.
constexpr int kInPlaceBytes = 32 << 10;

// The bytes of some slices.
class SliceStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit SliceStream(const std::vector<grpc::Slice>& slices) : slices_(slices) {}
  bool Next(const void** data, int* size) override {
    while (next_ < slices_.size() && at_ == slices_[next_].size()) {
      ++next_;
      at_ = 0;
    }
    if (next_ == slices_.size()) return false;
    *data = slices_[next_].begin() + at_;
    *size = static_cast<int>(slices_[next_].size() - at_);
    at_ = slices_[next_].size();
    count_ += *size;
    return true;
  }
  void BackUp(int count) override {
    at_ -= static_cast<size_t>(count);
    count_ -= count;
  }
  bool Skip(int count) override {
    const void* data = nullptr;
    for (int size = 0; count > 0; count -= size) {
      if (!Next(&data, &size)) return false;
      if (size <= count) continue;
      BackUp(size - count);
      return true;
    }
    return true;
  }
  int64_t ByteCount() const override { return count_; }

 private:
  const std::vector<grpc::Slice>& slices_;
  size_t next_ = 0;  // the slice, and where in it
  size_t at_ = 0;
  int64_t count_ = 0;
};

// Reads a message with the limits that ReadLength() needs.
class LimitedInput {
 public:
  explicit LimitedInput(grpc::ByteBuffer& buffer)
      : bytes_(buffer.Length()), ok_(Open(buffer)), stream_(slices_), in_(&stream_) {
    if (ok_) in_.PushLimit(static_cast<int>(bytes_));
  }
  bool ok() const { return ok_; }
  CodedInputStream& in() { return in_; }

  // The next bytes as a tensor that refers to the message's own memory. nullopt, and nothing is read, if they
  // must be copied.
  //
  // The memory may be shared with the sender. A tensor of floating-point numbers stays one, whatever the
  // sender writes there later; integers may be indices, which kernels check before they use them, so nobody
  // else may change them in between.
  std::optional<Tensor> TakeInPlace(DType dtype, const Shape& shape, int bytes) {
    const void* data = nullptr;
    int ready = 0;
    if (bytes < kInPlaceBytes || !IsFloatingPoint(dtype) || !in_.GetDirectBufferPointer(&data, &ready) ||
        ready < bytes || reinterpret_cast<uintptr_t>(data) % Allocator::kAlignment != 0) {
      return std::nullopt;
    }
    const auto* begin = static_cast<const uint8_t*>(data);
    const auto slice = std::find_if(slices_.begin(), slices_.end(), [&](const grpc::Slice& s) {
      return std::less_equal<>()(s.begin(), begin) && std::less<>()(begin, s.end());
    });
    // A tensor must not keep a message alive that is much larger than itself.
    if (slice == slices_.end() || slice->size() / 2 > static_cast<size_t>(bytes) || !in_.Skip(bytes)) {
      return std::nullopt;
    }
    BufferPtr buffer(Buffer::Wrap(data, static_cast<size_t>(bytes), [held = *slice] {}));
    return Tensor(dtype, shape, std::move(buffer), const_cast<void*>(data));
  }

 private:
  static bool IsFloatingPoint(DType dtype) {
    return dtype == kFloat || dtype == kDouble || dtype == kHalf || dtype == kBfloat16 || dtype == kComplex64 ||
           dtype == kComplex128;
  }
  bool Open(grpc::ByteBuffer& buffer) {
    return bytes_ <= std::numeric_limits<int32_t>::max() && (bytes_ == 0 || buffer.Dump(&slices_).ok());
  }

  const size_t bytes_;
  std::vector<grpc::Slice> slices_;
  const bool ok_;
  SliceStream stream_;
  CodedInputStream in_;
};

// Reads a TensorProto whose last field is tensor_content. The elements stay where they are, or are copied directly
// into a tensor. nullopt if it has any other form; the caller then parses it with protobuf.
// REQUIRES: 0 <= length <= in.BytesUntilLimit()
std::optional<Tensor> ReadContentTensor(LimitedInput& input, int length) {
  CodedInputStream& in = input.in();
  const auto limit = in.PushLimit(length);
  tensorflow::TensorProto head;
  for (;;) {
    const uint32_t tag = in.ReadTag();
    if (tag == TagOf(TensorProto::kDtypeFieldNumber, kVarintType)) {
      uint32_t dtype = 0;
      if (!in.ReadVarint32(&dtype)) return std::nullopt;
      head.set_dtype(static_cast<tensorflow::DataType>(dtype));
    } else if (tag == TagOf(TensorProto::kTensorShapeFieldNumber, kBytesType)) {
      int bytes = 0;
      if (!ReadLength(in, &bytes)) return std::nullopt;
      const auto shape_limit = in.PushLimit(bytes);
      if (!head.mutable_tensor_shape()->MergeFromCodedStream(&in) || !in.ConsumedEntireMessage()) return std::nullopt;
      in.PopLimit(shape_limit);
    } else if (tag == TagOf(TensorProto::kTensorContentFieldNumber, kBytesType)) {
      int bytes = 0;
      if (!ReadLength(in, &bytes) || bytes != in.BytesUntilLimit()) return std::nullopt;
      const int number = head.dtype();
      if (number <= 0 || number >= 100 || !IsKnown(static_cast<DType>(number))) return std::nullopt;
      const DType dtype = static_cast<DType>(number);
      const absl::StatusOr<Shape> shape = Shape::FromProto(head.tensor_shape());
      if (!shape.ok() || dtype == kBool || ElementSize(dtype) == 0 ||
          shape->num_elements() != static_cast<int64_t>(bytes / ElementSize(dtype)) ||
          bytes % ElementSize(dtype) != 0) {
        return std::nullopt;
      }
      std::optional<Tensor> in_place = input.TakeInPlace(dtype, *shape, bytes);
      if (in_place.has_value()) {
        in.PopLimit(limit);
        return in_place;
      }
      absl::StatusOr<Tensor> tensor = Tensor::Allocate(dtype, *shape);
      if (!tensor.ok() || !in.ReadRaw(tensor->raw(), bytes)) return std::nullopt;
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
std::optional<Transfer> ReadTransfer(LimitedInput& input, int length, int64_t* allowance) {
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

std::optional<Push> ReadPush(LimitedInput& input) {
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
  LimitedInput input(buffer);
  std::optional<Push> push = input.ok() ? ReadPush(input) : std::nullopt;
  if (push.has_value()) return *std::move(push);
  return InvalidArgument("The request (", buffer.Length(), " bytes) is not a valid PushRequest");
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

// An incomplete tensor is discarded if no piece has arrived for this long.
constexpr absl::Duration kAbandonedAfter = absl::Minutes(1);

// Reads the fields before the data of a piece; `bytes` is the size of the data that follow.
bool ReadPieceHead(CodedInputStream& in, tensorflow::PushPieceRequest* head, int* bytes) {
  for (;;) {
    const uint32_t tag = in.ReadTag();
    uint64_t number = 0;
    int length = 0;
    const bool counted = (tag & 7) == kBytesType;
    if (tag == 0 || !(counted ? ReadLength(in, &length) : in.ReadVarint64(&number))) return false;
    if (tag == TagOf(PushPieceRequest::kStepIdFieldNumber, kVarintType)) {
      head->set_step_id(static_cast<int64_t>(number));
    } else if (tag == TagOf(PushPieceRequest::kDtypeFieldNumber, kVarintType)) {
      head->set_dtype(static_cast<tensorflow::DataType>(number));
    } else if (tag == TagOf(PushPieceRequest::kOffsetFieldNumber, kVarintType)) {
      head->set_offset(static_cast<int64_t>(number));
    } else if (tag == TagOf(PushPieceRequest::kKeyFieldNumber, kBytesType)) {
      if (!in.ReadString(head->mutable_key(), length)) return false;
    } else if (tag == TagOf(PushPieceRequest::kShapeFieldNumber, kBytesType)) {
      std::string shape;
      if (!in.ReadString(&shape, length) || !head->mutable_shape()->ParseFromString(shape)) {
        return false;
      }
    } else if (tag == TagOf(PushPieceRequest::kDataFieldNumber, kBytesType)) {
      *bytes = length;
      return true;
    } else {
      return false;
    }
  }
}

}  // namespace

PieceTable::PieceTable()
    : max_bytes_(std::max<int64_t>(int64_t{1} << 30, static_cast<int64_t>(MachineMemoryBytes() / 4))) {}

template <typename Which>
void PieceTable::RemoveIf(Which which) {
  std::vector<Tensor> removed;  // freed without the lock
  MutexLock lock(&mutex_);
  std::erase_if(incoming_, [&](auto& entry) {
    mutex_.AssertHeld();
    if (!which(entry)) return false;
    bytes_ -= static_cast<int64_t>(ContentBytes(entry.second.tensor));
    removed.push_back(std::move(entry.second.tensor));
    return true;
  });
}

void PieceTable::RemoveAbandoned(absl::Time then) {
  RemoveIf([&](const auto& entry) { return entry.second.last < then; });
}

void PieceTable::Remove(int64_t step_id) {
  RemoveIf([&](const auto& entry) { return entry.first.first == step_id; });
}

int64_t PieceTable::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

void PieceTable::SetAlarm() {
  if (std::exchange(alarm_set_, true)) return;
  timer_.Set(absl::Now() + kAbandonedAfter, [this] {
    RemoveAbandoned(absl::Now() - kAbandonedAfter);
    MutexLock lock(&mutex_);
    alarm_set_ = false;
    if (!incoming_.empty()) SetAlarm();
  });
}

absl::StatusOr<PieceTable::Incoming*> PieceTable::FindOrAdd(const Key& key, DType dtype, const Shape& shape) {
  const auto it = incoming_.find(key);
  if (it != incoming_.end()) return &it->second;
  const int64_t room = (max_bytes_ - bytes_) / static_cast<int64_t>(ElementSize(dtype));
  if (shape.num_elements() > room) {
    return ResourceExhausted("No room for the pieces of a tensor ", shape, ": incomplete tensors take ", bytes_,
                             " of at most ", max_bytes_, " bytes");
  }
  Incoming incoming;
  ASSIGN_OR_RETURN(incoming.tensor, Tensor::Allocate(dtype, shape));
  incoming.missing = static_cast<int64_t>(ContentBytes(incoming.tensor));
  bytes_ += incoming.missing;
  SetAlarm();
  return &incoming_.emplace(key, std::move(incoming)).first->second;
}

absl::StatusOr<std::optional<Push>> PieceTable::Add(grpc::ByteBuffer& buffer) {
  LimitedInput input(buffer);
  tensorflow::PushPieceRequest head;
  int bytes = 0;
  if (!input.ok() || !ReadPieceHead(input.in(), &head, &bytes)) {
    return InvalidArgument("The request (", buffer.Length(), " bytes) is not a valid PushPieceRequest");
  }
  const int dtype = head.dtype();
  if (dtype <= 0 || dtype >= 100 || !IsKnown(static_cast<DType>(dtype)) || static_cast<DType>(dtype) == kBool ||
      ElementSize(static_cast<DType>(dtype)) == 0) {
    return InvalidArgument("A piece of ", head.key(), " cannot be of type ", dtype);
  }
  ASSIGN_OR_RETURN(const Shape shape, Shape::FromProto(head.shape()));
  const Key key(head.step_id(), head.key());
  // Reserve the range of this piece under the lock, copy the bytes without it, and count them under the
  // lock again.
  Tensor tensor;  // shares the memory with the one in the table
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(Incoming * found, FindOrAdd(key, static_cast<DType>(dtype), shape));
    Incoming& incoming = *found;
    const int64_t size = static_cast<int64_t>(ContentBytes(incoming.tensor)), begin = head.offset();
    const bool inside = begin >= 0 && bytes > 0 && begin <= size - bytes;
    const int64_t end = inside ? begin + bytes : begin;
    // `pieces` is sorted and without overlaps, so only the neighbours can overlap.
    const auto next = incoming.pieces.lower_bound(begin);
    const bool overlaps = (next != incoming.pieces.end() && next->first < end) ||
                          (next != incoming.pieces.begin() && std::prev(next)->second > begin);
    if (incoming.tensor.dtype() != static_cast<DType>(dtype) || incoming.tensor.shape() != shape || !inside ||
        overlaps) {
      if (incoming.pieces.empty()) {
        bytes_ -= size;
        incoming_.erase(key);
      }
      return InvalidArgument("A piece of ", head.key(), " does not fit the other pieces of the tensor");
    }
    incoming.pieces.emplace(begin, end);
    incoming.last = absl::Now();
    tensor = incoming.tensor;
  }
  // Pieces do not overlap, so threads can copy them concurrently.
  char* to = static_cast<char*>(const_cast<void*>(static_cast<const Tensor&>(tensor).raw())) + head.offset();
  if (!input.in().ReadRaw(to, bytes)) return InvalidArgument("A piece of ", head.key(), " is cut short");
  MutexLock lock(&mutex_);
  const auto it = incoming_.find(key);
  // The step may have ended meanwhile, and another step with the same id may have begun.
  if (it == incoming_.end() || !it->second.tensor.SharesBufferWith(tensor)) return std::nullopt;
  it->second.missing -= bytes;
  if (it->second.missing > 0) return std::nullopt;
  bytes_ -= static_cast<int64_t>(ContentBytes(tensor));
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
    LimitedInput input(copy);
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
