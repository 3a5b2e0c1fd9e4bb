// SPDX-License-Identifier: Apache-2.0
// A lookup table from keys to values, in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct LookupTableOptions {
  enum class Kind {
    kFixed,    // filled once
    kMutable,  // can be changed at any time
    kDense,    // the same, but two keys are reserved, which mark buckets in TensorFlow's implementation
  };
  Kind kind = Kind::kMutable;
  DType key_dtype = kInvalid;
  DType value_dtype = kInvalid;
  Shape key_shape;    // shape of one key
  Shape value_shape;  // shape of one value
  // The reserved keys of a dense table.
  Tensor empty_key, deleted_key;
  int64_t buckets = 0;
  float max_load = 0.8f;
};

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
  absl::Status Reserve(int64_t rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ExportBuckets(Tensor* keys, Tensor* values) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t KeysIn(const Tensor& keys) const { return keys.num_elements() / std::max<int64_t>(1, key_width_); }

  const LookupTableOptions options_;
  const int64_t key_width_, value_width_;
  mutable Mutex mutex_;
  bool filled_ ABSL_GUARDED_BY(mutex_) = false;
  RowsByKey rows_ ABSL_GUARDED_BY(mutex_);
  // One row per key, with spare capacity.
  Tensor keys_ ABSL_GUARDED_BY(mutex_), values_ ABSL_GUARDED_BY(mutex_);
  int64_t capacity_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t buckets_ ABSL_GUARDED_BY(mutex_);
};

class KernelContext;
// The table that input 0 names.
absl::StatusOr<std::shared_ptr<LookupTable>> FindLookupTable(KernelContext& c);

}  // namespace thalweg
