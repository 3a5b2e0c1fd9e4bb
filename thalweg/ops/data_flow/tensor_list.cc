// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/tensor_list.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/ops/support/variant_arithmetic.h"
#include "thalweg/proto/tensor.pb.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {

std::string TensorList::ToString() const {
  return absl::StrCat("a list of ", elements.size(), " tensors of ", thalweg::ToString(dtype), " ",
                      element_shape.ToString());
}

// The metadata: how many elements have no value, their numbers, the type, the
// limit (varints), and the shape (a message).
bool TensorList::Encode(tensorflow::VariantTensorDataProto* proto) const {
  proto->set_type_name(kTypeName);
  std::vector<uint64_t> empty;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!elements[i].has_value()) {
      empty.push_back(i);
    } else {
      if (!CheckEncodable(elements[i]).ok()) return false;
      TensorToProto(elements[i], proto->add_tensors());
    }
  }
  {
    google::protobuf::io::StringOutputStream stream(proto->mutable_metadata());
    google::protobuf::io::CodedOutputStream out(&stream);
    out.WriteVarint64(empty.size());
    for (const uint64_t i : empty) out.WriteVarint64(i);
    out.WriteVarint64(static_cast<uint64_t>(dtype));
    out.WriteVarint64(static_cast<uint64_t>(max_elements));
  }
  tensorflow::TensorShapeProto shape;
  element_shape.ToProto(&shape);
  shape.AppendToString(proto->mutable_metadata());
  return true;
}

absl::StatusOr<std::shared_ptr<TensorList>> TensorList::Decode(const tensorflow::VariantTensorDataProto& proto) {
  const auto broken = [] { return InvalidArgument("a broken encoding of a TensorList"); };
  const std::string& metadata = proto.metadata();
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(metadata.data()),
                                            static_cast<int>(metadata.size()));
  uint64_t count = 0, dtype = 0, limit = 0;
  // Every number takes a byte or more.
  if (!in.ReadVarint64(&count) || count > metadata.size()) return broken();
  std::vector<uint64_t> empty(count);
  for (uint64_t& i : empty) {
    if (!in.ReadVarint64(&i)) return broken();
  }
  if (!in.ReadVarint64(&dtype) || dtype > 100 || !IsKnown(static_cast<DType>(dtype))) return broken();
  if (!in.ReadVarint64(&limit)) return broken();
  tensorflow::TensorShapeProto shape;
  if (!shape.ParseFromString(metadata.substr(in.CurrentPosition()))) return broken();
  auto list = std::make_shared<TensorList>();
  list->dtype = static_cast<DType>(dtype);
  list->max_elements = static_cast<int32_t>(limit);
  ASSIGN_OR_RETURN(list->element_shape, PartialShape::FromProto(shape));
  size_t next_empty = 0;
  const size_t total = empty.size() + proto.tensors_size();
  int next = 0;
  list->elements.reserve(total);
  for (size_t i = 0; i < total; ++i) {
    if (next_empty < empty.size() && empty[next_empty] == i) {
      ++next_empty;
      list->elements.emplace_back();
      continue;
    }
    if (next >= proto.tensors_size()) return broken();
    ASSIGN_OR_RETURN(Tensor element, TensorFromProto(proto.tensors(next++)));
    if (element.dtype() != list->dtype) return broken();
    list->elements.push_back(std::move(element));
  }
  return list;
}

absl::StatusOr<std::shared_ptr<const TensorList>> ListIn(const Variant& variant) {
  if (variant.As<TensorList>() != nullptr) return std::static_pointer_cast<const TensorList>(variant.shared());
  const auto* const encoded = variant.As<EncodedVariant>();
  if (encoded != nullptr && encoded->TypeName() == TensorList::kTypeName) {
    ASSIGN_OR_RETURN(std::shared_ptr<TensorList> list, TensorList::Decode(encoded->proto()));
    return list;
  }
  return InvalidArgument("Input handle is not a list. Saw: '", variant.empty() ? "nothing" : variant.get()->ToString(),
                         "'");
}

Tensor TensorOf(std::shared_ptr<const TensorList> list) {
  Tensor t(kVariant, Shape());
  *t.mutable_data<Variant>() = Variant(std::move(list));
  return t;
}

absl::StatusOr<std::shared_ptr<TensorList>> AddLists(const TensorList& a, const TensorList& b) {
  if (a.dtype != b.dtype) {
    return InvalidArgument("Trying to add two lists of tensors of different dtypes. One is ", a.dtype,
                           " and the other is ", b.dtype);
  }
  absl::StatusOr<PartialShape> shape = PartialShape::Merge(a.element_shape, b.element_shape);
  if (!shape.ok()) {
    return InvalidArgument("Trying to add two lists of tensors with incompatible element shapes. One is ",
                           a.element_shape, " and the other is ", b.element_shape);
  }
  if (a.elements.size() != b.elements.size()) {
    return InvalidArgument("Trying to add two lists of tensors with different lengths. One is ", a.elements.size(),
                           " and the other is ", b.elements.size());
  }
  auto sum = std::make_shared<TensorList>();
  sum->dtype = a.dtype;
  sum->element_shape = *std::move(shape);
  sum->elements.reserve(a.elements.size());
  for (size_t i = 0; i < a.elements.size(); ++i) {
    ASSIGN_OR_RETURN(Tensor element, AddTensors(a.elements[i], b.elements[i]));
    sum->elements.push_back(std::move(element));
  }
  return sum;
}

absl::StatusOr<std::shared_ptr<TensorList>> ZerosLike(const TensorList& list) {
  auto zeros = std::make_shared<TensorList>();
  zeros->dtype = list.dtype;
  zeros->element_shape = list.element_shape;
  zeros->elements.reserve(list.elements.size());
  for (const Tensor& element : list.elements) {
    ASSIGN_OR_RETURN(Tensor like, ZerosLike(element));
    zeros->elements.push_back(std::move(like));
  }
  return zeros;
}

}  // namespace thalweg
