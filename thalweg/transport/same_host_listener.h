// SPDX-License-Identifier: Apache-2.0
// How processes of one user on one machine find each other: servers listen on local sockets that are named after the
// port at which other machines reach them.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/transport/link.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

// The address of a server: a name that goes with the process. `host` is the address of
// this machine at which its port is; empty if the port is at all of them.
// UNAVAILABLE if no process of this user listens there.
absl::StatusOr<FileHandle> ConnectLocally(int port, absl::string_view host = "");
absl::StatusOr<FileHandle> ListenLocally(int port, absl::string_view host = "");
// Accepts links on what ListenLocally() returned.
std::unique_ptr<LinkListener> MakeSameHostListener(FileHandle socket);
// nullopt if no connection waits, or one of another user. RESOURCE_EXHAUSTED if the process has no
// file descriptor left for the connection.
absl::StatusOr<std::optional<FileHandle>> AcceptLocally(int listener);

}  // namespace thalweg
