// SPDX-License-Identifier: Apache-2.0
#include "thalweg/client/task_completion.h"

#include "absl/strings/strip.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/rpc/grpc_job_peers.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {
namespace {

absl::Status Announce(const std::string& target, bool failed) {
  if (target.empty()) return absl::OkStatus();
  const std::string address(absl::StripPrefix(target, "grpc://"));
  RETURN_IF_ERROR(HostPort::Parse(address).status());
  RpcClient client;
  const auto channel = client.Connect(address);
  AnnounceDoneRequest request;
  request.set_failed(failed);
  AnnounceDoneResponse response;
  absl::Status result;
  Notification answered;
  CallAnnounceDone(*channel, {.timeout = absl::Seconds(10)}, request, &response, [&](const absl::Status& status) {
    result = status;
    answered.Notify();
  });
  answered.WaitForNotification();
  if (absl::IsUnimplemented(result)) return absl::OkStatus();
  return Append(result, absl::StrCat(" (saying to ", target, " that its task ", failed ? "has failed)" : "is done)"));
}

}  // namespace

absl::Status AnnounceDone(const std::string& target) { return Announce(target, /*failed=*/false); }
absl::Status AnnounceFailed(const std::string& target) { return Announce(target, /*failed=*/true); }

}  // namespace thalweg
