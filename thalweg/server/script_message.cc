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

// The place of a large tensor in shared memory is aligned as tensors are.
size_t MemoryOf(const Tensor& tensor) {
  constexpr size_t kAlign = 64;
  const size_t bytes = tensor.dtype() == kString ? 0 : tensor.TotalBytes();
  return bytes < kSmallestInMemory ? 0 : (bytes + kAlign - 1) / kAlign * kAlign;
}

// `used`: bytes of the memory that other tensors take.
void AppendTensor(const Tensor& tensor, SharedMemory* memory, size_t* used, std::string* to) {
  const size_t place = memory == nullptr ? 0 : MemoryOf(tensor);
  Append<uint32_t>(to, static_cast<uint32_t>(tensor.dtype()) | (place > 0 ? kInMemory : 0));
  Append<uint32_t>(to, tensor.rank());
  for (const int64_t dim : tensor.shape().dims()) Append<int64_t>(to, dim);
  if (place > 0) {
    std::memcpy(memory->data() + *used, tensor.raw(), tensor.TotalBytes());
    Append<uint64_t>(to, *used);
    *used += place;
  } else if (tensor.dtype() != kString) {
    to->append(static_cast<const char*>(tensor.raw()), tensor.TotalBytes());
  } else {
    for (const std::string& s : tensor.flat<std::string>()) Append<uint64_t>(to, s.size());
    for (const std::string& s : tensor.flat<std::string>()) to->append(s);
  }
}

// Takes what a message has, front to back.
class Reader {
 public:
  explicit Reader(absl::string_view bytes, const SharedMemory* memory = nullptr) : bytes_(bytes), memory_(memory) {}
  bool done() const { return bytes_.empty(); }

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
  // One call's result, and the second number of its record.
  absl::Status TakeResult(ScriptResult* result, uint32_t* b);

 private:
  absl::StatusOr<Shape> TakeShape();
  // The elements of a tensor in shared memory.
  absl::StatusOr<absl::string_view> InMemory(uint64_t bytes);
  absl::Status TakeStrings(Tensor* tensor);

  absl::string_view bytes_;
  const SharedMemory* const memory_;
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
  ASSIGN_OR_RETURN(uint32_t number, Number<uint32_t>());
  const bool in_memory = (number & kInMemory) != 0;
  number &= ~kInMemory;
  const DType type = static_cast<DType>(number);
  if (number > UINT8_MAX || !IsKnown(type) || IsRef(type) || !HasElements(type)) {
    return InvalidArgument("A result of the program is of type ", number, ", which is not one of tensors");
  }
  ASSIGN_OR_RETURN(Shape shape, TakeShape());
  const uint64_t each = type == kString ? sizeof(uint64_t) : ElementSize(type);
  // Before memory is taken.
  const uint64_t limit = !in_memory ? bytes_.size() : memory_ == nullptr || type == kString ? 0 : memory_->bytes();
  if (static_cast<uint64_t>(shape.num_elements()) > limit / each) return TooShort();
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type, std::move(shape)));
  if (type == kString) {
    RETURN_IF_ERROR(TakeStrings(&tensor));
    return tensor;
  }
  const uint64_t total = tensor.num_elements() * each;
  ASSIGN_OR_RETURN(const absl::string_view elements, in_memory ? InMemory(total) : Bytes(total));
  if (!elements.empty()) std::memcpy(tensor.raw(), elements.data(), elements.size());
  return tensor;
}

absl::StatusOr<absl::string_view> Reader::InMemory(uint64_t bytes) {
  ASSIGN_OR_RETURN(const uint64_t offset, Number<uint64_t>());
  if (memory_ == nullptr || bytes > memory_->bytes() || offset > memory_->bytes() - bytes) {
    return InvalidArgument("A result of the program is outside of the shared memory");
  }
  return absl::string_view(memory_->data() + offset, bytes);
}

absl::Status Reader::TakeResult(ScriptResult* result, uint32_t* b) {
  ASSIGN_OR_RETURN(const uint32_t code, Number<uint32_t>());
  ASSIGN_OR_RETURN(*b, Number<uint32_t>());
  ASSIGN_OR_RETURN(const uint32_t text_bytes, Number<uint32_t>());
  ASSIGN_OR_RETURN(const uint32_t tensors, Number<uint32_t>());
  ASSIGN_OR_RETURN(const absl::string_view text, Bytes(text_bytes));
  if (code != 0) {
    *result = absl::Status(static_cast<absl::StatusCode>(code), text);
    return absl::OkStatus();
  }
  std::vector<Tensor> outputs;
  for (uint32_t i = 0; i < tensors; ++i) {
    ASSIGN_OR_RETURN(Tensor tensor, TakeTensor());
    outputs.push_back(std::move(tensor));
  }
  *result = std::move(outputs);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCall(const ScriptCall& call) {
  for (const Tensor& input : call.inputs) {
    if (!HasElements(input.dtype())) {
      return Unimplemented("A Python function cannot take a tensor of type ", input.dtype());
    }
  }
  return absl::OkStatus();
}

size_t MemoryOfInputs(const ScriptCall& call) {
  size_t bytes = 0;
  for (const Tensor& input : call.inputs) bytes += MemoryOf(input);
  return bytes;
}

std::string EncodeCall(const ScriptCall& call, SharedMemory* memory) {
  std::string bytes;
  size_t used = 0;
  Append<uint64_t>(&bytes, 0);
  Append<uint32_t>(&bytes, call.eager ? 1 : 0);
  Append<uint32_t>(&bytes, call.repeat);
  Append<uint32_t>(&bytes, static_cast<uint32_t>(call.token.size()));
  Append<uint32_t>(&bytes, static_cast<uint32_t>(call.inputs.size()));
  bytes.append(call.token);
  for (const Tensor& input : call.inputs) AppendTensor(input, memory, &used, &bytes);
  const uint64_t size = bytes.size() - sizeof(uint64_t);
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes;
}

absl::StatusOr<ScriptAnswer> DecodeAnswer(absl::string_view bytes, const SharedMemory* memory) {
  ScriptAnswer answer;
  Reader reader(bytes, memory);
  do {
    if (!answer.results.empty() && !answer.results.back().ok()) {
      return InvalidArgument("An answer of the program goes on after an error");
    }
    ScriptResult result;
    uint32_t used = 0;
    RETURN_IF_ERROR(reader.TakeResult(&result, &used));
    answer.memory_used = used != 0;
    if (result.ok()) {
      for (const Tensor& tensor : *result) answer.memory += MemoryOf(tensor);
    }
    answer.results.push_back(std::move(result));
  } while (!reader.done());
  return answer;
}

}  // namespace thalweg
