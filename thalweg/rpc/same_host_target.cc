// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/same_host_target.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "thalweg/base/own_addresses.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/transport/same_host_link.h"
#include "thalweg/transport/same_host_listener.h"

namespace thalweg {

std::optional<SameHostTarget> FindSameHostTarget(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = HostPort::Parse(address);
  if (!parsed.ok()) return std::nullopt;
  const std::string& host = parsed->host;
  if (host == "localhost") return SameHostTarget{parsed->port, {"127.0.0.1", "[::1]", ""}};
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  SameHostTarget target{parsed->port, OwnAddresses()};
  std::erase_if(target.hosts, [&](const std::string& own) { return own != host && host != name; });
  // Every machine has all addresses that begin so.
  if (target.hosts.empty() && absl::StartsWith(host, "127.")) target.hosts.push_back(host);
  if (target.hosts.empty() && host != name) return std::nullopt;
  target.hosts.emplace_back();
  return target;
}

absl::StatusOr<std::shared_ptr<Link>> ConnectToSameHost(const SameHostTarget& target, SocketLoop* loop,
                                                        Link::Handlers handlers) {
  absl::StatusOr<FileHandle> socket = Unavailable("no address");
  for (size_t i = 0; i < target.hosts.size() && !socket.ok(); ++i) {
    socket = ConnectLocally(target.port, target.hosts[i]);
  }
  RETURN_IF_ERROR(socket.status());
  ASSIGN_OR_RETURN(std::shared_ptr<Link> link, SameHostLink::Create(loop, *std::move(socket), std::move(handlers)));
  RETURN_IF_ERROR(link->Start(Link::Side::kConnected));
  return link;
}

}  // namespace thalweg
