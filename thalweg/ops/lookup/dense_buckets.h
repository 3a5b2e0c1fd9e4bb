// SPDX-License-Identifier: Apache-2.0
// The contents of a MutableDenseHashTable, in TensorFlow's layout.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "thalweg/ops/lookup/lookup_table_options.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Buckets with a key and a value each. A key is in the bucket of its hash, or found from there by quadratic probing.
// Hashes, probes and growth are TensorFlow's, because a checkpoint holds the buckets: each side finds its keys in a
// checkpoint of the other. Two keys are reserved: one marks an empty bucket, one a bucket whose key was removed and
// whose value remains. Not thread-safe.
class DenseBuckets {
 public:
  // `options` is borrowed.
  explicit DenseBuckets(const LookupTableOptions& options);

  int64_t size() const { return size_; }
  // The row of values() for key i of `keys`; -1 if the table does not have that key.
  int64_t Find(const Tensor& keys, int64_t i) const;
  const Tensor& values() const { return values_; }

  // REQUIRES: shapes and types are the table's, and no key is reserved.
  absl::Status Insert(const Tensor& keys, const Tensor& values);
  absl::Status Remove(const Tensor& keys);
  // Replaces the contents by exported buckets. REQUIRES: both are matrices, and the number of rows is a power of two.
  absl::Status Import(const Tensor& keys, const Tensor& values);
  absl::Status Export(Tensor* keys, Tensor* values) const;

 private:
  uint64_t HashOf(const Tensor& keys, int64_t i) const;
  bool IsEmpty(const Tensor& keys, int64_t i) const;
  bool IsRemoved(const Tensor& keys, int64_t i) const;
  int64_t KeysIn(const Tensor& keys) const { return keys.num_elements() / std::max<int64_t>(1, key_width_); }
  absl::Status MakeEmpty(Tensor* keys, Tensor* values) const;
  // Empties `count` buckets and inserts those of `keys` that are not marked.
  absl::Status Rebuild(int64_t count, const Tensor& keys, const Tensor& values);
  void Put(const Tensor& keys, int64_t i, const Tensor& values);

  const LookupTableOptions& options_;
  const int64_t key_width_, value_width_;
  int64_t count_;  // a power of two
  int64_t size_ = 0, removed_ = 0;
  Tensor keys_, values_;  // a row per bucket; without values until the first insertion
};

}  // namespace thalweg
