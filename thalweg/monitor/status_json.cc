// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/status_json.h"

#include <google/protobuf/util/json_util.h>

#include "thalweg/base/logging.h"

namespace thalweg {

std::string StatusJson(const google::protobuf::Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  options.add_whitespace = pretty;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  // Names that are not UTF-8 become something else; the message itself is ours.
  if (!status.ok()) LOG(WARNING) << "The status has no JSON: " << status.ToString();
  return status.ok() ? text : "{}";
}

}  // namespace thalweg
