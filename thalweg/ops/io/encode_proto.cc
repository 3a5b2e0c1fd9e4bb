// SPDX-License-Identifier: Apache-2.0
// EncodeProto: serialized protocol buffers of tensors, the opposite of DecodeProtoV2.
//
// For `sizes` of shape S + [n] and n tensors of shape S + [any], message s has the first sizes[s, i] values of row s of
// tensor i as its field i. The fields are written in the order of their numbers.
#include <bit>
#include <climits>
#include <numeric>

#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io/proto_descriptor.h"

namespace thalweg {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// An element of a tensor as a number of the wire.
template <typename T>
uint64_t ToWire(FieldDescriptor::Type type, T value) {
  switch (type) {
    case FieldDescriptor::TYPE_DOUBLE:
      return std::bit_cast<uint64_t>(static_cast<double>(value));
    case FieldDescriptor::TYPE_FLOAT:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    return 0;  // other fields do not fit
  } else {
    switch (type) {
      case FieldDescriptor::TYPE_SINT32:
        return WireFormatLite::ZigZagEncode32(static_cast<int32_t>(value));
      case FieldDescriptor::TYPE_SINT64:
        return WireFormatLite::ZigZagEncode64(static_cast<int64_t>(value));
      case FieldDescriptor::TYPE_INT32:
      case FieldDescriptor::TYPE_ENUM:
        return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value)));
      case FieldDescriptor::TYPE_UINT32:
        return static_cast<uint32_t>(value);
      default:
        return static_cast<uint64_t>(value);
    }
  }
}

void WriteNumber(WireFormatLite::WireType wire, uint64_t raw, CodedOutputStream& out) {
  if (wire == WireFormatLite::WIRETYPE_VARINT) {
    out.WriteVarint64(raw);
  } else if (wire == WireFormatLite::WIRETYPE_FIXED64) {
    out.WriteLittleEndian64(raw);
  } else {
    out.WriteLittleEndian32(static_cast<uint32_t>(raw));
  }
}

// An upper limit for the bytes that some values of a field take. The library counts the bytes of a message as an int.
double MaxBytes(const Tensor& values, int64_t begin, int64_t n) {
  constexpr double kTagAndNumber = 15;
  double bytes = kTagAndNumber * static_cast<double>(n);
  if (values.dtype() == kString) {
    for (int64_t i = begin; i < begin + n; ++i) bytes += static_cast<double>(values.data<std::string>()[i].size());
  }
  return bytes;
}

void WriteStrings(const FieldDescriptor& field, const std::string* values, int64_t n, CodedOutputStream& out) {
  const WireFormatLite::WireType wire = ProtoWireType(field);
  for (int64_t i = 0; i < n; ++i) {
    out.WriteTag(WireFormatLite::MakeTag(field.number(), wire));
    if (wire == WireFormatLite::WIRETYPE_START_GROUP) {
      out.WriteString(values[i]);
      out.WriteTag(WireFormatLite::MakeTag(field.number(), WireFormatLite::WIRETYPE_END_GROUP));
    } else {
      out.WriteVarint32(static_cast<uint32_t>(values[i].size()));
      out.WriteString(values[i]);
    }
  }
}

template <typename T>
void WriteNumbers(const FieldDescriptor& field, bool is_packed, const T* values, int64_t n, CodedOutputStream& out) {
  const WireFormatLite::WireType wire = ProtoWireType(field);
  if (!is_packed) {
    for (int64_t i = 0; i < n; ++i) {
      out.WriteTag(WireFormatLite::MakeTag(field.number(), wire));
      WriteNumber(wire, ToWire(field.type(), values[i]), out);
    }
    return;
  }
  std::string packed;
  {
    StringOutputStream stream(&packed);
    CodedOutputStream coded(&stream);
    for (int64_t i = 0; i < n; ++i) WriteNumber(wire, ToWire(field.type(), values[i]), coded);
  }
  out.WriteTag(WireFormatLite::MakeTag(field.number(), WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  out.WriteVarint32(static_cast<uint32_t>(packed.size()));
  out.WriteString(packed);
}

class EncodeProtoKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const auto source, init.Attr<std::string>("descriptor_source"));
    ASSIGN_OR_RETURN(const auto message, init.Attr<std::string>("message_type"));
    ASSIGN_OR_RETURN(const auto names, init.Attr<std::vector<std::string>>("field_names"));
    ASSIGN_OR_RETURN(const auto types, init.Attr<std::vector<DType>>("Tinput_types"));
    if (names.size() != types.size()) return InvalidArgument("Length of inputs list must match field_names");
    ASSIGN_OR_RETURN(type_, FindProtoMessageType(source, message, names));
    for (size_t i = 0; i < names.size(); ++i) {
      if (!ProtoFieldFits(type_.fields[i]->type(), types[i])) {
        return InvalidArgument("Incompatible type for field ", names[i], ".  Saw dtype: ", types[i],
                               " but field type is: ", type_.fields[i]->type_name());
      }
    }
    order_.resize(names.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return type_.fields[a]->number() < type_.fields[b]->number(); });
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const Shape batch, CheckInputs(c));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, batch));
    for (int64_t i = 0; i < out->num_elements(); ++i) {
      RETURN_IF_ERROR(Encode(c, i, &out->mutable_data<std::string>()[i]));
    }
    return absl::OkStatus();
  }

 private:
  // Returns the shape of the messages.
  absl::StatusOr<Shape> CheckInputs(KernelContext& c) const {
    const absl::Span<const int64_t> first = c.input(1).shape().dims();
    for (int i = 1; i < c.num_inputs(); ++i) {
      const absl::Span<const int64_t> dims = c.input(i).shape().dims();
      if (dims.size() < 2) {
        return InvalidArgument("Invalid shape for field ", type_.fields[i - 1]->name(), ".  Saw shape ",
                               c.input(i).shape(), " but it should be at least a matrix.");
      }
      if (dims.first(dims.size() - 1) != first.first(first.size() - 1)) {
        return InvalidArgument("Values must match up to the last dimension");
      }
    }
    Dims expected(first.begin(), first.end());
    expected.back() = static_cast<int64_t>(type_.fields.size());
    if (c.input(0).shape().dims() != absl::MakeConstSpan(expected)) {
      return InvalidArgument("sizes should be batch_size + [len(field_names)].  Saw: ", c.input(0).shape(),
                             " but expected: ", PartialShape(expected));
    }
    return Shape::Make(first.first(first.size() - 1));
  }

  // Nothing is written before all lengths are checked.
  absl::Status Encode(KernelContext& c, int64_t message, std::string* bytes) const {
    const int64_t num_fields = static_cast<int64_t>(type_.fields.size());
    const int32_t* const sizes = c.input(0).data<int32_t>() + message * num_fields;
    double max_bytes = 0;
    for (int i = 0; i < num_fields; ++i) {
      const Tensor& values = c.input(i + 1);
      const int64_t width = values.shape().dim(values.rank() - 1);
      if (sizes[i] > width || sizes[i] < 0) {
        return InvalidArgument("Size to write must not be ", sizes[i] < 0 ? "negative" : "larger than value tensor",
                               "; but saw: ", sizes[i], " of ", width, " at message ", message, " field ", i);
      }
      max_bytes += MaxBytes(values, message * width, sizes[i]);
    }
    if (max_bytes > INT_MAX) {
      return InvalidArgument("Message ", message, " would take up to ", max_bytes,
                             " bytes; protocol buffers have at most ", INT_MAX);
    }
    StringOutputStream stream(bytes);
    CodedOutputStream out(&stream);
    for (const int i : order_) {
      const Tensor& values = c.input(i + 1);
      const int64_t width = values.shape().dim(values.rank() - 1);
      if (sizes[i] > 0) Write(*type_.fields[i], values, message * width, sizes[i], out);
    }
    return absl::OkStatus();
  }

  // TensorFlow packs fields that say so. Those of its own messages do. This program's copies of them leave that to
  // the default of proto3.
  bool IsPacked(const FieldDescriptor& field) const {
    return type_.pool == nullptr ? field.is_packed() : field.options().packed();
  }

  void Write(const FieldDescriptor& field, const Tensor& values, int64_t begin, int64_t n,
             CodedOutputStream& out) const {
    if (values.dtype() == kString) return WriteStrings(field, values.data<std::string>() + begin, n, out);
    // The types were checked in Init().
    (void)Dispatch(Types<float, double, int32_t, int64_t, uint32_t, uint64_t, bool>(), values.dtype(),
                   [&]<typename T>() {
                     WriteNumbers(field, IsPacked(field), values.data<T>() + begin, n, out);
                     return absl::OkStatus();
                   });
  }

  ProtoMessageType type_;
  std::vector<int> order_;  // the fields by number
};

absl::Status EncodeProtoShape(ShapeContext& c) {
  const PartialShape& sizes = c.input(0);
  if (!sizes.has_rank()) return shapes::Unknown(c);
  if (sizes.rank() == 0) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  c.set_output(0, PartialShape(Dims(sizes.dims().begin(), sizes.dims().end() - 1)));
  return absl::OkStatus();
}

const OpRegistration kEncodeProto = Op("EncodeProto")
                                        .Input("sizes: int32")
                                        .Input("values: Tinput_types")
                                        .Output("bytes: string")
                                        .Attr("field_names: list(string)")
                                        .Attr("message_type: string")
                                        .Attr("descriptor_source: string = 'local://'")
                                        .Attr("Tinput_types: list(type) >= 1")
                                        .Shape(EncodeProtoShape)
                                        .Kernel<EncodeProtoKernel>()
                                        .NotDifferentiable();

}  // namespace
}  // namespace thalweg
