// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/op_schema.h"

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/text_format.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/later_attrs.h"

namespace thalweg {
namespace {

using tensorflow::AttrValue;
using tensorflow::NodeDef;
using tensorflow::OpDef;

// A small recursive-descent parser for the language of TensorFlow's REGISTER_OP:
//   Input("values: N * T")  Attr("T: {float, int32} = DT_FLOAT")  Attr("N: int >= 1")
// A spec is parsed when an op is registered; ResolveArgs() connects arguments and attributes once all are known.

// A cursor over a spec: takes words and symbols, skipping blanks.
class Words {
 public:
  explicit Words(absl::string_view text) : text_(text) { Skip(); }
  bool Take(absl::string_view symbol) {
    if (!absl::ConsumePrefix(&text_, symbol)) return false;
    Skip();
    return true;
  }
  std::string Word() {
    size_t n = 0;
    while (n < text_.size() && (absl::ascii_isalnum(text_[n]) || text_[n] == '_')) ++n;
    const std::string word(text_.substr(0, n));
    text_.remove_prefix(n);
    Skip();
    return word;
  }
  absl::string_view rest() const { return text_; }
  bool done() const { return text_.empty(); }
  void Clear() { text_ = {}; }

 private:
  void Skip() { text_ = absl::StripLeadingAsciiWhitespace(text_); }
  absl::string_view text_;
};

// Names of sets of types, as TensorFlow's registrations use them.
std::vector<DType> NamedTypes(absl::string_view name) {
  if (name == "numbertype") {
    return {kFloat,  kDouble,   kInt32,  kUint8,   kInt16,  kInt8,       kComplex64, kInt64,  kQint8, kQuint8,
            kQint32, kBfloat16, kQint16, kQuint16, kUint16, kComplex128, kHalf,      kUint32, kUint64};
  }
  if (name == "realnumbertype") {
    return {kFloat, kDouble, kInt32, kUint8, kInt16, kInt8, kInt64, kBfloat16, kUint16, kHalf, kUint32, kUint64};
  }
  if (name == "quantizedtype") return {kQint8, kQuint8, kQint32, kQint16, kQuint16};
  return {};
}

absl::Status ParseTypeSet(Words& words, AttrValue::ListValue* list) {
  do {
    const std::string word = words.Word();
    const std::vector<DType> named = NamedTypes(word);
    for (const DType t : named) list->add_type(static_cast<tensorflow::DataType>(t));
    if (named.empty()) {
      ASSIGN_OR_RETURN(const DType t, DTypeFromName(word));
      list->add_type(static_cast<tensorflow::DataType>(t));
    }
  } while (words.Take(","));
  return words.Take("}") ? absl::OkStatus() : InvalidArgument("expected '}' at '", words.rest(), "'");
}

absl::Status ParseStringSet(Words& words, AttrValue::ListValue* list) {
  do {
    const absl::string_view rest = words.rest();
    if (!words.Take("'")) return InvalidArgument("expected a quoted string at '", rest, "'");
    const size_t end = words.rest().find('\'');
    if (end == absl::string_view::npos) return InvalidArgument("unterminated string at '", rest, "'");
    const std::string text(words.rest().substr(0, end));
    words.Take(text);
    words.Take("'");
    list->add_s(text);
  } while (words.Take(","));
  return words.Take("}") ? absl::OkStatus() : InvalidArgument("expected '}' at '", words.rest(), "'");
}

// The type part: a keyword, a set of types or strings, or list(of one).
absl::Status ParseAttrType(Words& words, OpDef::AttrDef* attr) {
  const bool is_list = words.Take("list(");
  std::string type;
  if (words.Take("{")) {
    auto* allowed = attr->mutable_allowed_values()->mutable_list();
    if (absl::StartsWith(words.rest(), "'")) {
      type = "string";
      RETURN_IF_ERROR(ParseStringSet(words, allowed));
    } else {
      type = "type";
      RETURN_IF_ERROR(ParseTypeSet(words, allowed));
    }
  } else {
    type = words.Word();
    const std::vector<DType> named = NamedTypes(type);
    if (!named.empty()) {
      for (const DType t : named) {
        attr->mutable_allowed_values()->mutable_list()->add_type(static_cast<tensorflow::DataType>(t));
      }
      type = "type";
    }
  }
  static constexpr const char* kTypes[] = {"type", "int", "float", "bool", "string", "shape", "tensor", "func"};
  if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes)) {
    return InvalidArgument("unknown attr type '", type, "'");
  }
  if (is_list && !words.Take(")")) return InvalidArgument("expected ')' at '", words.rest(), "'");
  attr->set_type(is_list ? absl::StrCat("list(", type, ")") : type);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParseQuoted(absl::string_view text) {
  if (text.size() < 2 || (text.front() != '\'' && text.front() != '"') || text.back() != text.front()) {
    return InvalidArgument("not a quoted string: '", text, "'");
  }
  return std::string(text.substr(1, text.size() - 2));
}

absl::Status ParseScalar(absl::string_view type, absl::string_view text, AttrValue* value) {
  text = absl::StripAsciiWhitespace(text);
  if (type == "int") {
    int64_t i;
    if (!absl::SimpleAtoi(text, &i)) return InvalidArgument("not an int: '", text, "'");
    value->set_i(i);
  } else if (type == "float") {
    float f;
    if (!absl::SimpleAtof(text, &f)) return InvalidArgument("not a float: '", text, "'");
    value->set_f(f);
  } else if (type == "bool") {
    if (text != "true" && text != "false") return InvalidArgument("not a bool: '", text, "'");
    value->set_b(text == "true");
  } else if (type == "string") {
    ASSIGN_OR_RETURN(*value->mutable_s(), ParseQuoted(text));
  } else if (type == "type") {
    std::string name = absl::AsciiStrToLower(absl::StripPrefix(text, "DT_"));
    ASSIGN_OR_RETURN(const DType t, DTypeFromName(name));
    value->set_type(static_cast<tensorflow::DataType>(t));
  } else if (type == "shape" || type == "tensor") {
    // { dim { size: 2 } } or { unknown_rank: true }: a proto in text form.
    google::protobuf::Message* message =
        type == "shape" ? static_cast<google::protobuf::Message*>(value->mutable_shape()) : value->mutable_tensor();
    if (text.size() < 2 || text.front() != '{' || text.back() != '}' ||
        !google::protobuf::TextFormat::ParseFromString(std::string(text.substr(1, text.size() - 2)), message)) {
      return InvalidArgument("not a ", type, ": '", text, "'");
    }
  } else if (type == "func") {
    ASSIGN_OR_RETURN(*value->mutable_func()->mutable_name(), ParseQuoted(text));
  } else {
    return InvalidArgument("no defaults for type ", type);
  }
  return absl::OkStatus();
}

void AppendToList(const AttrValue& item, AttrValue::ListValue* list) {
  switch (item.value_case()) {
    case AttrValue::kI:
      list->add_i(item.i());
      break;
    case AttrValue::kF:
      list->add_f(item.f());
      break;
    case AttrValue::kB:
      list->add_b(item.b());
      break;
    case AttrValue::kS:
      list->add_s(item.s());
      break;
    case AttrValue::kType:
      list->add_type(item.type());
      break;
    case AttrValue::kShape:
      *list->add_shape() = item.shape();
      break;
    case AttrValue::kTensor:
      *list->add_tensor() = item.tensor();
      break;
    case AttrValue::kFunc:
      *list->add_func() = item.func();
      break;
    default:
      break;
  }
}

absl::Status ParseDefault(absl::string_view type, absl::string_view text, AttrValue* value) {
  text = absl::StripAsciiWhitespace(text);
  absl::string_view inner = type;
  if (!absl::ConsumePrefix(&inner, "list(")) return ParseScalar(type, text, value);
  inner.remove_suffix(1);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return InvalidArgument("not a list: '", text, "'");
  auto* list = value->mutable_list();
  const absl::string_view body = absl::StripAsciiWhitespace(text.substr(1, text.size() - 2));
  if (body.empty()) return absl::OkStatus();
  for (const absl::string_view part : absl::StrSplit(body, ',')) {
    AttrValue item;
    RETURN_IF_ERROR(ParseScalar(inner, part, &item));
    AppendToList(item, list);
  }
  return absl::OkStatus();
}

absl::Status ParseAttr(absl::string_view spec, OpDef::AttrDef* attr) {
  Words words(spec);
  attr->set_name(words.Word());
  if (attr->name().empty() || !words.Take(":")) return InvalidArgument("expected 'name: type'");
  RETURN_IF_ERROR(ParseAttrType(words, attr));
  if (words.Take(">=")) {
    if (attr->type() != "int" && !absl::StartsWith(attr->type(), "list(")) {
      return InvalidArgument("only an int or a list has a minimum");
    }
    const bool negative = words.Take("-");
    int64_t minimum;
    if (!absl::SimpleAtoi(words.Word(), &minimum)) return InvalidArgument("expected a minimum");
    attr->set_has_minimum(true);
    attr->set_minimum(negative ? -minimum : minimum);
  }
  if (words.Take("=")) {
    RETURN_IF_ERROR(ParseDefault(attr->type(), words.rest(), attr->mutable_default_value()));
    words.Clear();
  }
  return words.done() ? absl::OkStatus() : InvalidArgument("unexpected '", words.rest(), "'");
}

// Parses "name: type" or "name: N * type", either inside Ref(...). A word that is not a type is
// the name of an attribute. Whether that holds a type, a list of types or a number is known
// only when all attributes are.
absl::Status ParseArg(absl::string_view spec, OpDef::ArgDef* arg) {
  Words words(spec);
  arg->set_name(words.Word());
  if (arg->name().empty() || !words.Take(":")) return InvalidArgument("expected 'name: type'");
  const bool is_ref = words.Take("Ref(");
  std::string word = words.Word();
  if (words.Take("*")) {
    if (word.empty()) return InvalidArgument("expected the name of an attr before '*'");
    arg->set_number_attr(word);
    word = words.Word();
  }
  if (word.empty()) return InvalidArgument("expected a type at '", words.rest(), "'");
  if (const absl::StatusOr<DType> t = DTypeFromName(word); t.ok()) {
    arg->set_type(static_cast<tensorflow::DataType>(*t));
  } else {
    arg->set_type_attr(word);
  }
  if (is_ref && !words.Take(")")) return InvalidArgument("expected ')'");
  arg->set_is_ref(is_ref);
  return words.done() ? absl::OkStatus() : InvalidArgument("unexpected '", words.rest(), "'");
}

// An attr that gives the length of an argument is at least 1, unless it says
// otherwise.
void SetDefaultMinimum(OpDef::AttrDef* attr) {
  if (attr->has_minimum()) return;
  attr->set_has_minimum(true);
  attr->set_minimum(1);
}

OpDef::AttrDef* FindMutableAttr(OpDef* def, absl::string_view name) {
  return const_cast<OpDef::AttrDef*>(FindAttr(*def, name));
}

// Connects an argument with the attrs that it names, which are all known now:
// type_attr becomes type_list_attr where the attr is a list.
absl::Status ResolveArg(OpDef* def, OpDef::ArgDef* arg) {
  if (!arg->number_attr().empty()) {
    OpDef::AttrDef* attr = FindMutableAttr(def, arg->number_attr());
    if (attr == nullptr || attr->type() != "int") {
      return InvalidArgument("argument '", arg->name(), "': '", arg->number_attr(), "' is not an attr of type int");
    }
    SetDefaultMinimum(attr);
  }
  if (arg->type_attr().empty()) return absl::OkStatus();
  OpDef::AttrDef* attr = FindMutableAttr(def, arg->type_attr());
  if (attr != nullptr && attr->type() == "type") return absl::OkStatus();
  if (attr == nullptr || attr->type() != "list(type)" || !arg->number_attr().empty()) {
    return InvalidArgument("argument '", arg->name(), "' has unknown type '", arg->type_attr(), "'");
  }
  arg->set_type_list_attr(arg->type_attr());
  arg->clear_type_attr();
  SetDefaultMinimum(attr);
  return absl::OkStatus();
}

absl::Status ResolveArgs(OpDef* def) {
  for (auto* args : {def->mutable_input_arg(), def->mutable_output_arg()}) {
    for (OpDef::ArgDef& arg : *args) RETURN_IF_ERROR(ResolveArg(def, &arg));
  }
  return absl::OkStatus();
}

// Appends the types of one argument.
absl::Status ArgTypes(const OpDef::ArgDef& arg, const NodeDef& node, std::vector<DType>* types) {
  const size_t begin = types->size();
  if (!arg.type_list_attr().empty()) {
    ASSIGN_OR_RETURN(const std::vector<DType> list, GetAttr<std::vector<DType>>(node, arg.type_list_attr()));
    types->insert(types->end(), list.begin(), list.end());
  } else {
    int64_t count = 1;
    if (!arg.number_attr().empty()) {
      ASSIGN_OR_RETURN(count, GetAttr<int64_t>(node, arg.number_attr()));
      if (count < 0 || count > (1 << 20)) {
        return InvalidArgument("Node '", node.name(), "': attr '", arg.number_attr(), "' = ", count,
                               " is out of range");
      }
    }
    DType type = static_cast<DType>(arg.type());
    if (!arg.type_attr().empty()) {
      ASSIGN_OR_RETURN(type, GetAttr<DType>(node, arg.type_attr()));
    }
    types->insert(types->end(), count, type);
  }
  if (arg.is_ref()) {
    for (size_t i = begin; i < types->size(); ++i) (*types)[i] = MakeRef((*types)[i]);
  }
  return absl::OkStatus();
}

bool Allowed(const OpDef::AttrDef& attr, const AttrValue& value) {
  const auto& list = attr.allowed_values().list();
  const auto type_ok = [&](int t) { return std::find(list.type().begin(), list.type().end(), t) != list.type().end(); };
  const auto text_ok = [&](const std::string& s) {
    return std::find(list.s().begin(), list.s().end(), s) != list.s().end();
  };
  if (list.type_size() > 0) {
    if (value.value_case() == AttrValue::kType) return type_ok(value.type());
    return std::all_of(value.list().type().begin(), value.list().type().end(), type_ok);
  }
  if (value.value_case() == AttrValue::kS) return text_ok(value.s());
  return std::all_of(value.list().s().begin(), value.list().s().end(), text_ok);
}

// The number of elements of `kind` in a list.
int64_t ListSizeOf(absl::string_view kind, const AttrValue::ListValue& l) {
  if (kind == "string") return l.s_size();
  if (kind == "int") return l.i_size();
  if (kind == "float") return l.f_size();
  if (kind == "bool") return l.b_size();
  if (kind == "type") return l.type_size();
  if (kind == "shape") return l.shape_size();
  if (kind == "tensor") return l.tensor_size();
  return l.func_size();
}

bool IsKind(absl::string_view type, const AttrValue& value) {
  if (absl::ConsumePrefix(&type, "list(")) {
    absl::ConsumeSuffix(&type, ")");
    return value.value_case() == AttrValue::kList && ListSizeOf(type, value.list()) == ListSize(value.list());
  }
  switch (value.value_case()) {
    case AttrValue::kS:
      return type == "string";
    case AttrValue::kI:
      return type == "int";
    case AttrValue::kF:
      return type == "float";
    case AttrValue::kB:
      return type == "bool";
    case AttrValue::kType:
      return type == "type";
    case AttrValue::kShape:
      return type == "shape";
    case AttrValue::kTensor:
      return type == "tensor";
    case AttrValue::kFunc:
      return type == "func";
    default:
      return false;
  }
}

// Types of values: known, and not of references.
bool HoldsValueTypes(const AttrValue& value) {
  const auto ok = [](int number) {
    const DType t = static_cast<DType>(number);
    return number > 0 && number < 100 && IsKnown(t);
  };
  if (value.value_case() == AttrValue::kType) return ok(value.type());
  return std::all_of(value.list().type().begin(), value.list().type().end(), ok);
}

}  // namespace

OpSchema::OpSchema() = default;
OpSchema::OpSchema(absl::string_view name) { def.set_name(std::string(name)); }
OpSchema::OpSchema(const OpSchema&) = default;
OpSchema::OpSchema(OpSchema&&) noexcept = default;
OpSchema& OpSchema::operator=(const OpSchema&) = default;
OpSchema& OpSchema::operator=(OpSchema&&) noexcept = default;
OpSchema::~OpSchema() = default;

OpSchema& OpSchema::Input(absl::string_view spec) {
  error.Update(Prepend(ParseArg(spec, def.add_input_arg()), absl::StrCat("input '", spec, "': ")));
  return *this;
}
OpSchema& OpSchema::Output(absl::string_view spec) {
  error.Update(Prepend(ParseArg(spec, def.add_output_arg()), absl::StrCat("output '", spec, "': ")));
  return *this;
}
OpSchema& OpSchema::Attr(absl::string_view spec) {
  error.Update(Prepend(ParseAttr(spec, def.add_attr()), absl::StrCat("attr '", spec, "': ")));
  return *this;
}

const OpDef::AttrDef* FindAttr(const OpDef& def, absl::string_view name) {
  for (const OpDef::AttrDef& attr : def.attr()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}

absl::StatusOr<NodeTypes> ComputeTypes(const OpDef& op, const NodeDef& node) {
  NodeTypes types;
  for (const OpDef::ArgDef& arg : op.input_arg()) {
    types.input_starts.push_back(static_cast<int>(types.inputs.size()));
    RETURN_IF_ERROR(ArgTypes(arg, node, &types.inputs));
  }
  types.input_starts.push_back(static_cast<int>(types.inputs.size()));
  for (const OpDef::ArgDef& arg : op.output_arg()) {
    types.output_starts.push_back(static_cast<int>(types.outputs.size()));
    RETURN_IF_ERROR(ArgTypes(arg, node, &types.outputs));
  }
  types.output_starts.push_back(static_cast<int>(types.outputs.size()));
  return types;
}

void AddDefaultAttrs(const OpDef& op, NodeDef& node) {
  AddLaterTypes(op, node);
  for (const OpDef::AttrDef& attr : op.attr()) {
    if (attr.has_default_value() && !HasAttr(node, attr.name())) {
      (*node.mutable_attr())[attr.name()] = attr.default_value();
    }
  }
}

absl::Status CheckAttrs(const OpDef& op, const NodeDef& node) {
  for (const auto& [name, value] : node.attr()) {
    if (!absl::StartsWith(name, "_") && FindAttr(op, name) == nullptr) {
      return InvalidArgument("NodeDef mentions attr '", name, "' not in op ", op.name(), "; node '", node.name(), "'");
    }
  }
  for (const OpDef::AttrDef& attr : op.attr()) {
    const auto it = node.attr().find(attr.name());
    if (it == node.attr().end()) {
      return InvalidArgument("NodeDef missing attr '", attr.name(), "' from op ", op.name(), "; node '", node.name(),
                             "'");
    }
    const AttrValue& value = it->second;
    if (!IsKind(attr.type(), value)) {
      return InvalidArgument("attr '", attr.name(), "' of node '", node.name(), "' (", op.name(), ") must be of type ",
                             attr.type(), ", got ", ToString(value));
    }
    if (!HoldsValueTypes(value)) {
      return InvalidArgument("attr '", attr.name(), "' of node '", node.name(), "' (", op.name(),
                             ") holds no type of a value: ", ToString(value));
    }
    if (attr.has_allowed_values() && !Allowed(attr, value)) {
      std::vector<std::string> allowed;
      for (const int t : attr.allowed_values().list().type()) allowed.push_back(ToString(static_cast<DType>(t)));
      for (const std::string& s : attr.allowed_values().list().s()) allowed.push_back(absl::StrCat("\"", s, "\""));
      return InvalidArgument("Value for attr '", attr.name(), "' of ", ToString(value),
                             " is not in the list of allowed values: ", absl::StrJoin(allowed, ", "), "; node '",
                             node.name(), "' (", op.name(), ")");
    }
    if (attr.has_minimum()) {
      const int64_t size = value.value_case() == AttrValue::kList ? ListSize(value.list()) : value.i();
      if (size < attr.minimum()) {
        return InvalidArgument("Value for attr '", attr.name(), "' of ", size, " must be at least minimum ",
                               attr.minimum(), "; node '", node.name(), "' (", op.name(), ")");
      }
    }
  }
  return absl::OkStatus();
}

OpRegistry& OpRegistry::Global() {
  static OpRegistry* const registry = new OpRegistry;
  return *registry;
}

void OpRegistry::Add(OpSchema schema) {
  schema.error.Update(ResolveArgs(&schema.def));
  CHECK(schema.error.ok()) << "op " << schema.def.name() << ": " << schema.error.message();
  const std::string name = schema.def.name();
  const bool is_new = schemas_.emplace(name, std::make_unique<const OpSchema>(std::move(schema))).second;
  CHECK(is_new) << "op " << name << " is registered twice";
}

const OpSchema* OpRegistry::Find(absl::string_view name) const {
  const auto it = schemas_.find(name);
  return it == schemas_.end() ? nullptr : it->second.get();
}

std::vector<const OpSchema*> OpRegistry::All() const {
  std::vector<const OpSchema*> all;
  for (const auto& [name, schema] : schemas_) all.push_back(schema.get());
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->def.name() < b->def.name(); });
  return all;
}

}  // namespace thalweg
