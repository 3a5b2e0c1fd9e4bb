// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/attr.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using tensorflow::AttrValue;

const char* KindName(const AttrValue& v) {
  switch (v.value_case()) {
    case AttrValue::kList:
      return "list";
    case AttrValue::kS:
      return "string";
    case AttrValue::kI:
      return "int";
    case AttrValue::kF:
      return "float";
    case AttrValue::kB:
      return "bool";
    case AttrValue::kType:
      return "type";
    case AttrValue::kShape:
      return "shape";
    case AttrValue::kTensor:
      return "tensor";
    case AttrValue::kFunc:
      return "func";
    case AttrValue::kPlaceholder:
      return "placeholder";
    case AttrValue::VALUE_NOT_SET:
      return "nothing";
  }
  return "nothing";
}

absl::Status WrongKind(absl::string_view expected, const AttrValue& v) {
  return InvalidArgument("expected ", expected, ", got ", KindName(v));
}

// Reads of single values. A missing value of a proto3 scalar reads as its
// default, so the oneof case is what counts.
absl::Status Read(const AttrValue& v, int64_t& out) {
  if (v.value_case() != AttrValue::kI) return WrongKind("int", v);
  out = v.i();
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, float& out) {
  if (v.value_case() != AttrValue::kF) return WrongKind("float", v);
  out = v.f();
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, bool& out) {
  if (v.value_case() != AttrValue::kB) return WrongKind("bool", v);
  out = v.b();
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, std::string& out) {
  if (v.value_case() != AttrValue::kS) return WrongKind("string", v);
  out = v.s();
  return absl::OkStatus();
}
absl::Status ToDType(int number, DType& out) {
  out = static_cast<DType>(number);
  if (number <= 0 || number > 255 || !IsKnown(out)) return InvalidArgument("unknown type number ", number);
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, DType& out) {
  if (v.value_case() != AttrValue::kType) return WrongKind("type", v);
  return ToDType(v.type(), out);
}
absl::Status Read(const AttrValue& v, PartialShape& out) {
  if (v.value_case() != AttrValue::kShape) return WrongKind("shape", v);
  ASSIGN_OR_RETURN(out, PartialShape::FromProto(v.shape()));
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, Tensor& out) {
  if (v.value_case() != AttrValue::kTensor) return WrongKind("tensor", v);
  ASSIGN_OR_RETURN(out, TensorFromProto(v.tensor()));
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, tensorflow::NameAttrList& out) {
  if (v.value_case() != AttrValue::kFunc) return WrongKind("func", v);
  out = v.func();
  return absl::OkStatus();
}

// A list of `own` elements of the wanted kind and no others. An empty one is of
// every kind.
absl::Status CheckList(const AttrValue& v, absl::string_view kind, int own) {
  if (v.value_case() != AttrValue::kList) return WrongKind(absl::StrCat("list(", kind, ")"), v);
  if (ListSize(v.list()) == own) return absl::OkStatus();
  return InvalidArgument("expected list(", kind, "), got a list with elements of another kind");
}
absl::Status Read(const AttrValue& v, std::vector<int64_t>& out) {
  RETURN_IF_ERROR(CheckList(v, "int", v.list().i_size()));
  out.assign(v.list().i().begin(), v.list().i().end());
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, std::vector<float>& out) {
  RETURN_IF_ERROR(CheckList(v, "float", v.list().f_size()));
  out.assign(v.list().f().begin(), v.list().f().end());
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, std::vector<bool>& out) {
  RETURN_IF_ERROR(CheckList(v, "bool", v.list().b_size()));
  out.assign(v.list().b().begin(), v.list().b().end());
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, std::vector<std::string>& out) {
  RETURN_IF_ERROR(CheckList(v, "string", v.list().s_size()));
  out.assign(v.list().s().begin(), v.list().s().end());
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, std::vector<DType>& out) {
  RETURN_IF_ERROR(CheckList(v, "type", v.list().type_size()));
  for (const int number : v.list().type()) RETURN_IF_ERROR(ToDType(number, out.emplace_back()));
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, std::vector<PartialShape>& out) {
  RETURN_IF_ERROR(CheckList(v, "shape", v.list().shape_size()));
  for (const auto& shape : v.list().shape()) {
    ASSIGN_OR_RETURN(out.emplace_back(), PartialShape::FromProto(shape));
  }
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, std::vector<Tensor>& out) {
  RETURN_IF_ERROR(CheckList(v, "tensor", v.list().tensor_size()));
  for (const auto& tensor : v.list().tensor()) {
    ASSIGN_OR_RETURN(out.emplace_back(), TensorFromProto(tensor));
  }
  return absl::OkStatus();
}
absl::Status Read(const AttrValue& v, std::vector<tensorflow::NameAttrList>& out) {
  RETURN_IF_ERROR(CheckList(v, "func", v.list().func_size()));
  out.assign(v.list().func().begin(), v.list().func().end());
  return absl::OkStatus();
}

std::string Quoted(const std::string& text) { return absl::StrCat("\"", absl::CHexEscape(text), "\""); }

std::string ShapeText(const tensorflow::TensorShapeProto& proto) {
  const absl::StatusOr<PartialShape> shape = PartialShape::FromProto(proto);
  return shape.ok() ? shape->ToString() : proto.ShortDebugString();
}

std::string ListText(const AttrValue::ListValue& list) {
  std::vector<std::string> items;
  for (const std::string& s : list.s()) items.push_back(Quoted(s));
  for (const int64_t i : list.i()) items.push_back(absl::StrCat(i));
  for (const float f : list.f()) items.push_back(absl::StrCat(f));
  for (const bool b : list.b()) items.push_back(b ? "true" : "false");
  for (const int t : list.type()) items.push_back(ToString(static_cast<DType>(t)));
  for (const auto& shape : list.shape()) items.push_back(ShapeText(shape));
  for (const auto& tensor : list.tensor()) items.push_back(tensor.ShortDebugString());
  for (const auto& func : list.func()) items.push_back(func.name());
  return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
}

}  // namespace

template <typename T>
absl::StatusOr<T> GetAttr(const tensorflow::NodeDef& def, absl::string_view name) {
  const auto it = def.attr().find(std::string(name));
  if (it == def.attr().end()) {
    return NotFound("Node '", def.name(), "' (", def.op(), ") has no attr named '", name, "'");
  }
  T value{};
  const absl::Status status = Read(it->second, value);
  if (!status.ok())
    return Prepend(status, absl::StrCat("attr '", name, "' of node '", def.name(), "' (", def.op(), "): "));
  return value;
}
template absl::StatusOr<int64_t> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<float> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<bool> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<std::string> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<DType> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<PartialShape> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<Tensor> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<tensorflow::NameAttrList> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<std::vector<int64_t>> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<std::vector<float>> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<std::vector<bool>> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<std::vector<std::string>> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<std::vector<DType>> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<std::vector<PartialShape>> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<std::vector<Tensor>> GetAttr(const tensorflow::NodeDef&, absl::string_view);
template absl::StatusOr<std::vector<tensorflow::NameAttrList>> GetAttr(const tensorflow::NodeDef&, absl::string_view);

bool HasAttr(const tensorflow::NodeDef& def, absl::string_view name) { return def.attr().contains(std::string(name)); }

AttrArg::AttrArg(absl::string_view name) : name(name), value_(std::make_unique<AttrValue>()) {}
AttrArg::AttrArg(absl::string_view name, AttrValue v) : name(name), value_(std::make_unique<AttrValue>(std::move(v))) {}
AttrArg::AttrArg(const AttrArg& other) : name(other.name), value_(std::make_unique<AttrValue>(*other.value_)) {}
AttrArg::AttrArg(AttrArg&&) noexcept = default;
AttrArg& AttrArg::operator=(const AttrArg& other) { return *this = AttrArg(other); }
AttrArg& AttrArg::operator=(AttrArg&&) noexcept = default;
AttrArg::~AttrArg() = default;

AttrArg::AttrArg(absl::string_view name, int64_t v) : AttrArg(name) { value_->set_i(v); }
AttrArg::AttrArg(absl::string_view name, float v) : AttrArg(name) { value_->set_f(v); }
AttrArg::AttrArg(absl::string_view name, bool v) : AttrArg(name) { value_->set_b(v); }
AttrArg::AttrArg(absl::string_view name, absl::string_view v) : AttrArg(name) { value_->set_s(v.data(), v.size()); }
AttrArg::AttrArg(absl::string_view name, DType v) : AttrArg(name) {
  value_->set_type(static_cast<tensorflow::DataType>(v));
}
AttrArg::AttrArg(absl::string_view name, const PartialShape& v) : AttrArg(name) { v.ToProto(value_->mutable_shape()); }
AttrArg::AttrArg(absl::string_view name, const Tensor& v) : AttrArg(name) {
  TensorToProto(v, value_->mutable_tensor());
}
AttrArg::AttrArg(absl::string_view name, const std::vector<int64_t>& v) : AttrArg(name) {
  value_->mutable_list();
  for (const int64_t x : v) value_->mutable_list()->add_i(x);
}
AttrArg::AttrArg(absl::string_view name, const std::vector<float>& v) : AttrArg(name) {
  value_->mutable_list();
  for (const float x : v) value_->mutable_list()->add_f(x);
}
AttrArg::AttrArg(absl::string_view name, const std::vector<bool>& v) : AttrArg(name) {
  value_->mutable_list();
  for (const bool x : v) value_->mutable_list()->add_b(x);
}
AttrArg::AttrArg(absl::string_view name, const std::vector<std::string>& v) : AttrArg(name) {
  value_->mutable_list();
  for (const std::string& x : v) value_->mutable_list()->add_s(x);
}
AttrArg::AttrArg(absl::string_view name, const std::vector<DType>& v) : AttrArg(name) {
  value_->mutable_list();
  for (const DType x : v) value_->mutable_list()->add_type(static_cast<tensorflow::DataType>(x));
}
AttrArg::AttrArg(absl::string_view name, const std::vector<PartialShape>& v) : AttrArg(name) {
  value_->mutable_list();
  for (const PartialShape& x : v) x.ToProto(value_->mutable_list()->add_shape());
}

int ListSize(const AttrValue::ListValue& l) {
  return l.s_size() + l.i_size() + l.f_size() + l.b_size() + l.type_size() + l.shape_size() + l.tensor_size() +
         l.func_size();
}

std::string ToString(const tensorflow::AttrValue& value) {
  switch (value.value_case()) {
    case AttrValue::kList:
      return ListText(value.list());
    case AttrValue::kS:
      return Quoted(value.s());
    case AttrValue::kI:
      return absl::StrCat(value.i());
    case AttrValue::kF:
      return absl::StrCat(value.f());
    case AttrValue::kB:
      return value.b() ? "true" : "false";
    case AttrValue::kType:
      return ToString(static_cast<DType>(value.type()));
    case AttrValue::kShape:
      return ShapeText(value.shape());
    case AttrValue::kFunc:
      return value.func().name();
    default:
      return value.ShortDebugString();
  }
}

}  // namespace thalweg
