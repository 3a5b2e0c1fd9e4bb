// Protos in files: as bytes or, if the name ends in .pbtxt, as text.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace thalweg::cli {

// INVALID_ARGUMENT, with the path and the type, if the file holds no such
// message.
absl::Status ReadProto(const std::string& path, google::protobuf::Message* message);
absl::Status WriteProto(const std::string& path, const google::protobuf::Message& message);

}  // namespace thalweg::cli
