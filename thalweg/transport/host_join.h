// SPDX-License-Identifier: Apache-2.0
// How the members of a group on one host find each other: the first listens on a local socket,
// the others connect, and all get the memory of all. The sockets stay open: one that closes
// tells that its member is gone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/transport/host_board.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

// Says which processes can share memory with this one: those of the same machine, network
// namespace and user. "" if that is not known.
std::string HostIdentity();

struct HostMembers {
  std::unique_ptr<HostBoard> board;
  std::vector<std::shared_ptr<SharedMemory>> arenas;  // by rank
  std::vector<FileHandle> sockets;                    // of the first member to all others, of the others to the first
  std::vector<int> socket_ranks;                      // who is at the other end
};

// Waits for all members of the group `name`. DEADLINE_EXCEEDED names those that have not come.
// INVALID_ARGUMENT if members do not agree on the size of the group, or share a rank.
absl::StatusOr<HostMembers> JoinHostMembers(const std::string& name, int rank, int ranks,
                                            std::shared_ptr<SharedMemory> arena, absl::Time deadline,
                                            const Cancellation* cancellation);

}  // namespace thalweg
