// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/piece_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "google/protobuf/io/coded_stream.h"
#include "thalweg/base/machine_memory.h"
#include "thalweg/base/status.h"
#include "thalweg/base/varint.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/rpc/message_input.h"

namespace thalweg {

using google::protobuf::io::CodedInputStream;
using tensorflow::PushPieceRequest;

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
  MessageInput input(buffer);
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

}  // namespace thalweg
