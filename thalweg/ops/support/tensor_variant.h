// SPDX-License-Identifier: Apache-2.0
// A tensor inside of a variant. Datasets, and sparse tensors in a variant, use it to hold tensors of
// different types.
#pragma once

#include <string>
#include <utility>

#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

class TensorVariant final : public VariantValue {
 public:
  explicit TensorVariant(Tensor tensor) : tensor_(std::move(tensor)) {}
  const Tensor& tensor() const { return tensor_; }
  std::string TypeName() const override { return "tensorflow::Tensor"; }
  std::string ToString() const override { return tensor_.ToString(); }
  bool Encode(tensorflow::VariantTensorDataProto* proto) const override { return false; }

 private:
  const Tensor tensor_;
};

}  // namespace thalweg
