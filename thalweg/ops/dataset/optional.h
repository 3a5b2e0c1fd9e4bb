// SPDX-License-Identifier: Apache-2.0
// An optional list of tensors, as the value of a variant.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

class OptionalValue final : public VariantValue {
 public:
  OptionalValue() = default;  // none
  explicit OptionalValue(std::vector<Tensor> components) : has_value_(true), components_(std::move(components)) {}

  bool has_value() const { return has_value_; }
  const std::vector<Tensor>& components() const { return components_; }

  std::string TypeName() const override { return "tensorflow::data::Optional"; }
  std::string ToString() const override {
    return has_value_ ? absl::StrCat("an optional of ", components_.size(), " tensors") : "an empty optional";
  }
  bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }

 private:
  bool has_value_ = false;
  std::vector<Tensor> components_;
};

}  // namespace thalweg
