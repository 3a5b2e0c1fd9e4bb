// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/variant_arithmetic.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/ops/data_flow/tensor_list.h"
#include "thalweg/ops/data_flow/tensor_map.h"
#include "thalweg/ops/dataset/optional.h"
#include "thalweg/ops/support/add_into.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/numbers.h"
#include "thalweg/proto/tensor.pb.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

absl::StatusOr<Variant> AddOptionals(const OptionalValue& a, const OptionalValue& b) {
  if (a.has_value() != b.has_value()) {
    return InvalidArgument("Cannot add optionals because one has a value and the other doesn't.");
  }
  if (!a.has_value()) return Variant(std::make_shared<OptionalValue>());
  if (a.components().size() != b.components().size()) {
    return InvalidArgument("Cannot add optionals because they have different numbers of components (",
                           a.components().size(), " vs. ", b.components().size(), ").");
  }
  std::vector<Tensor> sums;
  for (size_t i = 0; i < a.components().size(); ++i) {
    ASSIGN_OR_RETURN(sums.emplace_back(), AddTensors(a.components()[i], b.components()[i]));
  }
  return Variant(std::make_shared<OptionalValue>(std::move(sums)));
}

// The keys of both. Values that both have are added.
absl::StatusOr<Variant> AddMaps(const TensorMap& a, const TensorMap& b) {
  auto sum = std::make_shared<TensorMap>(a);
  for (const auto& [key, entry] : b.entries) {
    const auto [it, is_new] = sum->entries.emplace(key, entry);
    if (is_new) continue;
    ASSIGN_OR_RETURN(it->second.value, AddTensors(it->second.value, entry.value));
  }
  return Variant(std::move(sum));
}

// TensorFlow registers sums and zeros of variants that hold a C++ int, whose four
// bytes are the metadata. nullopt if it is not one.
std::optional<int32_t> IntIn(const Variant& variant) {
  const EncodedVariant* const encoded = variant.As<EncodedVariant>();
  if (encoded == nullptr || encoded->TypeName() != "int") return std::nullopt;
  int32_t value = 0;
  if (encoded->proto().metadata().size() != sizeof(value)) return std::nullopt;
  memcpy(&value, encoded->proto().metadata().data(), sizeof(value));
  return value;
}
Variant IntVariant(int32_t value) {
  tensorflow::VariantTensorDataProto proto;
  proto.set_type_name("int");
  proto.set_metadata(&value, sizeof(value));
  return Variant(std::make_shared<EncodedVariant>(proto));
}

absl::StatusOr<Variant> AddVariants(const Variant& a, const Variant& b) {
  const OptionalValue* const x = a.As<OptionalValue>();
  const OptionalValue* const y = b.As<OptionalValue>();
  if (x != nullptr && y != nullptr) return AddOptionals(*x, *y);
  const TensorMap* const map = a.As<TensorMap>();
  const TensorMap* const other = b.As<TensorMap>();
  if (map != nullptr && other != nullptr) return AddMaps(*map, *other);
  if (const auto m = IntIn(a), n = IntIn(b); m.has_value() && n.has_value()) return IntVariant(WrapAdd(*m, *n));
  ASSIGN_OR_RETURN(const std::shared_ptr<const TensorList> first, ListIn(a));
  ASSIGN_OR_RETURN(const std::shared_ptr<const TensorList> second, ListIn(b));
  ASSIGN_OR_RETURN(std::shared_ptr<TensorList> sum, AddLists(*first, *second));
  return Variant(std::move(sum));
}

absl::StatusOr<Variant> ZerosLike(const Variant& variant) {
  if (const OptionalValue* const optional = variant.As<OptionalValue>(); optional != nullptr) {
    if (!optional->has_value()) return variant;
    std::vector<Tensor> zeros;
    for (const Tensor& component : optional->components()) {
      ASSIGN_OR_RETURN(zeros.emplace_back(), ZerosLike(component));
    }
    return Variant(std::make_shared<OptionalValue>(std::move(zeros)));
  }
  if (IntIn(variant).has_value()) return IntVariant(0);
  if (variant.As<TensorMap>() != nullptr) return Variant(std::make_shared<TensorMap>());
  ASSIGN_OR_RETURN(const std::shared_ptr<const TensorList> list, ListIn(variant));
  ASSIGN_OR_RETURN(std::shared_ptr<TensorList> zeros, ZerosLike(*list));
  return Variant(std::move(zeros));
}

}  // namespace

absl::StatusOr<Tensor> AddTensors(const Tensor& a, const Tensor& b) {
  if (!a.has_value()) return b;
  if (!b.has_value()) return a;
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) {
    return InvalidArgument("Trying to add two tensors with incompatible element types or shapes: ", a.dtype(), " ",
                           a.shape(), " and ", b.dtype(), " ", b.shape());
  }
  if (a.dtype() != kVariant) {
    ASSIGN_OR_RETURN(Tensor sum, a.TryClone());
    RETURN_IF_ERROR(AddInto(b, &sum));
    return sum;
  }
  ASSIGN_OR_RETURN(Tensor sum, Tensor::Allocate(kVariant, a.shape()));
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    ASSIGN_OR_RETURN(sum.mutable_data<Variant>()[i], AddVariants(a.data<Variant>()[i], b.data<Variant>()[i]));
  }
  return sum;
}

absl::StatusOr<Tensor> ZerosLike(const Tensor& x) {
  if (!x.has_value()) return Tensor();
  ASSIGN_OR_RETURN(Tensor zeros, Tensor::Allocate(x.dtype(), x.shape()));
  ClearElements(&zeros);
  if (x.dtype() != kVariant) return zeros;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    ASSIGN_OR_RETURN(zeros.mutable_data<Variant>()[i], ZerosLike(x.data<Variant>()[i]));
  }
  return zeros;
}

}  // namespace thalweg
