// SPDX-License-Identifier: Apache-2.0
// A lookup table from keys to values, in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/ops/lookup/dense_buckets.h"
#include "thalweg/ops/lookup/key_rows.h"
#include "thalweg/ops/lookup/lookup_table_options.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Thread-safe.
class LookupTable : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow6lookup15LookupInterfaceE";

  explicit LookupTable(LookupTableOptions options);

  const LookupTableOptions& options() const { return options_; }

  // Writes the value of each key to `values`, or its default: `defaults` is one value for all
  // keys, or one per key. FAILED_PRECONDITION if a fixed table has not been filled. REQUIRES: the
  // types are the table's, and `values` has the right shape.
  absl::Status Find(const Tensor& keys, const Tensor& defaults, Tensor* values) const;
  absl::Status Insert(const Tensor& keys, const Tensor& values);
  absl::Status Remove(const Tensor& keys);
  // Replaces the contents. Fills a fixed table, once; a second call with the same number of keys
  // has no effect.
  absl::Status Import(const Tensor& keys, const Tensor& values);
  absl::Status Export(Tensor* keys, Tensor* values) const;

  int64_t size() const;
  bool filled() const;
  std::string Describe() const override;

  // The shape of the values for keys of shape `keys`. INVALID_ARGUMENT if that is not a shape of
  // keys.
  absl::StatusOr<Shape> ValuesShape(const Shape& keys) const;

 private:
  absl::Status CheckPair(const Tensor& keys, const Tensor& values) const;
  absl::Status CheckKeys(const Tensor& keys) const;
  absl::Status Fill(const Tensor& keys, const Tensor& values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Put(const Tensor& keys, int64_t i, const Tensor& values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ImportBuckets(const Tensor& keys, const Tensor& values);
  absl::Status Reserve(int64_t rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_dense() const { return options_.kind == LookupTableOptions::Kind::kDense; }
  int64_t KeysIn(const Tensor& keys) const { return keys.num_elements() / std::max<int64_t>(1, key_width_); }

  const LookupTableOptions options_;
  const int64_t key_width_, value_width_;
  mutable Mutex mutex_;
  bool filled_ ABSL_GUARDED_BY(mutex_) = false;
  DenseBuckets buckets_ ABSL_GUARDED_BY(mutex_);  // only dense tables use it; the members below are for others
  RowsByKey rows_ ABSL_GUARDED_BY(mutex_);
  // One row per key, with spare capacity.
  Tensor keys_ ABSL_GUARDED_BY(mutex_), values_ ABSL_GUARDED_BY(mutex_);
  int64_t capacity_ ABSL_GUARDED_BY(mutex_) = 0;
};

class KernelContext;
// The table that input 0 names.
absl::StatusOr<std::shared_ptr<LookupTable>> FindLookupTable(KernelContext& c);

}  // namespace thalweg
