// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct LookupTableOptions {
  enum class Kind {
    kFixed,    // filled once
    kMutable,  // can be changed at any time
    kDense,    // the same, but two keys are reserved, which mark buckets (dense_buckets.h)
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

}  // namespace thalweg
