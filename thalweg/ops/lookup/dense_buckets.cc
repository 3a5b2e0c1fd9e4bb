// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/lookup/dense_buckets.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/ops/lookup/key_rows.h"
#include "thalweg/ops/string/string_hash.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

constexpr int64_t kMaxBuckets = int64_t{1} << 40;

absl::StatusOr<Tensor> CopyOf(const Tensor& t) {
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(t.dtype(), t.shape()));
  RETURN_IF_ERROR(DispatchBySize(t.dtype(), [&]<typename T>() {
    CopyElements(ElementData<T>(t), t.num_elements(), MutableElementData<T>(&copy));
    return absl::OkStatus();
  }));
  return copy;
}

uint64_t HashOfElement(const Tensor& t, int64_t i) {
  if (t.dtype() == kString) return MurmurHash(t.data<std::string>()[i]);
  uint64_t hash = 0;
  const absl::Status status = Dispatch(PodTypes(), t.dtype(), [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) hash = static_cast<uint64_t>(t.data<T>()[i]);
    return absl::OkStatus();
  });
  CHECK(status.ok()) << status;
  return hash;
}

}  // namespace

DenseBuckets::DenseBuckets(const LookupTableOptions& options)
    : options_(options),
      key_width_(options.key_shape.num_elements()),
      value_width_(options.value_shape.num_elements()),
      count_(options.buckets) {}

uint64_t DenseBuckets::HashOf(const Tensor& keys, int64_t i) const {
  if (key_width_ == 1) return HashOfElement(keys, i);
  uint64_t hash = 0;
  for (int64_t j = 0; j < key_width_; ++j) {
    hash ^= HashOfElement(keys, i * key_width_ + j) + 0x9e3779b97f4a7800 + (hash << 10) + (hash >> 4);
  }
  return hash;
}

bool DenseBuckets::IsEmpty(const Tensor& keys, int64_t i) const {
  return SameRow(keys, i, options_.empty_key, 0, key_width_);
}

bool DenseBuckets::IsRemoved(const Tensor& keys, int64_t i) const {
  return options_.deleted_key.has_value() && SameRow(keys, i, options_.deleted_key, 0, key_width_);
}

int64_t DenseBuckets::Find(const Tensor& keys, int64_t i) const {
  if (!keys_.has_value()) return -1;
  const uint64_t mask = static_cast<uint64_t>(count_ - 1);
  uint64_t bucket = HashOf(keys, i) & mask;
  // The probes are all buckets, each once, because their number is a power of two.
  for (int64_t probe = 1; probe <= count_; ++probe) {
    const int64_t row = static_cast<int64_t>(bucket);
    if (SameRow(keys_, row, keys, i, key_width_)) return row;
    if (IsEmpty(keys_, row)) return -1;
    bucket = (bucket + static_cast<uint64_t>(probe)) & mask;
  }
  return -1;
}

absl::Status DenseBuckets::MakeEmpty(Tensor* keys, Tensor* values) const {
  ASSIGN_OR_RETURN(const Shape keys_shape, Shape::Make({count_, key_width_}));
  ASSIGN_OR_RETURN(const Shape values_shape, Shape::Make({count_, value_width_}));
  ASSIGN_OR_RETURN(*keys, Tensor::Allocate(options_.key_dtype, keys_shape));
  ASSIGN_OR_RETURN(*values, Tensor::Allocate(options_.value_dtype, values_shape));
  ClearElements(values);
  for (int64_t i = 0; i < count_; ++i) CopyRow(options_.empty_key, 0, key_width_, keys, i);
  return absl::OkStatus();
}

absl::Status DenseBuckets::Rebuild(int64_t count, const Tensor& keys, const Tensor& values) {
  const int64_t old_count = std::exchange(count_, count);
  Tensor new_keys, new_values;
  if (const absl::Status status = MakeEmpty(&new_keys, &new_values); !status.ok()) {
    count_ = old_count;
    return status;
  }
  const Tensor old_keys = keys, old_values = values;  // `keys` may be keys_
  keys_ = std::move(new_keys);
  values_ = std::move(new_values);
  size_ = removed_ = 0;
  const int64_t rows = old_keys.has_value() ? old_keys.dim(0) : 0;
  for (int64_t i = 0; i < rows; ++i) {
    if (!IsEmpty(old_keys, i) && !IsRemoved(old_keys, i)) Put(old_keys, i, old_values);
  }
  return absl::OkStatus();
}

// REQUIRES: a bucket is left.
void DenseBuckets::Put(const Tensor& keys, int64_t i, const Tensor& values) {
  int64_t row = Find(keys, i);
  if (row < 0) {
    const uint64_t mask = static_cast<uint64_t>(count_ - 1);
    uint64_t bucket = HashOf(keys, i) & mask;
    for (uint64_t probe = 1;; ++probe) {
      row = static_cast<int64_t>(bucket);
      if (IsEmpty(keys_, row)) break;
      if (IsRemoved(keys_, row)) {
        --removed_;
        break;
      }
      bucket = (bucket + probe) & mask;
    }
    ++size_;
    CopyRow(keys, i, key_width_, &keys_, row);
  }
  CopyRow(values, i, value_width_, &values_, row);
}

absl::Status DenseBuckets::Insert(const Tensor& keys, const Tensor& values) {
  const int64_t n = KeysIn(keys);
  const auto too_many = [&](int64_t used, int64_t count, double load) {
    return static_cast<double>(used) > static_cast<double>(count) * load;
  };
  int64_t count = count_;
  while (too_many(size_ + n, count, options_.max_load)) {
    count *= 2;
    if (count > kMaxBuckets) {
      return ResourceExhausted(size_ + n, " keys need more than ", kMaxBuckets, " buckets with a max_load_factor of ",
                               options_.max_load);
    }
  }
  // Marks of removed keys make probes long. TensorFlow keeps them until the table grows.
  const bool many_marks = too_many(size_ + removed_ + n, count, (1 + options_.max_load) / 2);
  if (!keys_.has_value() || count != count_ || many_marks) RETURN_IF_ERROR(Rebuild(count, keys_, values_));
  for (int64_t i = 0; i < n; ++i) Put(keys, i, values);
  return absl::OkStatus();
}

absl::Status DenseBuckets::Remove(const Tensor& keys) {
  if (!options_.deleted_key.has_value()) return Unimplemented("a table without a deleted_key cannot remove keys");
  for (int64_t i = 0; i < KeysIn(keys); ++i) {
    const int64_t row = Find(keys, i);
    if (row < 0) continue;
    CopyRow(options_.deleted_key, 0, key_width_, &keys_, row);
    --size_;
    ++removed_;
  }
  return absl::OkStatus();
}

// Keys are inserted anew, so that buckets with another layout, as Thalweg once wrote them, are read too.
absl::Status DenseBuckets::Import(const Tensor& keys, const Tensor& values) {
  return Rebuild(keys.dim(0), keys, values);
}

absl::Status DenseBuckets::Export(Tensor* keys, Tensor* values) const {
  if (!keys_.has_value()) return MakeEmpty(keys, values);
  ASSIGN_OR_RETURN(*keys, CopyOf(keys_));
  ASSIGN_OR_RETURN(*values, CopyOf(values_));
  return absl::OkStatus();
}

}  // namespace thalweg
