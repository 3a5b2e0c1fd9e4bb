// SPDX-License-Identifier: Apache-2.0
// ProcessGroup: members of several processes that run collective operations together.
//
// HostGroup (transport/host_group.h) runs them in shared memory, NetGroup (transport/net_group.h) over
// TCP. The group fails, with the same error for all members, if a member dies, if members disagree about
// an operation, or if a member does not arrive at it in time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/transport/host_arena.h"
#include "thalweg/transport/host_schedule.h"

namespace thalweg {

// One member's call of an operation.
struct HostCall {
  using Merge = void (*)(void* into, const void* from, int64_t n);
  using Finish = void (*)(void* values, int64_t n, int members);

  HostOperation operation = HostOperation::kBarrier;
  uint64_t key = 0;  // identifies the operation among those in progress, the same for all members; not 0
  int64_t elements = 0;
  uint32_t element_bytes = 0;
  int64_t step = 0;  // operations of one step fail together; if it is 0, the group fails with the operation
  uint32_t tag = 0;  // identifies element type and merge; members must agree
  int root = 0;
  // Merge all-reduced elements in the order of ranks, whatever their number. Without it the order depends on the
  // number of elements, but never on timing. HostGroup always uses the order of ranks.
  bool rank_order = false;
  // Only in a NetGroup, for kAllReduce and kBroadcast of more than kNetInlineBytes: values move between hosts, as
  // transport/two_level.h says, and the members of a host exchange them among themselves before or after.
  bool between_hosts = false;
  int slices = 0;          // number of slices for kReduceSlices and kGatherSlices; at most as many as members
  void* values = nullptr;  // in the arena or in other memory
  // Values that are elsewhere. Only for kAllReduce in a HostGroup: see HostGroup::MergedPart().
  struct Piece {
    int64_t begin = 0, count = 0;  // elements of `values`
    const void* data = nullptr;
  };
  std::vector<Piece> apart;
  void* results = nullptr;  // for kAllToAll; other operations overwrite `values`
  Merge merge = nullptr;
  Finish finish = nullptr;  // runs on the merged values; optional
  absl::Duration timeout = absl::Seconds(60);
};

// Whether members have parts in an operation, and whether it merges values.
bool HasParts(HostOperation operation);
bool Merges(HostOperation operation);
// "all-reduce". Members send numbers, so unknown ones are possible.
std::string NameOf(HostOperation operation);
// Returns the bytes of a call's values, or INVALID_ARGUMENT if no group of so many members can run it.
absl::StatusOr<size_t> CheckCall(const HostCall& call, int ranks);

// Thread-safe.
class ProcessGroup {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  using Memory = HostArena::Memory;

  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Memory of this member that operations use without a copy. RESOURCE_EXHAUSTED if there is none, or none left.
  virtual absl::StatusOr<Memory> Allocate(size_t bytes) = 0;

  // Runs an operation and waits for its result.
  virtual absl::Status Run(const HostCall& call) = 0;
  // Starts an operation. `done` runs exactly once, on this thread or on one of the group's. The memory of the
  // call must live until then.
  virtual void Start(const HostCall& call, Done done) = 0;

  // Fails a step for all members or, if `step` is 0, the group, because this member leaves.
  virtual void Fail(const absl::Status& why, int64_t step) = 0;
  // The error with which the group has failed.
  virtual absl::Status status() const = 0;

  // Whether an operation ended with this error only because another step failed. No member has begun
  // such an operation, so all members can run it in a new group.
  static bool MayRestart(const absl::Status& status);
  // The error, marked for MayRestart().
  static absl::Status ThatMayRestart(absl::Status status);
};

}  // namespace thalweg
