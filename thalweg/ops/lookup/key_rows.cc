// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/lookup/key_rows.h"

#include <algorithm>
#include <cstring>

#include "thalweg/base/status.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {

void CopyRow(const Tensor& from, int64_t i, int64_t width, Tensor* to, int64_t j) {
  const absl::Status status = DispatchBySize(from.dtype(), [&]<typename T>() {
    CopyElements(ElementData<T>(from) + i * width, width, MutableElementData<T>(to) + j * width);
    return absl::OkStatus();
  });
  CHECK(status.ok()) << status;
}

bool SameRow(const Tensor& a, int64_t i, const Tensor& b, int64_t j, int64_t width) {
  if (a.dtype() == kString) {
    const std::string* const x = a.data<std::string>() + i * width;
    return std::equal(x, x + width, b.data<std::string>() + j * width);
  }
  const size_t bytes = ElementSize(a.dtype()) * width;
  return std::memcmp(static_cast<const char*>(a.raw()) + i * bytes, static_cast<const char*>(b.raw()) + j * bytes,
                     bytes) == 0;
}

uint64_t RowsByKey::NumberOf(const Tensor& keys, int64_t i) const {
  uint64_t bits = 0;
  const size_t size = ElementSize(dtype_);
  std::memcpy(&bits, static_cast<const char*>(keys.raw()) + i * size, size);
  return bits;
}

absl::string_view RowsByKey::TextOf(const Tensor& keys, int64_t i, std::string* scratch) const {
  if (dtype_ != kString) {
    const size_t size = ElementSize(dtype_) * width_;
    return absl::string_view(static_cast<const char*>(keys.raw()) + i * size, size);
  }
  const std::string* const parts = keys.data<std::string>() + i * width_;
  if (width_ == 1) return parts[0];
  scratch->clear();
  for (int64_t j = 0; j < width_; ++j) absl::StrAppend(scratch, parts[j].size(), ":", parts[j]);
  return *scratch;
}

int64_t RowsByKey::Find(const Tensor& keys, int64_t i) const {
  if (IsNumber()) {
    const auto it = numbers_.find(NumberOf(keys, i));
    return it == numbers_.end() ? -1 : it->second;
  }
  std::string scratch;
  const auto it = texts_.find(TextOf(keys, i, &scratch));
  return it == texts_.end() ? -1 : it->second;
}

void RowsByKey::Set(const Tensor& keys, int64_t i, int64_t row) {
  if (IsNumber()) {
    numbers_[NumberOf(keys, i)] = row;
    return;
  }
  std::string scratch;
  texts_[TextOf(keys, i, &scratch)] = row;
}

void RowsByKey::Erase(const Tensor& keys, int64_t i) {
  if (IsNumber()) {
    numbers_.erase(NumberOf(keys, i));
    return;
  }
  std::string scratch;
  const auto it = texts_.find(TextOf(keys, i, &scratch));
  if (it != texts_.end()) texts_.erase(it);
}

void RowsByKey::Clear() {
  numbers_.clear();
  texts_.clear();
}

}  // namespace thalweg
