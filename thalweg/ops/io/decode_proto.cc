// SPDX-License-Identifier: Apache-2.0
// DecodeProtoV2: fields of serialized protocol buffers as tensors.
//
// For messages of shape S and n fields, `sizes` of shape S + [n] has the number of values that each field has in each
// message, and values[i], of shape S + [the largest of these, at least 1], has the values. A row with fewer values is
// filled with the field's default. The fields of the wire format are read directly, so submessages keep their bytes.
// With `sanitize`, and for messages in text format, each message is parsed and written again first.
#include <bit>
#include <climits>

#include "absl/container/flat_hash_set.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/wire_format_lite.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io/proto_descriptor.h"

namespace thalweg {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kMaxDepth = 100;                          // levels of messages in messages
constexpr size_t kMaxReachable = 1'000;                 // message types: the library recurses over them
constexpr int64_t kMaxBytes = INT_MAX;                  // the library's limit for a message
constexpr double kMaxDefaultBytes = double{1LL << 30};  // texts that fill the rows of an output

bool IsNumber(const FieldDescriptor& field) {
  return FieldDescriptor::IsTypePackable(static_cast<FieldDescriptor::Type>(field.type()));
}

// A field's default, as the wire has it.
uint64_t DefaultOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
      return std::bit_cast<uint64_t>(field.default_value_double());
    case FieldDescriptor::TYPE_FLOAT:
      return std::bit_cast<uint32_t>(field.default_value_float());
    case FieldDescriptor::TYPE_SINT32:
      return WireFormatLite::ZigZagEncode32(field.default_value_int32());
    case FieldDescriptor::TYPE_SINT64:
      return WireFormatLite::ZigZagEncode64(field.default_value_int64());
    default:
      break;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return static_cast<uint64_t>(static_cast<int64_t>(field.default_value_int32()));
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<uint64_t>(field.default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32:
      return field.default_value_uint32();
    case FieldDescriptor::CPPTYPE_UINT64:
      return field.default_value_uint64();
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.default_value_bool() ? 1 : 0;
    case FieldDescriptor::CPPTYPE_ENUM:
      return static_cast<uint64_t>(static_cast<int64_t>(field.default_value_enum()->number()));
    default:
      return 0;
  }
}

// A number of the wire as an element of a tensor. TensorFlow takes negative numbers of a packed int32 field for
// positive ones if the tensor is of int64. Here they stay negative.
template <typename T>
T NumberFrom(FieldDescriptor::Type type, uint64_t raw) {
  switch (type) {
    case FieldDescriptor::TYPE_DOUBLE:
      return static_cast<T>(std::bit_cast<double>(raw));
    case FieldDescriptor::TYPE_FLOAT:
      return static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(raw)));
    case FieldDescriptor::TYPE_SINT32:
      return static_cast<T>(WireFormatLite::ZigZagDecode32(static_cast<uint32_t>(raw)));
    case FieldDescriptor::TYPE_SINT64:
      return static_cast<T>(WireFormatLite::ZigZagDecode64(raw));
    case FieldDescriptor::TYPE_INT32:
    case FieldDescriptor::TYPE_ENUM:
    case FieldDescriptor::TYPE_SFIXED32:
      return static_cast<T>(static_cast<int32_t>(raw));
    case FieldDescriptor::TYPE_UINT32:
    case FieldDescriptor::TYPE_FIXED32:
      return static_cast<T>(static_cast<uint32_t>(raw));
    case FieldDescriptor::TYPE_BOOL:
      return static_cast<T>(raw != 0);
    default:
      return static_cast<T>(raw);
  }
}

// The values of one field in all messages, one message after the other.
struct Column {
  std::vector<int32_t> sizes;
  std::vector<uint64_t> numbers;
  std::vector<absl::string_view> texts;  // in the messages
};

bool ReadNumber(CodedInputStream& stream, WireFormatLite::WireType wire, uint64_t* raw) {
  if (wire == WireFormatLite::WIRETYPE_VARINT) return stream.ReadVarint64(raw);
  if (wire == WireFormatLite::WIRETYPE_FIXED64) return stream.ReadLittleEndian64(raw);
  uint32_t word = 0;
  const bool ok = stream.ReadLittleEndian32(&word);
  *raw = word;
  return ok;
}

// Reads the fields of one message.
class MessageReader {
 public:
  MessageReader(const ProtoMessageType& type, std::vector<Column>* columns)
      : type_(type), columns_(*columns), before_(type.fields.size()) {}

  absl::Status Read(absl::string_view bytes) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      before_[i] = IsNumber(*type_.fields[i]) ? columns_[i].numbers.size() : columns_[i].texts.size();
      columns_[i].sizes.push_back(0);
    }
    CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
    stream.SetRecursionLimit(kMaxDepth);
    for (int start = 0; const uint32_t tag = stream.ReadTag(); start = stream.CurrentPosition()) {
      RETURN_IF_ERROR(ReadField(bytes, start, tag, stream));
    }
    if (!stream.ConsumedEntireMessage()) return Corrupt("a tag", stream);
    return absl::OkStatus();
  }

 private:
  absl::Status Corrupt(absl::string_view what, CodedInputStream& stream) const {
    return DataLoss("Failed to decode a ", type_.message->full_name(), ": ", what, " is invalid before byte ",
                    stream.CurrentPosition());
  }

  // A field may have been asked for several times.
  absl::Status ReadField(absl::string_view bytes, int start, uint32_t tag, CodedInputStream& stream) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    const WireFormatLite::WireType wire = WireFormatLite::GetTagWireType(tag);
    const int body = stream.CurrentPosition();
    if (!WireFormatLite::SkipField(&stream, tag)) return Corrupt(absl::StrCat("field ", number), stream);
    const absl::string_view content = bytes.substr(body, stream.CurrentPosition() - body);
    for (size_t i = 0; i < columns_.size(); ++i) {
      const FieldDescriptor& field = *type_.fields[i];
      if (field.number() != number) continue;
      if (wire == ProtoWireType(field)) {
        if (IsNumber(field)) {
          RETURN_IF_ERROR(AddNumbers(i, content, false, stream));
        } else {
          AddText(i, wire == WireFormatLite::WIRETYPE_START_GROUP
                         ? bytes.substr(start, stream.CurrentPosition() - start)
                         : AfterLength(content));
        }
      } else if (wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED && IsNumber(field)) {
        RETURN_IF_ERROR(AddNumbers(i, AfterLength(content), true, stream));
      }  // a field of another wire type is unknown and ignored
    }
    return absl::OkStatus();
  }

  // REQUIRES: `content` starts with a valid length.
  static absl::string_view AfterLength(absl::string_view content) {
    size_t i = 0;
    while ((static_cast<uint8_t>(content[i]) & 0x80) != 0) ++i;
    return content.substr(i + 1);
  }

  absl::Status AddNumbers(size_t i, absl::string_view content, bool packed, CodedInputStream& outer) {
    const FieldDescriptor& field = *type_.fields[i];
    // A message type may have changed from a repeated field to a single one. TensorFlow counts packed values of a
    // single field, but gives the default.
    const bool ignored = packed && !field.is_repeated();
    CodedInputStream stream(reinterpret_cast<const uint8_t*>(content.data()), static_cast<int>(content.size()));
    while (stream.CurrentPosition() < static_cast<int>(content.size())) {
      uint64_t raw = 0;
      if (!ReadNumber(stream, ProtoWireType(field), &raw)) return Corrupt(absl::StrCat("field ", field.name()), outer);
      AddNumber(i, ignored ? DefaultOf(field) : raw);
    }
    return absl::OkStatus();
  }

  // The last value of a field that is not repeated counts.
  void AddNumber(size_t i, uint64_t raw) { Add(i, raw, &columns_[i].numbers); }
  void AddText(size_t i, absl::string_view text) { Add(i, text, &columns_[i].texts); }
  template <typename T>
  void Add(size_t i, T value, std::vector<T>* values) {
    if (!type_.fields[i]->is_repeated() && values->size() > before_[i]) {
      values->back() = value;
      return;
    }
    values->push_back(value);
    ++columns_[i].sizes.back();
  }

  const ProtoMessageType& type_;
  std::vector<Column>& columns_;
  std::vector<size_t> before_;  // the number of values of earlier messages
};

// Fills a tensor, row by row.
template <typename T, typename V, typename Convert>
void FillRows(const Column& column, const std::vector<V>& values, int64_t width, const T& missing, Convert convert,
              Tensor* out) {
  T* to = out->mutable_data<T>();
  size_t next = 0;
  for (const int32_t size : column.sizes) {
    for (int32_t k = 0; k < size; ++k) *to++ = convert(values[next++]);
    for (int64_t k = size; k < width; ++k) *to++ = missing;
  }
}

// Counts the message types that messages of this type can contain, also in extensions, up to a limit.
size_t CountReachable(const Descriptor* message) {
  absl::flat_hash_set<const Descriptor*> seen = {message};
  std::vector<const Descriptor*> open = {message};
  while (!open.empty() && seen.size() <= kMaxReachable) {
    const Descriptor* const next = open.back();
    open.pop_back();
    std::vector<const FieldDescriptor*> fields;
    if (next->extension_range_count() > 0) next->file()->pool()->FindAllExtensions(next, &fields);
    for (int i = 0; i < next->field_count(); ++i) fields.push_back(next->field(i));
    for (const FieldDescriptor* const field : fields) {
      const Descriptor* const inner = field->message_type();
      if (inner != nullptr && seen.insert(inner).second) open.push_back(inner);
    }
  }
  return seen.size();
}

// Refuses types with too many others in them in a google.protobuf.Any too.
class SmallTypes : public google::protobuf::TextFormat::Finder {
 public:
  const Descriptor* FindAnyType(const google::protobuf::Message& message, const std::string& prefix,
                                const std::string& name) const override {
    const Descriptor* const found = Finder::FindAnyType(message, prefix, name);
    return found != nullptr && CountReachable(found) > kMaxReachable ? nullptr : found;
  }
};

// Keeps the parser's first complaint, which would be logged otherwise.
class FirstComplaint : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class DecodeProtoKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const auto source, init.Attr<std::string>("descriptor_source"));
    ASSIGN_OR_RETURN(const auto message, init.Attr<std::string>("message_type"));
    ASSIGN_OR_RETURN(const auto names, init.Attr<std::vector<std::string>>("field_names"));
    ASSIGN_OR_RETURN(const auto types, init.Attr<std::vector<DType>>("output_types"));
    ASSIGN_OR_RETURN(const auto format, init.Attr<std::string>("message_format"));
    ASSIGN_OR_RETURN(const bool sanitize, init.Attr<bool>("sanitize"));
    if (names.size() != types.size()) {
      return InvalidArgument("field_names and output_types attributes must have the same length");
    }
    ASSIGN_OR_RETURN(type_, FindProtoMessageType(source, message, names, {.extensions = true}));
    for (size_t i = 0; i < names.size(); ++i) {
      if (!ProtoFieldFits(type_.fields[i]->type(), types[i])) {
        return InvalidArgument("Unexpected output type for ", type_.fields[i]->full_name(), ": ",
                               type_.fields[i]->type_name(), " to ", types[i]);
      }
    }
    if (format != "binary" && format != "text") return InvalidArgument("format must be one of binary or text");
    is_text_ = format == "text";
    if (!is_text_ && !sanitize) return absl::OkStatus();
    if (CountReachable(type_.message) > kMaxReachable) {
      return InvalidArgument("Messages of type ", message, " can contain more than ", kMaxReachable,
                             " types of messages, which is only allowed for binary messages without sanitize");
    }
    factory_ = std::make_unique<google::protobuf::DynamicMessageFactory>();
    prototype_ = factory_->GetPrototype(type_.message);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const int64_t n = input.num_elements();
    if (n == 0) return InvalidArgument("Bufs argument must contain at least one value");
    std::vector<std::string> rewritten;
    rewritten.reserve(prototype_ == nullptr ? 0 : n);  // columns refer to the strings
    std::vector<Column> columns(type_.fields.size());
    MessageReader reader(type_, &columns);
    for (int64_t i = 0; i < n; ++i) {
      absl::string_view bytes = input.data<std::string>()[i];
      if (bytes.size() > kMaxBytes) {
        return InvalidArgument("Message ", i, " has ", bytes.size(), " bytes; protocol buffers have at most ",
                               kMaxBytes);
      }
      if (prototype_ != nullptr) {
        ASSIGN_OR_RETURN(std::string again, Rewrite(bytes));
        bytes = rewritten.emplace_back(std::move(again));
      }
      RETURN_IF_ERROR(reader.Read(bytes));
    }
    return SetOutputs(c, columns);
  }

 private:
  absl::StatusOr<std::string> Rewrite(absl::string_view bytes) const {
    const std::unique_ptr<google::protobuf::Message> message(prototype_->New());
    if (is_text_) {
      google::protobuf::TextFormat::Parser parser;
      parser.SetRecursionLimit(kMaxDepth);
      const SmallTypes types;
      parser.SetFinder(&types);
      FirstComplaint complaint;
      parser.RecordErrorsTo(&complaint);
      if (!parser.ParseFromString(std::string(bytes), message.get())) {
        return DataLoss("Unable to parse text protobuf: ", complaint.text());
      }
    } else if (!message->ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return DataLoss("Unable to parse binary protobuf");
    } else if (!message->IsInitialized()) {
      return DataLoss("Unable to parse binary protobuf: missing required fields: ",
                      message->InitializationErrorString());
    }
    return message->SerializePartialAsString();
  }

  absl::Status SetOutputs(KernelContext& c, const std::vector<Column>& columns) const {
    const absl::Span<const int64_t> batch = c.input(0).shape().dims();
    Dims dims(batch.begin(), batch.end());
    dims.push_back(static_cast<int64_t>(columns.size()));
    ASSIGN_OR_RETURN(const Shape sizes_shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const sizes, c.Allocate(0, sizes_shape));
    for (size_t i = 0; i < columns.size(); ++i) {
      const Column& column = columns[i];
      for (size_t k = 0; k < column.sizes.size(); ++k) {
        sizes->mutable_data<int32_t>()[k * columns.size() + i] = column.sizes[k];
      }
      dims.back() = std::max(1, *std::max_element(column.sizes.begin(), column.sizes.end()));
      ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
      RETURN_IF_ERROR(CheckDefaults(*type_.fields[i], static_cast<double>(shape.num_elements()) - column.texts.size()));
      ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(static_cast<int>(i) + 1, shape));
      Fill(*type_.fields[i], column, dims.back(), out);
    }
    return absl::OkStatus();
  }

  static std::string DefaultText(const FieldDescriptor& field) {
    return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ? field.default_value_string() : std::string();
  }

  // A default may be long, and a message with many values makes the rows of all others as long as its own.
  static absl::Status CheckDefaults(const FieldDescriptor& field, double missing) {
    const double bytes = missing * static_cast<double>(DefaultText(field).size());
    if (bytes <= kMaxDefaultBytes) return absl::OkStatus();
    return ResourceExhausted("The defaults of the missing values of ", field.full_name(), " would take ", bytes,
                             " bytes");
  }

  static void Fill(const FieldDescriptor& field, const Column& column, int64_t width, Tensor* out) {
    if (out->dtype() == kString) {
      const auto convert = [](absl::string_view text) { return std::string(text); };
      FillRows(column, column.texts, width, DefaultText(field), convert, out);
      return;
    }
    // The types were checked in Init().
    (void)Dispatch(Types<float, double, int32_t, int64_t, uint32_t, uint64_t, bool>(), out->dtype(), [&]<typename T>() {
      const auto convert = [&](uint64_t raw) { return NumberFrom<T>(field.type(), raw); };
      FillRows(column, column.numbers, width, convert(DefaultOf(field)), convert, out);
      return absl::OkStatus();
    });
  }

  ProtoMessageType type_;
  bool is_text_ = false;
  // Only for messages that are parsed and written again.
  std::unique_ptr<google::protobuf::DynamicMessageFactory> factory_;
  const google::protobuf::Message* prototype_ = nullptr;
};

absl::Status DecodeProtoShape(ShapeContext& c) {
  if (!c.input(0).has_rank()) return shapes::Unknown(c);
  Dims dims(c.input(0).dims().begin(), c.input(0).dims().end());
  dims.push_back(c.num_outputs() - 1);
  c.set_output(0, PartialShape(dims));
  dims.back() = PartialShape::kUnknown;
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, PartialShape(dims));
  return absl::OkStatus();
}

const OpRegistration kDecodeProto = Op("DecodeProtoV2")
                                        .Input("bytes: string")
                                        .Output("sizes: int32")
                                        .Output("values: output_types")
                                        .Attr("message_type: string")
                                        .Attr("field_names: list(string)")
                                        .Attr("output_types: list(type) >= 0")
                                        .Attr("descriptor_source: string = 'local://'")
                                        .Attr("message_format: string = 'binary'")
                                        .Attr("sanitize: bool = false")
                                        .Shape(DecodeProtoShape)
                                        .Kernel<DecodeProtoKernel>()
                                        .NotDifferentiable();

}  // namespace
}  // namespace thalweg
