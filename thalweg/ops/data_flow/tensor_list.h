// TensorList: a value that is a list of tensors of one type. What TensorFlow 2's
// loops collect in. As every variant it is immutable; an op that is the last to
// see one changes it in place.
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
  // More elements than this are refused: a wrong index must not take all memory.
  static constexpr int64_t kMaxSize = 1 << 26;

  std::string TypeName() const override { return kTypeName; }
  std::string ToString() const override;
  // As TensorFlow encodes it.
  bool Encode(tensorflow::VariantTensorDataProto* proto) const override;
  // INVALID_ARGUMENT if it is no list.
  static absl::StatusOr<std::shared_ptr<TensorList>> Decode(const tensorflow::VariantTensorDataProto& proto);

  DType dtype = kInvalid;
  PartialShape element_shape;
  int64_t max_elements = -1;    // no limit
  PoolVector<Tensor> elements;  // some may have no value yet
};

// The list in a variant, also one that came from another process.
absl::StatusOr<std::shared_ptr<const TensorList>> ListIn(const Variant& variant);

// A tensor with a list in it.
Tensor TensorOf(std::shared_ptr<const TensorList> list);

// Sums of the elements in one place; zeros as the elements.
absl::StatusOr<std::shared_ptr<TensorList>> AddLists(const TensorList& a, const TensorList& b);
absl::StatusOr<std::shared_ptr<TensorList>> ZerosLike(const TensorList& list);

}  // namespace thalweg
