// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/tensor_map.h"

#include <memory>
#include <string>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

// Type, shape and elements of a tensor as a string, to look it up.
absl::StatusOr<std::string> KeyText(const Tensor& key) {
  std::string text = absl::StrCat(static_cast<int>(key.dtype()), key.shape().ToString(), ":");
  if (const size_t size = ElementSize(key.dtype()); size > 0) {
    text.append(static_cast<const char*>(key.raw()), size * key.num_elements());
  } else if (key.dtype() == kString) {
    for (const std::string& s : key.flat<std::string>()) absl::StrAppend(&text, s.size(), ",", s);
  } else {
    return InvalidArgument("a ", key.dtype(), " cannot be the key of a map");
  }
  return text;
}

absl::StatusOr<const TensorMap*> MapIn(KernelContext& c) {
  const Tensor& handle = c.input(0);
  if (handle.rank() != 0) return InvalidArgument("Input map must be a scalar. Saw: ", handle.shape());
  const TensorMap* const map = handle.scalar<Variant>().As<TensorMap>();
  if (map == nullptr) return InvalidArgument("Input handle is not a map");
  return map;
}

Tensor TensorOf(std::shared_ptr<const TensorMap> map) {
  Tensor t(kVariant, Shape());
  *t.mutable_data<Variant>() = Variant(std::move(map));
  return t;
}

absl::Status ComputeEmpty(KernelContext& c) {
  c.set_output(0, TensorOf(std::make_shared<TensorMap>()));
  return absl::OkStatus();
}

absl::Status ComputeSize(KernelContext& c) {
  ASSIGN_OR_RETURN(const TensorMap* const map, MapIn(c));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  *out->mutable_data<int32_t>() = static_cast<int32_t>(map->entries.size());
  return absl::OkStatus();
}

absl::Status ComputeHasKey(KernelContext& c) {
  ASSIGN_OR_RETURN(const TensorMap* const map, MapIn(c));
  ASSIGN_OR_RETURN(const std::string key, KeyText(c.input(1)));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  *out->mutable_data<bool>() = map->entries.contains(key);
  return absl::OkStatus();
}

absl::Status ComputeLookup(KernelContext& c) {
  ASSIGN_OR_RETURN(const TensorMap* const map, MapIn(c));
  ASSIGN_OR_RETURN(const std::string key, KeyText(c.input(1)));
  const auto found = map->entries.find(key);
  if (found == map->entries.end()) return InvalidArgument("Trying to lookup non-existent key. Could not find key.");
  if (found->second.value.dtype() != c.output_type(0)) {
    return InvalidArgument("the value is of type ", found->second.value.dtype(), ", not ", c.output_type(0));
  }
  c.set_output(0, found->second.value);
  return absl::OkStatus();
}

absl::Status ComputeInsert(KernelContext& c) {
  ASSIGN_OR_RETURN(const TensorMap* const map, MapIn(c));
  ASSIGN_OR_RETURN(std::string key, KeyText(c.input(1)));
  auto changed = std::make_shared<TensorMap>(*map);
  changed->entries[std::move(key)] = {c.input(1), c.input(2)};
  c.set_output(0, TensorOf(std::move(changed)));
  return absl::OkStatus();
}

absl::Status ComputeErase(KernelContext& c) {
  ASSIGN_OR_RETURN(const TensorMap* const map, MapIn(c));
  ASSIGN_OR_RETURN(const std::string key, KeyText(c.input(1)));
  auto changed = std::make_shared<TensorMap>(*map);
  if (changed->entries.erase(key) == 0)
    return InvalidArgument("Trying to erase non-existent item. Could not find key.");
  c.set_output(0, TensorOf(std::move(changed)));
  return absl::OkStatus();
}

absl::Status ComputeStackKeys(KernelContext& c) {
  ASSIGN_OR_RETURN(const TensorMap* const map, MapIn(c));
  if (map->entries.empty()) return InvalidArgument("TensorMapStackKeys cannot be called on empty map.");
  const Tensor& first = map->entries.begin()->second.key;
  for (const auto& [text, entry] : map->entries) {
    if (entry.key.dtype() != c.output_type(0)) {
      return InvalidArgument("Key does not match requested dtype: ", entry.key.dtype(), " vs. ", c.output_type(0));
    }
    if (!(entry.key.shape() == first.shape())) return InvalidArgument("Keys must all have the same shape.");
  }
  Dims dims(first.shape().dims().begin(), first.shape().dims().end());
  dims.insert(dims.begin(), static_cast<int64_t>(map->entries.size()));
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  return DispatchBySize(out->dtype(), [&]<typename T>() {
    T* to = MutableElementData<T>(out);
    for (const auto& [text, entry] : map->entries) {
      CopyElements(ElementData<T>(entry.key), first.num_elements(), to);
      to += first.num_elements();
    }
    return absl::OkStatus();
  });
}

Op Mapped(absl::string_view name) { return Op(name).Input("input_handle: variant").NotDifferentiable(); }

const OpRegistration kTensorMapOps[] = {
    Op("EmptyTensorMap").Output("handle: variant").Shape(shapes::Scalar).Compute(ComputeEmpty).NotDifferentiable(),
    Mapped("TensorMapSize").Output("size: int32").Shape(shapes::Scalar).Compute(ComputeSize),
    Mapped("TensorMapHasKey")
        .Input("key: key_dtype")
        .Output("has_key: bool")
        .Attr("key_dtype: type")
        .Shape(shapes::Scalar)
        .Compute(ComputeHasKey),
    Mapped("TensorMapLookup")
        .Input("key: key_dtype")
        .Output("value: value_dtype")
        .Attr("key_dtype: type")
        .Attr("value_dtype: type")
        .Shape(shapes::Unknown)
        .Compute(ComputeLookup),
    Mapped("TensorMapInsert")
        .Input("key: key_dtype")
        .Input("value: value_dtype")
        .Output("output_handle: variant")
        .Attr("key_dtype: type")
        .Attr("value_dtype: type")
        .Shape(shapes::Scalar)
        .Compute(ComputeInsert),
    Mapped("TensorMapErase")
        .Input("key: key_dtype")
        .Output("output_handle: variant")
        .Attr("key_dtype: type")
        .Attr("value_dtype: type")
        .Shape(shapes::Scalar)
        .Compute(ComputeErase),
    Mapped("TensorMapStackKeys")
        .Output("keys: key_dtype")
        .Attr("key_dtype: type")
        .Shape(shapes::Unknown)
        .Compute(ComputeStackKeys),
};

}  // namespace
}  // namespace thalweg
