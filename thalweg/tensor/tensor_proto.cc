// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "thalweg/base/status.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using tensorflow::TensorProto;

// A message may claim far more elements than it has bytes. Up to here a graph's
// constant may repeat its last value.
constexpr int64_t kMaxExpandedBytes = int64_t{4} << 30;

template <typename T>
constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
template <typename T>
constexpr bool kIsFloat16 = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <typename T>
constexpr bool kIsObject =
    std::is_same_v<T, std::string> || std::is_same_v<T, ResourceHandle> || std::is_same_v<T, Variant>;

// The field that holds values of type T.
template <typename T>
const auto& FieldOf(const TensorProto& proto) {
  if constexpr (std::is_same_v<T, float>) {
    return proto.float_val();
  } else if constexpr (std::is_same_v<T, double>) {
    return proto.double_val();
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return proto.int64_val();
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    return proto.uint32_val();
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return proto.uint64_val();
  } else if constexpr (std::is_same_v<T, bool>) {
    return proto.bool_val();
  } else if constexpr (kIsFloat16<T>) {
    return proto.half_val();
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return proto.scomplex_val();
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return proto.dcomplex_val();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return proto.string_val();
  } else if constexpr (std::is_same_v<T, ResourceHandle>) {
    return proto.resource_handle_val();
  } else if constexpr (std::is_same_v<T, Variant>) {
    return proto.variant_val();
  } else {
    return proto.int_val();
  }
}

// The same field, for writing.
template <typename T>
auto& MutableFieldOf(TensorProto& proto) {
  using Field = std::remove_cvref_t<decltype(FieldOf<T>(proto))>;
  return const_cast<Field&>(FieldOf<T>(proto));
}

template <typename T, typename Field>
T ReadValue(const Field& field, int i) {
  if constexpr (kIsComplex<T>) {
    return T(field[2 * i], field[2 * i + 1]);
  } else if constexpr (kIsFloat16<T>) {
    return T::FromBits(static_cast<uint16_t>(field[i]));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return field[i];
  } else if constexpr (kIsObject<T>) {
    return T::FromProto(field[i]);
  } else {
    return static_cast<T>(field[i]);
  }
}

template <typename T, typename Field>
void WriteValue(const T& value, Field& field) {
  if constexpr (kIsComplex<T>) {
    field.Add(value.real());
    field.Add(value.imag());
  } else if constexpr (kIsFloat16<T>) {
    field.Add(value.bits);
  } else if constexpr (std::is_same_v<T, std::string>) {
    field.Add()->assign(value);
  } else if constexpr (kIsObject<T>) {
    value.ToProto(field.Add());
  } else {
    field.Add(value);
  }
}

// Elements in a tensor_content that are not plain numbers: n lengths as
// varint32, then the bytes of each.
absl::StatusOr<std::vector<absl::string_view>> SplitContent(absl::string_view content, int64_t n) {
  if (static_cast<int64_t>(content.size()) < n) {  // before n is believed
    return InvalidArgument("tensor_content: got ", content.size(), " bytes, expected at least ", n);
  }
  const auto* next = reinterpret_cast<const uint8_t*>(content.data());
  const auto* const end = next + content.size();
  std::vector<uint64_t> lengths(n);
  for (int64_t i = 0; i < n; ++i) {
    for (int shift = 0;; shift += 7) {
      if (next == end) return InvalidArgument("tensor_content: ended in length ", i, " of ", n);
      if (shift > 28) return InvalidArgument("tensor_content: length ", i, " of ", n, " is not a varint32");
      const uint8_t byte = *next++;
      lengths[i] |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
  }
  absl::string_view rest(reinterpret_cast<const char*>(next), end - next);
  std::vector<absl::string_view> elements(n);
  for (int64_t i = 0; i < n; ++i) {
    if (lengths[i] > rest.size()) {
      return InvalidArgument("tensor_content: element ", i, " of ", n, " has ", lengths[i], " bytes, got ",
                             rest.size());
    }
    elements[i] = rest.substr(0, lengths[i]);
    rest.remove_prefix(lengths[i]);
  }
  if (!rest.empty()) return InvalidArgument("tensor_content: ", rest.size(), " bytes are left after ", n, " elements");
  return elements;
}

template <typename T>
absl::StatusOr<Tensor> FromObjectContent(absl::string_view content, DType dtype, const Shape& shape) {
  ASSIGN_OR_RETURN(const auto elements, SplitContent(content, shape.num_elements()));
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  T* to = tensor.mutable_data<T>();
  for (const absl::string_view element : elements) {
    if constexpr (std::is_same_v<T, std::string>) {
      to++->assign(element.data(), element.size());
    } else {
      std::remove_cvref_t<decltype(FieldOf<T>(TensorProto())[0])> value;
      if (!value.ParseFromArray(element.data(), static_cast<int>(element.size()))) {
        return InvalidArgument("tensor_content: element ", to - tensor.data<T>(), " is not a valid ",
                               value.GetTypeName());
      }
      *to++ = T::FromProto(value);
    }
  }
  return tensor;
}

absl::StatusOr<Tensor> FromNumberContent(absl::string_view content, DType dtype, const Shape& shape) {
  const size_t size = ElementSize(dtype);
  if (content.size() % size != 0 || static_cast<int64_t>(content.size() / size) != shape.num_elements()) {
    return InvalidArgument("tensor_content: got ", content.size(), " bytes, expected ", shape.num_elements(), " x ",
                           size);
  }
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  if (dtype == kBool) {
    // A bool that is neither 0 nor 1 must not come into being.
    std::transform(content.begin(), content.end(), tensor.mutable_data<bool>(), [](char c) { return c != 0; });
  } else {
    memcpy(tensor.raw(), content.data(), content.size());
  }
  return tensor;
}

// Takes the bytes of the elements for which the message has no values off what it
// may still claim.
absl::Status TakeExpansion(int64_t values, int64_t elements, size_t element_bytes, int64_t* allowance) {
  const int64_t size = static_cast<int64_t>(element_bytes);
  if (elements - values <= *allowance / size) {
    *allowance -= (elements - values) * size;
    return absl::OkStatus();
  }
  return ResourceExhausted("got ", values, " values for ", elements, " elements; at most ", *allowance,
                           " bytes of repeated values may be left out");
}

template <typename T>
absl::StatusOr<Tensor> FromField(const TensorProto& proto, DType dtype, const Shape& shape, int64_t* allowance) {
  const auto& field = FieldOf<T>(proto);
  constexpr int kPerElement = kIsComplex<T> ? 2 : 1;
  const int64_t n = shape.num_elements();
  // As in TensorFlow, excess values are ignored.
  const int64_t count = std::min<int64_t>(field.size() / kPerElement, n);
  RETURN_IF_ERROR(TakeExpansion(count, n, sizeof(T), allowance));
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  T* const to = static_cast<T*>(tensor.raw());
  for (int64_t i = 0; i < count; ++i) to[i] = ReadValue<T>(field, static_cast<int>(i));
  if (count < n) std::fill(to + count, to + n, count > 0 ? T(to[count - 1]) : T());
  return tensor;
}

// The bytes of float8_val, the last one repeated.
absl::StatusOr<Tensor> FromFloat8Field(const TensorProto& proto, DType dtype, const Shape& shape, int64_t* allowance) {
  const std::string& field = proto.float8_val();
  const int64_t n = shape.num_elements(), count = std::min<int64_t>(field.size(), n);
  RETURN_IF_ERROR(TakeExpansion(count, n, 1, allowance));
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  char* const to = static_cast<char*>(tensor.raw());
  std::copy_n(field.data(), count, to);
  std::fill(to + count, to + n, count > 0 ? field[count - 1] : 0);
  return tensor;
}

absl::StatusOr<Tensor> FromProto(const TensorProto& proto, DType dtype, const Shape& shape, int64_t* allowance) {
  const absl::string_view content = proto.tensor_content();
  // Clients write the repeated value even if there are no elements.
  if (content.empty() && shape.num_elements() == 0) return Tensor::Allocate(dtype, shape);
  if (content.empty() && IsFloat8(dtype)) return FromFloat8Field(proto, dtype, shape, allowance);
  absl::StatusOr<Tensor> tensor;
  RETURN_IF_ERROR(Dispatch(AllTypes(), StorageType(dtype), [&]<typename T>() {
    if (content.empty()) {
      tensor = FromField<T>(proto, dtype, shape, allowance);
    } else if constexpr (kIsObject<T>) {
      tensor = FromObjectContent<T>(content, dtype, shape);
    } else {
      tensor = FromNumberContent(content, dtype, shape);
    }
    return tensor.status();
  }));
  return tensor;
}

void WriteHeader(const Tensor& tensor, TensorProto* proto) {
  CHECK(tensor.has_value());
  proto->Clear();
  proto->set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  tensor.shape().ToProto(proto->mutable_tensor_shape());
}

// The element type; kInvalid for an unknown number.
DType TypeOf(const TensorProto& proto) {
  const int number = proto.dtype();
  return 0 < number && number < 200 ? RemoveRef(static_cast<DType>(number)) : kInvalid;
}

// Below this a copy is cheaper than the upkeep of a buffer that is not ours.
constexpr size_t kLeastTakenOver = 4096;

// The bytes of numbers as a tensor, or nothing if they must be copied: a bool may
// be neither 0 nor 1, and elements must lie as their type wants.
std::optional<Tensor> TakeOverContent(TensorProto& proto) {
  const size_t bytes = proto.tensor_content().size();
  const DType dtype = TypeOf(proto);
  if (bytes < kLeastTakenOver || !IsKnown(dtype) || dtype == kBool || ElementSize(dtype) == 0) return std::nullopt;
  const size_t size = ElementSize(dtype);
  absl::StatusOr<Shape> shape = Shape::FromProto(proto.tensor_shape());
  if (!shape.ok() || bytes % size != 0 || static_cast<int64_t>(bytes / size) != shape->num_elements()) {
    return std::nullopt;
  }
  if (reinterpret_cast<uintptr_t>(proto.tensor_content().data()) % size != 0) return std::nullopt;
  auto content = std::make_unique<std::string>(std::move(*proto.mutable_tensor_content()));
  void* const data = content->data();
  BufferPtr buffer(Buffer::Wrap(data, bytes, [content = std::move(content)] {}));
  return Tensor(dtype, *std::move(shape), std::move(buffer), data);
}

}  // namespace

absl::StatusOr<Tensor> TensorFromProto(TensorProto&& proto, int64_t* allowance) {
  std::optional<Tensor> taken = TakeOverContent(proto);
  if (taken.has_value()) return *std::move(taken);
  return TensorFromProto(std::as_const(proto), allowance);
}

absl::StatusOr<Tensor> TensorFromProto(const TensorProto& proto, int64_t* allowance) {
  int64_t of_a_graph = kMaxExpandedBytes;
  if (allowance == nullptr) allowance = &of_a_graph;
  const DType dtype = TypeOf(proto);
  if (!IsKnown(dtype)) return InvalidArgument("TensorProto: unknown type ", static_cast<int>(proto.dtype()));
  const absl::StatusOr<Shape> shape = Shape::FromProto(proto.tensor_shape());
  if (!shape.ok()) return Prepend(shape.status(), absl::StrCat("TensorProto of ", ToString(dtype), ": "));
  absl::StatusOr<Tensor> tensor = FromProto(proto, dtype, *shape, allowance);
  if (tensor.ok()) return tensor;
  return Prepend(tensor.status(), absl::StrCat("TensorProto of ", ToString(dtype), " ", shape->ToString(), ": "));
}

void TensorToProto(const Tensor& tensor, TensorProto* proto) {
  const size_t size = ElementSize(tensor.dtype());
  if (size == 0) return TensorToProtoFields(tensor, proto);
  WriteHeader(tensor, proto);
  proto->set_tensor_content(tensor.raw(), tensor.num_elements() * size);
}

void TensorToProtoFields(const Tensor& tensor, TensorProto* proto) {
  WriteHeader(tensor, proto);
  if (IsFloat8(tensor.dtype())) return proto->set_float8_val(tensor.raw(), tensor.num_elements());
  const absl::Status status = Dispatch(AllTypes(), StorageType(tensor.dtype()), [&]<typename T>() {
    auto& field = MutableFieldOf<T>(*proto);
    const T* const values = static_cast<const T*>(tensor.raw());
    field.Reserve(static_cast<int>(tensor.num_elements()) * (kIsComplex<T> ? 2 : 1));
    for (int64_t i = 0; i < tensor.num_elements(); ++i) WriteValue(values[i], field);
    return absl::OkStatus();
  });
  CHECK(status.ok()) << status.message();
}

absl::Status CheckEncodable(const Tensor& tensor) {
  if (tensor.dtype() != kVariant) return absl::OkStatus();
  tensorflow::VariantTensorDataProto proto;
  for (const Variant& value : tensor.flat<Variant>()) {
    if (!value.ToProto(&proto))
      return Unimplemented("a variant of type ", value.get()->TypeName(), " cannot be encoded");
  }
  return absl::OkStatus();
}

}  // namespace thalweg
