// SPDX-License-Identifier: Apache-2.0
// Message types that a graph names, for the ops that decode and encode protocol buffers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/wire_format_lite.h"
#include "thalweg/tensor/dtype.h"

namespace thalweg {

// A message type and some of its fields. Immutable.
struct ProtoMessageType {
  std::shared_ptr<const google::protobuf::DescriptorPool> pool;  // owns the descriptors; null: those of this program
  const google::protobuf::Descriptor* message = nullptr;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
};

struct ProtoFieldOptions {
  bool extensions = false;  // also finds extensions, by their full names
};

// Finds a message type and its fields. `source` says where its descriptor is:
//   ""  or "local://"   among the messages that this program is linked with, such as tensorflow.Example
//   "bytes://..."       in the serialized FileDescriptorSet that follows, in which a file comes after its imports
//   anything else       in the file of that name, which holds such a set
absl::StatusOr<ProtoMessageType> FindProtoMessageType(const std::string& source, const std::string& message_type,
                                                      const std::vector<std::string>& field_names,
                                                      const ProtoFieldOptions& options = {});

// True if a field of this type can be a tensor of type `dtype`.
bool ProtoFieldFits(google::protobuf::FieldDescriptor::Type type, DType dtype);

// How a single value of a field is written.
inline google::protobuf::internal::WireFormatLite::WireType ProtoWireType(
    const google::protobuf::FieldDescriptor& field) {
  using google::protobuf::internal::WireFormatLite;
  return WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field.type()));
}

}  // namespace thalweg
