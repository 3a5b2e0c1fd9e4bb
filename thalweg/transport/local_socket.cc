// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/local_socket.h"

#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "thalweg/base/logging.h"

namespace thalweg {

FileHandle NewLocalSocket() { return FileHandle(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

bool OfThisUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

socklen_t LocalAddress(absl::string_view name, sockaddr_un* address) {
  CHECK(name.size() < sizeof(address->sun_path)) << name;
  address->sun_family = AF_UNIX;
  std::memset(address->sun_path, 0, sizeof(address->sun_path));
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace thalweg
