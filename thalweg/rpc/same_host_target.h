// SPDX-License-Identifier: Apache-2.0
// Finds servers on this machine, which are reached over same-host links.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/transport/link.h"

namespace thalweg {

// A server on this machine, as same-host links address it.
struct SameHostTarget {
  int port = 0;
  std::vector<std::string> hosts;  // addresses on which it may listen; "" for all addresses
};
// nullopt if the address does not belong to this machine.
std::optional<SameHostTarget> FindSameHostTarget(const std::string& address);

// UNAVAILABLE if no server of this user listens there.
absl::StatusOr<std::shared_ptr<Link>> ConnectToSameHost(const SameHostTarget& target, SocketLoop* loop,
                                                        Link::Handlers handlers);

}  // namespace thalweg
