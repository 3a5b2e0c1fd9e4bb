// SPDX-License-Identifier: Apache-2.0
// TensorMap: a value that maps tensors to tensors. As every variant it is
// immutable: an insertion gives another map, which shares the tensors.
#pragma once

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

class TensorMap final : public VariantValue {
 public:
  struct Entry {
    Tensor key, value;
  };
  std::string TypeName() const override { return "tensorflow::TensorMap"; }
  std::string ToString() const override { return absl::StrCat("a map of ", entries.size(), " tensors"); }
  bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }

  std::map<std::string, Entry> entries;  // by type, shape and elements of the key
};

}  // namespace thalweg
