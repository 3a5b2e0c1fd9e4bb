// LookupTable: values by keys, in memory.
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
    kMutable,  // filled and changed at any time
    kDense,    // the same, in TensorFlow a table with two keys that mark buckets
  };
  Kind kind = Kind::kMutable;
  DType key_dtype = kInvalid;
  DType value_dtype = kInvalid;
  Shape key_shape;    // of one key
  Shape value_shape;  // of one value
  // Of dense ones: no key may be one of these.
  Tensor empty_key, deleted_key;
  int64_t buckets = 0;
  float max_load = 0.8f;
};

// Keys, and in which row their values are. Not thread-safe.
class RowsByKey {
 public:
  // REQUIRES: keys are tensors of this type, `width` elements each.
  RowsByKey(DType dtype, int64_t width) : dtype_(dtype), width_(width) {}

  int64_t size() const { return static_cast<int64_t>(numbers_.size() + texts_.size()); }
  // -1 if there is none. Key i of `keys`.
  int64_t Find(const Tensor& keys, int64_t i) const;
  void Set(const Tensor& keys, int64_t i, int64_t row);
  void Erase(const Tensor& keys, int64_t i);
  void Clear();

 private:
  bool IsNumber() const { return width_ == 1 && dtype_ != kString && ElementSize(dtype_) <= sizeof(uint64_t); }
  uint64_t NumberOf(const Tensor& keys, int64_t i) const;
  // The bytes of a key that is no single number; `scratch` may hold them.
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

  // `values` has room for all: a value per key, or its default, the one for all
  // or, of as many, its own. FAILED_PRECONDITION before a fixed table is filled.
  // REQUIRES: the types are the table's.
  absl::Status Find(const Tensor& keys, const Tensor& defaults, Tensor* values) const;
  absl::Status Insert(const Tensor& keys, const Tensor& values);
  absl::Status Remove(const Tensor& keys);
  // What was there goes. A fixed table is filled so, once; a second time with as
  // many keys does nothing.
  absl::Status Import(const Tensor& keys, const Tensor& values);
  absl::Status Export(Tensor* keys, Tensor* values) const;

  int64_t size() const;
  bool filled() const;
  std::string Describe() const override;

  // The shape of the values of keys of this shape. INVALID_ARGUMENT if they are
  // no keys.
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
  // Row by row, with room for more.
  Tensor keys_ ABSL_GUARDED_BY(mutex_), values_ ABSL_GUARDED_BY(mutex_);
  int64_t capacity_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t buckets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
