// SPDX-License-Identifier: Apache-2.0
// Listens for TCP links, and connects to those who listen.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/transport/link.h"
#include "thalweg/transport/shared_memory.h"
#include "thalweg/transport/tcp_link.h"

namespace thalweg {

// Listens on an address ("127.0.0.1", "[::]") and a port; 0 is any free port.
absl::StatusOr<FileHandle> ListenTcp(const std::string& host, int port);
absl::StatusOr<int> TcpPort(int socket);
// Accepts links on what ListenTcp() returned.
std::unique_ptr<LinkListener> MakeTcpListener(FileHandle socket, TcpLinkOptions options);

// Connects to a server, presents the token and waits for the answer. Blocks until `deadline` at most; returns
// soon when `cancelled` becomes true.
absl::StatusOr<FileHandle> DialTcp(const std::string& host, int port, const std::string& token, absl::Time deadline,
                                   const std::atomic<bool>& cancelled);

// True if a connection can still be used, as far as is known.
bool IsConnected(int socket);

// A token that nobody can guess.
absl::StatusOr<std::string> NewTcpToken();

}  // namespace thalweg
