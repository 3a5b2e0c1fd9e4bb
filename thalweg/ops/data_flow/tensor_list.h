// SPDX-License-Identifier: Apache-2.0
// A list of tensors of one type, as a variant value. TensorFlow 2's loops collect values in such
// lists. Like every variant value it is immutable, but an op that holds the last reference changes
// it in place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/ops/support/pool_vector.h"
#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

class TensorList final : public VariantValue {
 public:
  static constexpr char kTypeName[] = "tensorflow::TensorList";
  // The maximum number of elements, so that a wrong index cannot exhaust memory.
  static constexpr int64_t kMaxSize = 1 << 26;

  std::string TypeName() const override { return kTypeName; }
  std::string ToString() const override;
  // Uses TensorFlow's encoding.
  bool Encode(tensorflow::VariantTensorDataProto* proto) const override;
  // INVALID_ARGUMENT if it is not a list.
  static absl::StatusOr<std::shared_ptr<TensorList>> Decode(const tensorflow::VariantTensorDataProto& proto);

  DType dtype = kInvalid;
  PartialShape element_shape;
  int64_t max_elements = -1;    // no limit
  PoolVector<Tensor> elements;  // some may not be set yet
};

// The list in a variant, which may have come from another process.
absl::StatusOr<std::shared_ptr<const TensorList>> ListIn(const Variant& variant);

// A scalar variant tensor that holds the list.
Tensor TensorOf(std::shared_ptr<const TensorList> list);

// Elementwise sums of two lists, and a list of zeros like another.
absl::StatusOr<std::shared_ptr<TensorList>> AddLists(const TensorList& a, const TensorList& b);
absl::StatusOr<std::shared_ptr<TensorList>> ZerosLike(const TensorList& list);

}  // namespace thalweg
