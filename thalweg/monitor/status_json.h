// SPDX-License-Identifier: Apache-2.0
// Messages of proto/monitor.proto as JSON.
#pragma once

#include <string>

namespace google::protobuf {
class Message;
}

namespace thalweg {

// Names as in the .proto; fields without a value are there, too. `pretty` adds line breaks.
std::string StatusJson(const google::protobuf::Message& message, bool pretty = false);

}  // namespace thalweg
