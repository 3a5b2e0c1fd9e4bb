// SPDX-License-Identifier: Apache-2.0
#include "thalweg/client/task_completion.h"

#include "absl/strings/strip.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/rpc/grpc_job_peers.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {

absl::Status AnnounceDone(const std::string& target) {
  if (target.empty()) return absl::OkStatus();
  const std::string address(absl::StripPrefix(target, "grpc://"));
  RETURN_IF_ERROR(HostPort::Parse(address).status());
  RpcClient client;
  const auto channel = client.Connect(address);
  AnnounceDoneResponse response;
  absl::Status result;
  Notification answered;
  CallAnnounceDone(*channel, {.timeout = absl::Seconds(10)}, &response, [&](const absl::Status& status) {
    result = status;
    answered.Notify();
  });
  answered.WaitForNotification();
  if (absl::IsUnimplemented(result)) return absl::OkStatus();
  return Append(result, absl::StrCat(" (saying to ", target, " that its task is done)"));
}

}  // namespace thalweg
