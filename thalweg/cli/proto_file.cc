// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cli/proto_file.h"

#include "absl/strings/match.h"
#include "google/protobuf/text_format.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/status.h"

namespace thalweg::cli {
namespace {

bool IsText(const std::string& path) { return absl::EndsWith(path, ".pbtxt"); }

}  // namespace

absl::Status ReadProto(const std::string& path, google::protobuf::Message* message) {
  ASSIGN_OR_RETURN(const std::string bytes, PosixFileSystem().ReadFileToString(path));
  const bool ok =
      IsText(path) ? google::protobuf::TextFormat::ParseFromString(bytes, message) : message->ParseFromString(bytes);
  if (ok) return absl::OkStatus();
  return InvalidArgument(path, " is not a valid ", message->GetTypeName(), IsText(path) ? " in text form" : "");
}

absl::Status WriteProto(const std::string& path, const google::protobuf::Message& message) {
  std::string bytes;
  const bool ok =
      IsText(path) ? google::protobuf::TextFormat::PrintToString(message, &bytes) : message.SerializeToString(&bytes);
  if (!ok)
    return ResourceExhausted("cannot write ", path, ": the ", message.GetTypeName(),
                             " exceeds protobuf's limit of 2 GB");
  return PosixFileSystem().WriteStringToFile(path, bytes);
}

}  // namespace thalweg::cli
