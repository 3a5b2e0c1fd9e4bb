// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/free_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "thalweg/base/status.h"

namespace thalweg {

absl::StatusOr<std::vector<int>> FreePorts(int n, int first) {
  constexpr int kFirst = 10000, kCount = 20000, kMaxTries = 10000;
  std::random_device random;
  std::vector<int> sockets, ports;  // held until all are known, so that they differ
  absl::Status status;
  for (int tries = 0; static_cast<int>(ports.size()) < n && status.ok(); ++tries) {
    const int port = first > 0 ? first + static_cast<int>(ports.size()) : kFirst + static_cast<int>(random() % kCount);
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int reuse = 1;
    if (first > 0) setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (bind(s, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      ports.push_back(port);
      sockets.push_back(s);
    } else {
      if (first > 0 || tries == kMaxTries) status = Unavailable("Port ", port, " is not available: ", strerror(errno));
      close(s);
    }
  }
  for (const int s : sockets) close(s);
  if (!status.ok()) return status;
  return ports;
}

}  // namespace thalweg
