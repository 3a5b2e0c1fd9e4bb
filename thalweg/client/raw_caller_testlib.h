// SPDX-License-Identifier: Apache-2.0
// Makes calls with arbitrary bytes, which Thalweg's own clients would not send.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {

class RawCaller {
 public:
  explicit RawCaller(const std::string& address) : channel_(client_.Connect(address)) {}

  absl::Status Call(const std::string& method, const std::string& request,
                    google::protobuf::MessageLite* response = nullptr, absl::Duration timeout = absl::Seconds(30));
  absl::Status Call(const std::string& method, const google::protobuf::MessageLite& request,
                    google::protobuf::MessageLite* response = nullptr, absl::Duration timeout = absl::Seconds(30)) {
    return Call(method, request.SerializeAsString(), response, timeout);
  }
  RpcChannel& channel() { return *channel_; }

 private:
  RpcClient client_;
  const std::shared_ptr<RpcChannel> channel_;
};

}  // namespace thalweg
