// SPDX-License-Identifier: Apache-2.0
// Connects the members of a group on one host. The first member listens on a local socket, the
// others connect, and each receives the shared memory of all. The sockets stay open: a socket that
// closes means that its member is lost.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/transport/host_control_block.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

// Identifies the processes that can share memory with this one: those with the same machine,
// network namespace and user have the same identity. "" if it is not known.
std::string HostIdentity();

struct HostMembers {
  std::unique_ptr<HostControlBlock> control;
  std::vector<std::shared_ptr<SharedMemory>> arenas;  // by rank
  std::vector<FileHandle> sockets;                    // the first member's to all others; the others' to the first
  std::vector<int> socket_ranks;                      // rank at the other end of each socket
};

// Waits for all members of the group `name`. DEADLINE_EXCEEDED, naming the missing ranks, if some do
// not come. INVALID_ARGUMENT if members disagree on the size of the group or share a rank.
absl::StatusOr<HostMembers> JoinHostMembers(const std::string& name, int rank, int ranks,
                                            std::shared_ptr<SharedMemory> arena, absl::Time deadline,
                                            const Cancellation* cancellation);

}  // namespace thalweg
