// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/lookup/lookup_table.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

using Kind = LookupTableOptions::Kind;

// The text of an element, for messages.
std::string ElementText(const Tensor& t, int64_t i) {
  if (t.dtype() == kString) return t.data<std::string>()[i];
  std::string text;
  const absl::Status status = Dispatch(PodTypes(), t.dtype(), [&]<typename T>() {
    if constexpr (std::is_arithmetic_v<T>) text = absl::StrCat(t.data<T>()[i]);
    return absl::OkStatus();
  });
  return status.ok() ? text : "?";
}

}  // namespace

LookupTable::LookupTable(LookupTableOptions options)
    : options_(std::move(options)),
      key_width_(options_.key_shape.num_elements()),
      value_width_(options_.value_shape.num_elements()),
      buckets_(options_),
      rows_(options_.key_dtype, key_width_) {}

absl::StatusOr<Shape> LookupTable::ValuesShape(const Shape& keys) const {
  const int own = options_.key_shape.rank();
  const bool ends = keys.rank() >= own && std::equal(options_.key_shape.dims().begin(), options_.key_shape.dims().end(),
                                                     keys.dims().end() - own);
  if (!ends) {
    return InvalidArgument("Input key shape ", keys, " must end with the table's key shape ", options_.key_shape);
  }
  const int64_t n = keys.rank() == 0 ? 1 : keys.dim(0);
  if (is_dense() && keys.num_elements() != n * key_width_) {
    Dims list(options_.key_shape.dims().begin(), options_.key_shape.dims().end());
    list.insert(list.begin(), n);
    return InvalidArgument("Expected key shape ", PartialShape(std::move(list)), " got ", keys);
  }
  Dims dims(keys.dims().begin(), keys.dims().end() - own);
  dims.insert(dims.end(), options_.value_shape.dims().begin(), options_.value_shape.dims().end());
  return Shape::Make(dims);
}

absl::Status LookupTable::CheckPair(const Tensor& keys, const Tensor& values) const {
  ASSIGN_OR_RETURN(const Shape expected, ValuesShape(keys.shape()));
  if (!(values.shape() == expected)) {
    return InvalidArgument("Expected shape ", expected, " for value, got ", values.shape());
  }
  return absl::OkStatus();
}

absl::Status LookupTable::CheckKeys(const Tensor& keys) const {
  if (!is_dense()) return absl::OkStatus();
  for (int64_t i = 0; i < KeysIn(keys); ++i) {
    if (SameRow(keys, i, options_.empty_key, 0, key_width_)) {
      return InvalidArgument("Using the empty_key as a table key is not allowed");
    }
    if (options_.deleted_key.has_value() && SameRow(keys, i, options_.deleted_key, 0, key_width_)) {
      return InvalidArgument("Using the deleted_key as a table key is not allowed");
    }
  }
  return absl::OkStatus();
}

absl::Status LookupTable::Find(const Tensor& keys, const Tensor& defaults, Tensor* values) const {
  RETURN_IF_ERROR(CheckKeys(keys));
  MutexLock lock(&mutex_);
  if (options_.kind == Kind::kFixed && !filled_) return FailedPrecondition("Table not initialized.");
  const bool each = defaults.num_elements() == values->num_elements() && !(defaults.shape() == options_.value_shape);
  const int64_t n = KeysIn(keys);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = is_dense() ? buckets_.Find(keys, i) : rows_.Find(keys, i);
    if (row >= 0) {
      CopyRow(is_dense() ? buckets_.values() : values_, row, value_width_, values, i);
    } else {
      CopyRow(defaults, each ? i : 0, value_width_, values, i);
    }
  }
  return absl::OkStatus();
}

absl::Status LookupTable::Reserve(int64_t rows) {
  if (rows <= capacity_) return absl::OkStatus();
  const int64_t capacity = std::max<int64_t>({16, rows, 2 * capacity_});
  const int64_t held = rows_.size();
  const auto grow = [&](DType dtype, int64_t width, Tensor* t) -> absl::Status {
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({capacity, width}));
    ASSIGN_OR_RETURN(Tensor larger, Tensor::Allocate(dtype, shape));
    if (held > 0) {
      RETURN_IF_ERROR(DispatchBySize(dtype, [&]<typename T>() {
        CopyElements(ElementData<T>(*t), held * width, MutableElementData<T>(&larger));
        return absl::OkStatus();
      }));
    }
    *t = std::move(larger);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(grow(options_.key_dtype, key_width_, &keys_));
  RETURN_IF_ERROR(grow(options_.value_dtype, value_width_, &values_));
  capacity_ = capacity;
  return absl::OkStatus();
}

absl::Status LookupTable::Put(const Tensor& keys, int64_t i, const Tensor& values) {
  int64_t row = rows_.Find(keys, i);
  if (row < 0) {
    row = rows_.size();
    RETURN_IF_ERROR(Reserve(row + 1));
    CopyRow(keys, i, key_width_, &keys_, row);
    rows_.Set(keys, i, row);
  } else if (options_.kind == Kind::kFixed) {
    if (SameRow(values_, row, values, i, value_width_)) return absl::OkStatus();
    return FailedPrecondition("HashTable has different value for same key. Key ", ElementText(keys, i), " has ",
                              ElementText(values_, row), " and trying to add value ", ElementText(values, i));
  }
  CopyRow(values, i, value_width_, &values_, row);
  return absl::OkStatus();
}

absl::Status LookupTable::Insert(const Tensor& keys, const Tensor& values) {
  if (options_.kind == Kind::kFixed) {
    return Unimplemented("Insert not supported by InitializableLookupTable implementations");
  }
  RETURN_IF_ERROR(CheckPair(keys, values));
  RETURN_IF_ERROR(CheckKeys(keys));
  MutexLock lock(&mutex_);
  if (is_dense()) return buckets_.Insert(keys, values);
  for (int64_t i = 0; i < KeysIn(keys); ++i) RETURN_IF_ERROR(Put(keys, i, values));
  return absl::OkStatus();
}

// The last row takes the place of the one that goes.
absl::Status LookupTable::Remove(const Tensor& keys) {
  if (options_.kind == Kind::kFixed) {
    return Unimplemented("Remove not supported by InitializableLookupTable implementations");
  }
  RETURN_IF_ERROR(ValuesShape(keys.shape()).status());
  RETURN_IF_ERROR(CheckKeys(keys));
  MutexLock lock(&mutex_);
  if (is_dense()) return buckets_.Remove(keys);
  for (int64_t i = 0; i < KeysIn(keys); ++i) {
    const int64_t row = rows_.Find(keys, i);
    if (row < 0) continue;
    rows_.Erase(keys, i);
    const int64_t last = rows_.size();
    if (row == last) continue;
    CopyRow(keys_, last, key_width_, &keys_, row);
    CopyRow(values_, last, value_width_, &values_, row);
    rows_.Set(keys_, row, row);
  }
  return absl::OkStatus();
}

absl::Status LookupTable::Fill(const Tensor& keys, const Tensor& values) {
  const int64_t n = KeysIn(keys);
  if (filled_) {
    if (n == rows_.size()) return absl::OkStatus();
    return FailedPrecondition("Table was already initialized with different data.");
  }
  rows_.Clear();
  for (int64_t i = 0; i < n; ++i) RETURN_IF_ERROR(Put(keys, i, values));
  filled_ = true;
  return absl::OkStatus();
}

absl::Status LookupTable::Import(const Tensor& keys, const Tensor& values) {
  if (is_dense()) return ImportBuckets(keys, values);
  RETURN_IF_ERROR(CheckPair(keys, values));
  MutexLock lock(&mutex_);
  if (options_.kind == Kind::kFixed) return Fill(keys, values);
  rows_.Clear();
  for (int64_t i = 0; i < KeysIn(keys); ++i) RETURN_IF_ERROR(Put(keys, i, values));
  return absl::OkStatus();
}

// A dense table is saved and restored with a row per bucket, empty ones too.
absl::Status LookupTable::ImportBuckets(const Tensor& keys, const Tensor& values) {
  const int64_t n = keys.rank() == 2 ? keys.dim(0) : -1;
  if (n < 0 || keys.dim(1) != key_width_) {
    return InvalidArgument("Expected keys of shape [?,", key_width_, "], got ", keys.shape());
  }
  if (!(values.shape() == Shape({n, value_width_}))) {
    return InvalidArgument("Expected shape ", Shape({n, value_width_}), " for value, got ", values.shape());
  }
  if (n < 4 || (n & (n - 1)) != 0) {
    return InvalidArgument("Number of buckets must be at least 4 and a power of 2, got: ", n);
  }
  MutexLock lock(&mutex_);
  return buckets_.Import(keys, values);
}

absl::Status LookupTable::Export(Tensor* keys, Tensor* values) const {
  MutexLock lock(&mutex_);
  if (is_dense()) return buckets_.Export(keys, values);
  if (options_.kind == Kind::kFixed && !filled_) return Aborted("HashTable is not initialized.");
  const int64_t n = rows_.size();
  ASSIGN_OR_RETURN(*keys, Tensor::Allocate(options_.key_dtype, Shape({n})));
  Dims dims(options_.value_shape.dims().begin(), options_.value_shape.dims().end());
  dims.insert(dims.begin(), n);
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(*values, Tensor::Allocate(options_.value_dtype, shape));
  for (int64_t row = 0; row < n; ++row) {
    CopyRow(keys_, row, key_width_, keys, row);
    CopyRow(values_, row, value_width_, values, row);
  }
  return absl::OkStatus();
}

int64_t LookupTable::size() const {
  MutexLock lock(&mutex_);
  if (is_dense()) return buckets_.size();
  return options_.kind == Kind::kFixed && !filled_ ? 0 : rows_.size();
}

bool LookupTable::filled() const {
  MutexLock lock(&mutex_);
  return filled_;
}

std::string LookupTable::Describe() const {
  return absl::StrCat("a table from ", ToString(options_.key_dtype), " to ", ToString(options_.value_dtype), " with ",
                      size(), " keys");
}

}  // namespace thalweg
