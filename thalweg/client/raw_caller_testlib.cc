// SPDX-License-Identifier: Apache-2.0
#include "thalweg/client/raw_caller_testlib.h"

#include "thalweg/base/notification.h"
#include "thalweg/rpc/message.h"

namespace thalweg {

absl::Status RawCaller::Call(const std::string& method, const std::string& request,
                             google::protobuf::MessageLite* response, absl::Duration timeout) {
  const grpc::Slice slice(request);
  Notification ended;
  absl::Status result;
  channel_->Call(method.c_str(), grpc::ByteBuffer(&slice, 1), {.timeout = timeout},
                 [&](const absl::Status& status, grpc::ByteBuffer& bytes) {
                   result = status;
                   if (status.ok() && response != nullptr) result = ParseMessage(bytes, response);
                   ended.Notify();
                 });
  ended.WaitForNotification();
  return result;
}

}  // namespace thalweg
