// SPDX-License-Identifier: Apache-2.0
// Looks up the addresses of hosts without waiting for a name server longer than the caller wants.
#pragma once

#include <netdb.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace thalweg {

struct FreeHostAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using HostAddresses = std::unique_ptr<addrinfo, FreeHostAddresses>;

// getaddrinfo(), which a test may replace.
using HostLookup = std::function<int(const char* host, const char* port, const addrinfo* hints, addrinfo** list)>;

// Stream addresses of a host, of which "" is any of this machine. The system's lookup cannot be cancelled: it goes on
// on a thread of its own when the deadline has passed (DEADLINE_EXCEEDED) or `cancelled` is true (CANCELLED).
// RESOURCE_EXHAUSTED if too many such lookups are under way.
absl::StatusOr<HostAddresses> ResolveHost(const std::string& host, int port, int flags, absl::Time deadline,
                                          const std::function<bool()>& cancelled,
                                          const HostLookup& lookup = getaddrinfo);

}  // namespace thalweg
