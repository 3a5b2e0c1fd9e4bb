// SPDX-License-Identifier: Apache-2.0
// Rows of tensors that hold the keys and values of lookup tables.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Copies row i of `from` to row j of `to`. A row has `width` elements.
void CopyRow(const Tensor& from, int64_t i, int64_t width, Tensor* to, int64_t j);
bool SameRow(const Tensor& a, int64_t i, const Tensor& b, int64_t j, int64_t width);

// Maps keys to the rows of their values. Not thread-safe.
class RowsByKey {
 public:
  // REQUIRES: keys are tensors of this type, `width` elements each.
  RowsByKey(DType dtype, int64_t width) : dtype_(dtype), width_(width) {}

  int64_t size() const { return static_cast<int64_t>(numbers_.size() + texts_.size()); }
  // The row of key i of `keys`; -1 if there is none.
  int64_t Find(const Tensor& keys, int64_t i) const;
  void Set(const Tensor& keys, int64_t i, int64_t row);
  void Erase(const Tensor& keys, int64_t i);
  void Clear();

 private:
  bool IsNumber() const { return width_ == 1 && dtype_ != kString && ElementSize(dtype_) <= sizeof(uint64_t); }
  uint64_t NumberOf(const Tensor& keys, int64_t i) const;
  // The bytes of a key that is not a single number; `scratch` may hold them.
  absl::string_view TextOf(const Tensor& keys, int64_t i, std::string* scratch) const;

  const DType dtype_;
  const int64_t width_;
  absl::flat_hash_map<uint64_t, int64_t> numbers_;
  absl::flat_hash_map<std::string, int64_t> texts_;
};

}  // namespace thalweg
