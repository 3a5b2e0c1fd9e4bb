// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/script_message.h"

#include <bit>
#include <cstring>
#include <utility>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

static_assert(std::endian::native == std::endian::little);

absl::Status TooShort() { return InvalidArgument("A result of the program is shorter than it says"); }

template <typename T>
void Append(std::string* to, T number) {
  to->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

bool HasElements(DType type) { return type == kString || ElementSize(type) > 0; }

absl::Status AppendTensor(const Tensor& tensor, std::string* to) {
  if (!HasElements(tensor.dtype())) {
    return Unimplemented("A Python function cannot take a tensor of type ", tensor.dtype());
  }
  Append<uint32_t>(to, static_cast<uint32_t>(tensor.dtype()));
  Append<uint32_t>(to, tensor.rank());
  for (const int64_t dim : tensor.shape().dims()) Append<int64_t>(to, dim);
  if (tensor.dtype() != kString) {
    to->append(static_cast<const char*>(tensor.raw()), tensor.TotalBytes());
    return absl::OkStatus();
  }
  for (const std::string& s : tensor.flat<std::string>()) Append<uint64_t>(to, s.size());
  for (const std::string& s : tensor.flat<std::string>()) to->append(s);
  return absl::OkStatus();
}

// Takes what a message has, front to back.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  absl::StatusOr<T> Number() {
    T number = 0;
    if (bytes_.size() < sizeof(T)) return TooShort();
    std::memcpy(&number, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return number;
  }
  absl::StatusOr<absl::string_view> Bytes(uint64_t n) {
    if (bytes_.size() < n) return TooShort();
    const absl::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return taken;
  }
  absl::StatusOr<Tensor> TakeTensor();

 private:
  absl::StatusOr<Shape> TakeShape();
  absl::Status TakeStrings(Tensor* tensor);

  absl::string_view bytes_;
};

absl::StatusOr<Shape> Reader::TakeShape() {
  ASSIGN_OR_RETURN(const uint32_t rank, Number<uint32_t>());
  if (rank > Shape::kMaxRank) return InvalidArgument("A result of the program has ", rank, " dimensions");
  Dims dims;
  for (uint32_t i = 0; i < rank; ++i) {
    ASSIGN_OR_RETURN(const int64_t dim, Number<int64_t>());
    dims.push_back(dim);
  }
  return Shape::Make(dims);
}

absl::Status Reader::TakeStrings(Tensor* tensor) {
  Reader lengths(bytes_.substr(0, tensor->num_elements() * sizeof(uint64_t)));
  bytes_.remove_prefix(tensor->num_elements() * sizeof(uint64_t));
  for (std::string& s : tensor->flat<std::string>()) {
    ASSIGN_OR_RETURN(const uint64_t length, lengths.Number<uint64_t>());
    ASSIGN_OR_RETURN(const absl::string_view text, Bytes(length));
    s = std::string(text);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Reader::TakeTensor() {
  ASSIGN_OR_RETURN(const uint32_t number, Number<uint32_t>());
  const DType type = static_cast<DType>(number);
  if (number > UINT8_MAX || !IsKnown(type) || IsRef(type) || !HasElements(type)) {
    return InvalidArgument("A result of the program is of type ", number, ", which is not one of tensors");
  }
  ASSIGN_OR_RETURN(Shape shape, TakeShape());
  const uint64_t each = type == kString ? sizeof(uint64_t) : ElementSize(type);
  // Before memory is taken.
  if (static_cast<uint64_t>(shape.num_elements()) > bytes_.size() / each) return TooShort();
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type, std::move(shape)));
  if (type == kString) {
    RETURN_IF_ERROR(TakeStrings(&tensor));
    return tensor;
  }
  ASSIGN_OR_RETURN(const absl::string_view elements, Bytes(tensor.num_elements() * each));
  if (!elements.empty()) std::memcpy(tensor.raw(), elements.data(), elements.size());
  return tensor;
}

}  // namespace

absl::StatusOr<std::string> EncodeCall(const ScriptCall& call) {
  std::string bytes;
  Append<uint64_t>(&bytes, 0);
  Append<uint32_t>(&bytes, call.eager ? 1 : 0);
  Append<uint32_t>(&bytes, static_cast<uint32_t>(call.token.size()));
  Append<uint32_t>(&bytes, static_cast<uint32_t>(call.inputs.size()));
  bytes.append(call.token);
  for (const Tensor& input : call.inputs) RETURN_IF_ERROR(AppendTensor(input, &bytes));
  const uint64_t size = bytes.size() - sizeof(uint64_t);
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes;
}

absl::StatusOr<std::vector<Tensor>> DecodeResult(absl::string_view bytes) {
  Reader reader(bytes);
  ASSIGN_OR_RETURN(const uint32_t code, reader.Number<uint32_t>());
  ASSIGN_OR_RETURN(const uint32_t text_bytes, reader.Number<uint32_t>());
  ASSIGN_OR_RETURN(const uint32_t tensors, reader.Number<uint32_t>());
  ASSIGN_OR_RETURN(const absl::string_view text, reader.Bytes(text_bytes));
  if (code != 0) return absl::Status(static_cast<absl::StatusCode>(code), text);
  std::vector<Tensor> outputs;
  for (uint32_t i = 0; i < tensors; ++i) {
    ASSIGN_OR_RETURN(Tensor tensor, reader.TakeTensor());
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

}  // namespace thalweg
