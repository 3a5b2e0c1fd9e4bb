// SPDX-License-Identifier: Apache-2.0
// Reads and writes protos in files: in text form if the name ends in .pbtxt,
// otherwise in binary form.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace thalweg::cli {

// Returns INVALID_ARGUMENT, with the path and the type, if the file does not parse
// as such a message.
absl::Status ReadProto(const std::string& path, google::protobuf::Message* message);
absl::Status WriteProto(const std::string& path, const google::protobuf::Message& message);

}  // namespace thalweg::cli
