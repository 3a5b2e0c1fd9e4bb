// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/send_key.h"

#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"

namespace thalweg {

absl::StatusOr<RendezvousKey> SendKeyOf(const tensorflow::NodeDef& def) {
  RendezvousKey key;
  ASSIGN_OR_RETURN(key.source_device, GetAttr<std::string>(def, "send_device"));
  ASSIGN_OR_RETURN(key.destination_device, GetAttr<std::string>(def, "recv_device"));
  ASSIGN_OR_RETURN(const int64_t incarnation, GetAttr<int64_t>(def, "send_device_incarnation"));
  key.source_incarnation = static_cast<uint64_t>(incarnation);
  ASSIGN_OR_RETURN(key.edge, GetAttr<std::string>(def, "tensor_name"));
  return key;
}

}  // namespace thalweg
