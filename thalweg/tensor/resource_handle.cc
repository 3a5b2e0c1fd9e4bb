// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/resource_handle.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "thalweg/proto/tensor.pb.h"

namespace thalweg {

ResourceHandle ResourceHandle::FromProto(const tensorflow::ResourceHandleProto& proto) {
  return {.device = proto.device(),
          .container = proto.container(),
          .name = proto.name(),
          .type_name = proto.maybe_type_name(),
          .hash_code = proto.hash_code()};
}

void ResourceHandle::ToProto(tensorflow::ResourceHandleProto* proto) const {
  proto->Clear();
  proto->set_device(device);
  proto->set_container(container);
  proto->set_name(name);
  proto->set_maybe_type_name(type_name);
  proto->set_hash_code(hash_code);
}

Variant Variant::FromProto(const tensorflow::VariantTensorDataProto& proto) {
  if (proto.type_name().empty() && proto.metadata().empty() && proto.tensors().empty()) return Variant();
  return Variant(std::make_shared<EncodedVariant>(proto));
}

bool Variant::ToProto(tensorflow::VariantTensorDataProto* proto) const {
  proto->Clear();
  if (empty()) return true;
  if (value_->Encode(proto)) return true;
  proto->Clear();
  proto->set_type_name(value_->TypeName());
  return false;
}

EncodedVariant::EncodedVariant(const tensorflow::VariantTensorDataProto& proto)
    : proto_(std::make_unique<tensorflow::VariantTensorDataProto>(proto)) {}

EncodedVariant::~EncodedVariant() = default;

std::string EncodedVariant::TypeName() const { return proto_->type_name(); }

std::string EncodedVariant::ToString() const {
  // TensorFlow's variants of plain C++ values have no tensors, only their bytes.
  if (int32_t value = 0; proto_->type_name() == "int" && proto_->metadata().size() == sizeof(value)) {
    memcpy(&value, proto_->metadata().data(), sizeof(value));
    return absl::StrCat(value);
  }
  return absl::StrCat("encoded ", proto_->type_name(), " with ", proto_->tensors_size(), " tensors");
}

bool EncodedVariant::Encode(tensorflow::VariantTensorDataProto* proto) const {
  *proto = *proto_;
  return true;
}

}  // namespace thalweg
