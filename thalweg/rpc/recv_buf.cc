// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/recv_buf.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <limits>
#include <string>

#include "thalweg/base/status.h"
#include "thalweg/base/varint.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/rpc/message.h"

namespace thalweg {
namespace {

using google::protobuf::Any;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using tensorflow::RecvBufRespExtra;
using tensorflow::RecvBufResponse;

constexpr char kTypeUrl[] = "type.googleapis.com/tensorflow.RecvBufRespExtra";

// The tag of a field and its length; the bytes follow.
std::string Head(int field, uint64_t bytes) {
  std::string head;
  AppendVarint(&head, WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  AppendVarint(&head, bytes);
  return head;
}

// Reads a message field by field. `field` reads the length-delimited fields that it knows and
// returns false on an error; other fields are skipped.
template <typename Field>
bool ReadFields(CodedInputStream& in, Field field) {
  for (;;) {
    const uint32_t tag = in.ReadTag();
    if (tag == 0) return in.ConsumedEntireMessage();
    uint32_t bytes = 0;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
    } else if (!in.ReadVarint32(&bytes) || bytes > static_cast<uint32_t>(std::numeric_limits<int32_t>::max()) ||
               !field(WireFormatLite::GetTagFieldNumber(tag), static_cast<int>(bytes))) {
      return false;
    }
  }
}

template <typename Field>
bool ReadMessage(CodedInputStream& in, int bytes, Field field) {
  const auto limit = in.PushLimit(bytes);
  if (!ReadFields(in, field) || in.BytesUntilLimit() != 0) return false;
  in.PopLimit(limit);
  return true;
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> SerializeRecvBufResponse(const Tensor& value) {
  const int64_t bytes = value.TotalBytes();
  // The bytes come last, so that all before them is known: the heads of
  // RecvBufRespExtra.tensor_content, Any.value and .transport_options.
  std::string heads = bytes == 0 ? "" : Head(RecvBufRespExtra::kTensorContentFieldNumber, bytes);
  heads.insert(0, Head(Any::kValueFieldNumber, heads.size() + bytes));
  heads.insert(0, Head(Any::kTypeUrlFieldNumber, sizeof(kTypeUrl) - 1) + kTypeUrl);
  heads.insert(0, Head(RecvBufResponse::kTransportOptionsFieldNumber, heads.size() + bytes));
  if (static_cast<int64_t>(heads.size()) + bytes > std::numeric_limits<int32_t>::max()) {
    return ResourceExhausted("A value of ", bytes, " bytes is larger than a message can be (2 GB)");
  }
  if (bytes < kSliceBytes) {
    heads.append(static_cast<const char*>(value.raw()), bytes);
    const grpc::Slice slice(heads);
    return grpc::ByteBuffer(&slice, 1);
  }
  auto* holder = new Tensor(value);
  const grpc::Slice slices[] = {grpc::Slice(heads),
                                grpc::Slice(
                                    value.raw(), bytes, [](void* held) { delete static_cast<Tensor*>(held); }, holder)};
  return grpc::ByteBuffer(slices, 2);
}

absl::Status ParseRecvBufResponse(grpc::ByteBuffer& buffer, Tensor* value) {
  const size_t length = buffer.Length();
  grpc::ProtoBufferReader reader(&buffer);
  CodedInputStream in(&reader);
  char* const room = static_cast<char*>(value->raw());
  const int64_t size = value->TotalBytes();
  int64_t got = 0;
  const auto content = [&](int field, int bytes) {
    if (field != RecvBufRespExtra::kTensorContentFieldNumber) return in.Skip(bytes);
    const int64_t begin = got;
    got += bytes;
    return got <= size ? in.ReadRaw(room + begin, bytes) : in.Skip(bytes);
  };
  const auto any = [&](int field, int bytes) {
    return field == Any::kValueFieldNumber ? ReadMessage(in, bytes, content) : in.Skip(bytes);
  };
  const auto response = [&](int field, int bytes) {
    return field == RecvBufResponse::kTransportOptionsFieldNumber ? ReadMessage(in, bytes, any) : in.Skip(bytes);
  };
  if (!reader.status().ok() || !ReadFields(in, response)) {
    return InvalidArgument("The response (", length, " bytes) is not a valid RecvBufResponse");
  }
  if (got != size) {
    return Internal("Tensor Size Mismatch: RecvBufResponse returned ", got, " bytes, expected: ", size);
  }
  return absl::OkStatus();
}

}  // namespace thalweg
