// SPDX-License-Identifier: Apache-2.0
// Plain sockets, for tests that speak a protocol themselves or stand between its ends.
#pragma once

#include <cstddef>

#include "thalweg/transport/shared_memory.h"

namespace thalweg {

// Connects to a port of loopback.
FileHandle ConnectToPort(int port);

// Read or write exactly so many bytes. False if the connection ends before.
bool ReadFully(int socket, void* into, size_t bytes);
bool WriteFully(int socket, const void* from, size_t bytes);

}  // namespace thalweg
