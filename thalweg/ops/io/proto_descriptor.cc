// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/io/proto_descriptor.h"

#include <climits>

#include "absl/strings/match.h"
#include "google/protobuf/descriptor.pb.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

// Keeps the first error, which would be logged otherwise.
class FirstError : public DescriptorPool::ErrorCollector {
 public:
  void AddError(const std::string& file, const std::string& element, const google::protobuf::Message*, ErrorLocation,
                const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(file, ": ", element, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::StatusOr<std::shared_ptr<const DescriptorPool>> ReadPool(const std::string& source) {
  constexpr char kBytes[] = "bytes://";
  google::protobuf::FileDescriptorSet set;
  bool ok = false;
  if (absl::StartsWith(source, kBytes)) {
    ok = set.ParseFromArray(source.data() + sizeof(kBytes) - 1, static_cast<int>(source.size() - sizeof(kBytes) + 1));
  } else if (const auto bytes = PosixFileSystem().ReadFileToString(source); bytes.ok() && bytes->size() <= INT_MAX) {
    ok = set.ParseFromString(*bytes);
  }
  if (!ok) {
    constexpr size_t kShown = 100;
    return InvalidArgument(
        "Source does not represent serialized file descriptor set proto: '", source.substr(0, kShown),
        "'. Expected 'local://', 'bytes://' and a FileDescriptorSet, or the path of a file with one");
  }
  // The files are built in their order. A pool that looked up imports by itself would recurse as
  // deep as the longest chain of them.
  auto pool = std::make_shared<DescriptorPool>();
  for (const google::protobuf::FileDescriptorProto& file : set.file()) {
    FirstError error;
    if (pool->BuildFileCollectingErrors(file, &error) == nullptr) {
      return InvalidArgument("Failed to load the descriptor of a file: ", error.text());
    }
  }
  return pool;
}

}  // namespace

absl::StatusOr<ProtoMessageType> FindProtoMessageType(const std::string& source, const std::string& message_type,
                                                      const std::vector<std::string>& field_names,
                                                      const ProtoFieldOptions& options) {
  ProtoMessageType found;
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  if (!source.empty() && source != "local://") {
    ASSIGN_OR_RETURN(found.pool, ReadPool(source));
    pool = found.pool.get();
  }
  found.message = pool->FindMessageTypeByName(message_type);
  if (found.message == nullptr) return InvalidArgument("No descriptor found for message type ", message_type);
  for (const std::string& name : field_names) {
    const FieldDescriptor* field = found.message->FindFieldByName(name);
    if (field == nullptr && options.extensions) {
      field = pool->FindExtensionByName(name);
      if (field != nullptr && field->containing_type() != found.message) field = nullptr;
    }
    if (field == nullptr) return InvalidArgument("Unknown field: ", name, " in message type ", message_type);
    found.fields.push_back(field);
  }
  return found;
}

bool ProtoFieldFits(FieldDescriptor::Type type, DType dtype) {
  switch (type) {
    case FieldDescriptor::TYPE_DOUBLE:
      return dtype == kDouble;
    case FieldDescriptor::TYPE_FLOAT:
      return dtype == kFloat || dtype == kDouble;
    case FieldDescriptor::TYPE_INT64:
    case FieldDescriptor::TYPE_SFIXED64:
    case FieldDescriptor::TYPE_SINT64:
      return dtype == kInt64;
    case FieldDescriptor::TYPE_INT32:
    case FieldDescriptor::TYPE_SFIXED32:
    case FieldDescriptor::TYPE_SINT32:
      return dtype == kInt32 || dtype == kInt64;
    case FieldDescriptor::TYPE_UINT64:
    case FieldDescriptor::TYPE_FIXED64:
      return dtype == kUint64;
    case FieldDescriptor::TYPE_UINT32:
    case FieldDescriptor::TYPE_FIXED32:
      return dtype == kUint32 || dtype == kUint64;
    case FieldDescriptor::TYPE_ENUM:
      return dtype == kInt32;
    case FieldDescriptor::TYPE_BOOL:
      return dtype == kBool;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_GROUP:
    case FieldDescriptor::TYPE_MESSAGE:
      return dtype == kString;
  }
  return false;
}

}  // namespace thalweg
