// SPDX-License-Identifier: Apache-2.0
// Unix sockets between processes of this machine and user.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "absl/strings/string_view.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

// A socket of packets that does not block; not valid() if there is no descriptor left.
FileHandle NewLocalSocket();

// True if the process at the other end belongs to this user.
bool OfThisUser(int socket);

// Fills in an abstract name, which belongs to the network namespace as a port does. Returns the
// size of the address. REQUIRES: at most 100 characters.
socklen_t LocalAddress(absl::string_view name, sockaddr_un* address);

}  // namespace thalweg
