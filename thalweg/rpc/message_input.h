// SPDX-License-Identifier: Apache-2.0
// MessageInput: reads messages field by field, so that the elements of large tensors are not copied.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Protobuf's wire format: the type of a field is in the low bits of its tag.
inline constexpr int kVarintType = 0;
inline constexpr int kBytesType = 2;
constexpr uint32_t TagOf(int field, int type) { return static_cast<uint32_t>(field << 3 | type); }

// The size of the elements in memory and in a message.
inline size_t ContentBytes(const Tensor& tensor) { return tensor.num_elements() * ElementSize(tensor.dtype()); }

// The bytes of some slices.
class SliceStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit SliceStream(const std::vector<grpc::Slice>& slices) : slices_(slices) {}
  bool Next(const void** data, int* size) override;
  void BackUp(int count) override;
  bool Skip(int count) override;
  int64_t ByteCount() const override { return count_; }

 private:
  const std::vector<grpc::Slice>& slices_;
  size_t next_ = 0;  // the slice, and where in it
  size_t at_ = 0;
  int64_t count_ = 0;
};

// Reads a message with the limits that ReadLength() needs.
class MessageInput {
 public:
  explicit MessageInput(grpc::ByteBuffer& buffer);
  bool ok() const { return ok_; }
  google::protobuf::io::CodedInputStream& in() { return in_; }

  // The next bytes as a tensor that refers to the message's own memory. nullopt, and nothing is read, if they
  // must be copied.
  //
  // The memory may be shared with the sender. A tensor of floating-point numbers stays one, whatever the
  // sender writes there later; integers may be indices, which kernels check before they use them, so nobody
  // else may change them in between.
  std::optional<Tensor> TakeInPlace(DType dtype, const Shape& shape, int bytes);

 private:
  bool Open(grpc::ByteBuffer& buffer);

  const size_t bytes_;
  std::vector<grpc::Slice> slices_;
  const bool ok_;
  SliceStream stream_;
  google::protobuf::io::CodedInputStream in_;
};

// Reads the length of a field. Returns false if the message ends before the field does, so that a
// wrong length cannot claim memory. REQUIRES: a limit is set.
bool ReadLength(google::protobuf::io::CodedInputStream& in, int* length);

// Reads a TensorProto whose last field is tensor_content. The elements stay where they are, or are copied directly
// into a tensor. nullopt if it has any other form; the caller then parses it with protobuf.
// REQUIRES: 0 <= length <= in.BytesUntilLimit()
std::optional<Tensor> ReadContentTensor(MessageInput& input, int length);

}  // namespace thalweg
