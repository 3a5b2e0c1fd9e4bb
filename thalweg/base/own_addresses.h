// SPDX-License-Identifier: Apache-2.0
// The network addresses of this machine.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace thalweg {

// The addresses of its network interfaces: "127.0.0.1", "10.0.0.5", "[::1]".
std::vector<std::string> OwnAddresses();

// Resolves a host name to addresses in the same form. Empty if it does not resolve.
std::vector<std::string> ResolveHost(const std::string& host);

// Whether a host is a loopback name or address: "localhost", "127.0.0.1", "[::1]".
// Examines the text only and does not resolve names.
bool IsLoopback(absl::string_view host);

}  // namespace thalweg
