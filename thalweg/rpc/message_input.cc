// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/message_input.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "thalweg/proto/tensor.pb.h"

namespace thalweg {

using google::protobuf::io::CodedInputStream;
using tensorflow::TensorProto;

namespace {

// Tensors of at least this size are not copied out of a message, if its memory allows that.
constexpr int kInPlaceBytes = 32 << 10;

bool IsFloatingPoint(DType dtype) {
  return dtype == kFloat || dtype == kDouble || dtype == kHalf || dtype == kBfloat16 || dtype == kComplex64 ||
         dtype == kComplex128;
}

}  // namespace

bool SliceStream::Next(const void** data, int* size) {
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

void SliceStream::BackUp(int count) {
  at_ -= static_cast<size_t>(count);
  count_ -= count;
}

bool SliceStream::Skip(int count) {
  const void* data = nullptr;
  for (int size = 0; count > 0; count -= size) {
    if (!Next(&data, &size)) return false;
    if (size <= count) continue;
    BackUp(size - count);
    return true;
  }
  return true;
}

MessageInput::MessageInput(grpc::ByteBuffer& buffer)
    : bytes_(buffer.Length()), ok_(Open(buffer)), stream_(slices_), in_(&stream_) {
  if (ok_) in_.PushLimit(static_cast<int>(bytes_));
}

bool MessageInput::Open(grpc::ByteBuffer& buffer) {
  return bytes_ <= std::numeric_limits<int32_t>::max() && (bytes_ == 0 || buffer.Dump(&slices_).ok());
}

std::optional<Tensor> MessageInput::TakeInPlace(DType dtype, const Shape& shape, int bytes) {
  const void* data = nullptr;
  int ready = 0;
  if (bytes < kInPlaceBytes || !IsFloatingPoint(dtype) || !in_.GetDirectBufferPointer(&data, &ready) || ready < bytes ||
      reinterpret_cast<uintptr_t>(data) % Allocator::kAlignment != 0) {
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

bool ReadLength(CodedInputStream& in, int* length) {
  uint64_t n = 0;
  if (!in.ReadVarint64(&n) || n > static_cast<uint64_t>(in.BytesUntilLimit())) return false;
  *length = static_cast<int>(n);
  return true;
}

std::optional<Tensor> ReadContentTensor(MessageInput& input, int length) {
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

}  // namespace thalweg
