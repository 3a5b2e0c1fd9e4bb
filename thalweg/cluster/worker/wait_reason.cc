// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/wait_reason.h"

#include <string>

#include "absl/strings/match.h"
#include "thalweg/cluster/collectives/collective_step_ids.h"
#include "thalweg/graph/sync_role.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {
namespace {

// "/job:ps/replica:0/task:1" of the device that a _Recv gets its tensor from.
absl::string_view SourceTaskOf(const Node& recv) {
  const auto it = recv.def().attr().find("send_device");
  if (it == recv.def().attr().end()) return "";
  const absl::string_view device = it->second.s();
  return device.substr(0, device.rfind("/device:"));
}

absl::string_view FirstInput(const Node& node) {
  return node.num_inputs() > 0 ? absl::string_view(node.input(0).node->name()) : "";
}

}  // namespace

WaitReason WaitReasonOf(const Node& node) {
  using Phase = WaitReason::Phase;
  const absl::string_view op = node.op();
  if (op == "_Recv" || op == "_HostRecv") return {Phase::kWait, "tensor", SourceTaskOf(node)};
  if (IsCollective(op)) return {Phase::kWait, "collective", "the members of its group"};
  switch (SyncRoleOf(node)) {
    // An accumulator gives its mean, or ends its round, when it has enough gradients.
    case SyncRole::kAwaitGradients:
    case SyncRole::kTakeGradients:
      return {Phase::kWait, "gradients", "gradients"};
    case SyncRole::kAwaitStep:
      return {Phase::kWait, "token", "the next synchronous step"};
    default:
      break;
  }
  if (absl::StartsWith(op, "QueueEnqueue") || absl::EndsWith(op, "Stage")) {
    return {Phase::kWait, "room", FirstInput(node)};
  }
  if (absl::StartsWith(op, "QueueDequeue")) {
    // The queue of TensorFlow's SyncReplicasOptimizer.
    if (absl::StrContains(FirstInput(node), "sync_token_q")) {
      return {Phase::kWait, "token", "the next synchronous step"};
    }
    return {Phase::kInput, "input", FirstInput(node)};
  }
  if (absl::StrContains(op, "PyFunc")) return {Phase::kInput, "python", "a Python function"};
  return {Phase::kInput, "input", FirstInput(node)};
}

}  // namespace thalweg
