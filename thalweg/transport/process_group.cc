// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/process_group.h"

#include <utility>

#include "absl/strings/cord.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr char kMayRestart[] = "thalweg/process_group/may_restart";
constexpr size_t kMaxElementBytes = size_t{1} << 15;

}  // namespace

bool HasParts(HostOperation operation) {
  return operation == HostOperation::kReduceScatter || operation == HostOperation::kAllGather ||
         operation == HostOperation::kAllToAll;
}

bool Merges(HostOperation operation) {
  return operation == HostOperation::kAllReduce || operation == HostOperation::kReduceScatter ||
         operation == HostOperation::kReduceSlices;
}

std::string NameOf(HostOperation operation) {
  switch (operation) {
    case HostOperation::kAllReduce:
      return "all-reduce";
    case HostOperation::kReduceScatter:
      return "reduce-scatter";
    case HostOperation::kAllGather:
      return "all-gather";
    case HostOperation::kBroadcast:
      return "broadcast";
    case HostOperation::kAllToAll:
      return "all-to-all";
    case HostOperation::kBarrier:
      return "barrier";
    case HostOperation::kReduceSlices:
      return "reduction to slices";
    case HostOperation::kGatherSlices:
      return "gathering of slices";
  }
  return absl::StrCat("operation ", static_cast<uint32_t>(operation));
}

absl::StatusOr<size_t> CheckCall(const HostCall& call, int ranks) {
  size_t bytes = 0;
  if (call.key == 0) return InvalidArgument("An operation of a group needs a key that is not 0");
  if (call.elements < 0 ||
      __builtin_mul_overflow(static_cast<size_t>(call.elements), size_t{call.element_bytes}, &bytes)) {
    return InvalidArgument("An operation of a group on ", call.elements, " elements of ", call.element_bytes, " bytes");
  }
  if (call.element_bytes > kMaxElementBytes || (call.element_bytes == 0 && call.operation != HostOperation::kBarrier)) {
    return InvalidArgument("An operation of a group on elements of ", call.element_bytes, " bytes");
  }
  if (HasParts(call.operation) && call.elements % ranks != 0) {
    return InvalidArgument(call.elements, " elements cannot be divided among ", ranks, " members");
  }
  for (const HostCall::Piece& piece : call.apart) {
    if (call.operation == HostOperation::kAllReduce && piece.begin >= 0 && piece.count >= 0 &&
        piece.begin <= call.elements && piece.count <= call.elements - piece.begin) {
      continue;
    }
    return InvalidArgument("Elements ", piece.begin, " to ", piece.begin + piece.count, " of ", call.elements,
                           " cannot be elsewhere in a ", NameOf(call.operation));
  }
  if (Merges(call.operation) && call.merge == nullptr) return InvalidArgument("There is no way to merge elements");
  const bool has_slices =
      call.operation == HostOperation::kReduceSlices || call.operation == HostOperation::kGatherSlices;
  if (call.slices < (has_slices ? 1 : 0) || call.slices > (has_slices ? ranks : 0)) {
    return InvalidArgument("A ", NameOf(call.operation), " with ", call.slices, " slices, of ", ranks, " members");
  }
  if (call.root < 0 || call.root >= ranks) return InvalidArgument("There is no rank ", call.root, " of ", ranks);
  return bytes;
}

bool ProcessGroup::MayRestart(const absl::Status& status) { return status.GetPayload(kMayRestart).has_value(); }

absl::Status ProcessGroup::ThatMayRestart(absl::Status status) {
  status.SetPayload(kMayRestart, absl::Cord());
  return status;
}

}  // namespace thalweg
