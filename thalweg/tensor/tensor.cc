// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/tensor.h"

#include <cstdlib>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

template <typename T>
std::string ElementText(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    constexpr size_t kShown = 80;
    const absl::string_view shown = absl::string_view(value).substr(0, kShown);
    return absl::StrCat("\"", absl::CHexEscape(shown), value.size() > kShown ? "..." : "", "\"");
  } else if constexpr (std::is_same_v<T, ResourceHandle>) {
    return absl::StrCat(value.type_name.empty() ? "resource" : value.type_name, " ", value.container, "/", value.name,
                        " on ", value.device);
  } else if constexpr (std::is_same_v<T, Variant>) {
    return value.empty() ? "<empty>" : value.get()->ToString();
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return absl::StrCat(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return absl::StrCat("(", value.real(), ",", value.imag(), ")");
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    return absl::StrCat(value);
  }
}

Tensor OrThrow(absl::StatusOr<Tensor> tensor) {
  if (absl::IsResourceExhausted(tensor.status())) throw OutOfMemory(std::string(tensor.status().message()));
  CHECK(tensor.ok()) << tensor.status().message();
  return *std::move(tensor);
}

}  // namespace

Tensor::Tensor(DType dtype, Shape shape, Allocator& allocator) {
  *this = OrThrow(Allocate(dtype, std::move(shape), allocator));
}

void Tensor::FailTyped(DType expected) const {
  LOG(FATAL) << "tensor of " << thalweg::ToString(dtype_) << " read as " << thalweg::ToString(expected);
  std::abort();
}

void Tensor::FailNotOne() const {
  LOG(FATAL) << "not a single element: " << shape_.ToString();
  std::abort();
}

void Tensor::FailCount(size_t values) const {
  LOG(FATAL) << shape_.ToString() << " from " << values << " values";
  std::abort();
}

absl::StatusOr<Tensor> Tensor::Allocate(DType dtype, Shape shape, Allocator& allocator) {
  if (!IsKnown(dtype) || IsRef(dtype)) {
    return InvalidArgument("a tensor with shape", shape, " cannot be of type ", dtype);
  }
  BufferPtr buffer(Buffer::Allocate(allocator, dtype, shape.num_elements()));
  if (!buffer) {
    const double bytes = static_cast<double>(shape.num_elements()) * static_cast<double>(Buffer::Stride(dtype));
    return ResourceExhausted("OOM when allocating tensor with shape", shape, " and type ", dtype, ": ", bytes,
                             " bytes");
  }
  void* const data = buffer->data();
  return Tensor(dtype, std::move(shape), std::move(buffer), data);
}

Tensor Tensor::Zeros(DType dtype, Shape shape) {
  Tensor t(dtype, std::move(shape));
  memset(t.raw(), 0, t.num_elements() * ElementSize(dtype));  // objects are made empty
  return t;
}

int64_t Tensor::TotalBytes() const {
  if (dtype_ != kString) return num_elements() * static_cast<int64_t>(Buffer::Stride(dtype_));
  int64_t bytes = 0;
  for (const std::string& s : flat<std::string>()) bytes += static_cast<int64_t>(s.size());
  return bytes;
}

Tensor Tensor::WithShape(Shape shape) const {
  CHECK(shape.num_elements() == num_elements()) << shape_.ToString() << " as " << shape.ToString();
  return Tensor(dtype_, std::move(shape), buffer_, data_);
}

Tensor Tensor::Bitcast(DType dtype) const {
  CHECK(ElementSize(dtype) != 0 && ElementSize(dtype) == ElementSize(dtype_))
      << thalweg::ToString(dtype_) << " as " << thalweg::ToString(dtype);
  return Tensor(dtype, shape_, buffer_, data_);
}

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  CHECK(rank() >= 1 && 0 <= begin && begin <= end && end <= dim(0))
      << "rows " << begin << " to " << end << " of " << shape_.ToString();
  const size_t row_bytes = shape_.Product(1, rank()) * Buffer::Stride(dtype_);
  Shape shape = shape_;
  shape.set_dim(0, end - begin);
  return Tensor(dtype_, std::move(shape), buffer_, static_cast<char*>(data_) + begin * row_bytes);
}

Tensor Tensor::Clone() const { return OrThrow(TryClone()); }

absl::StatusOr<Tensor> Tensor::TryClone(Allocator& allocator) const {
  if (!has_value()) return Tensor();
  ASSIGN_OR_RETURN(Tensor copy, Allocate(dtype_, shape_, allocator));
  switch (dtype_) {
    case kString:
      std::copy_n(data<std::string>(), num_elements(), copy.mutable_data<std::string>());
      break;
    case kResource:
      std::copy_n(data<ResourceHandle>(), num_elements(), copy.mutable_data<ResourceHandle>());
      break;
    case kVariant:
      std::copy_n(data<Variant>(), num_elements(), copy.mutable_data<Variant>());
      break;
    default:
      memcpy(copy.raw(), raw(), TotalBytes());
  }
  return copy;
}

std::string Tensor::ToString(int max_elements) const {
  if (!has_value()) return "<no value>";
  std::string text = absl::StrCat(thalweg::ToString(dtype_), " ", shape_.ToString(), " [");
  const int64_t shown = std::min<int64_t>(num_elements(), max_elements);
  const absl::Status status = Dispatch(AllTypes(), StorageType(dtype_), [&]<typename T>() {
    const T* const values = static_cast<const T*>(data_);
    for (int64_t i = 0; i < shown; ++i) absl::StrAppend(&text, i == 0 ? "" : " ", ElementText(values[i]));
    return absl::OkStatus();
  });
  absl::StrAppend(&text, status.ok() ? "" : "?", shown < num_elements() ? "...]" : "]");
  return text;
}

}  // namespace thalweg
