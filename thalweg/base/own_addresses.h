// The network addresses of this machine.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace thalweg {

// Those of its interfaces, as text: "127.0.0.1", "10.0.0.5", "[::1]".
std::vector<std::string> OwnAddresses();

// What a host name stands for, in the same form; empty if it stands for nothing.
std::vector<std::string> ResolveHost(const std::string& host);

// Whether a host is this machine by whatever network it is asked over: "localhost",
// "127.0.0.1", "[::1]". Looks at the text only.
bool IsLoopback(absl::string_view host);

}  // namespace thalweg
