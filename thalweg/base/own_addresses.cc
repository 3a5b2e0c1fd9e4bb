// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/own_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace thalweg {
namespace {

// "" if it is not an internet address.
std::string ToText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address != nullptr && address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
    return text;
  }
  if (address != nullptr && address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof(text));
    return absl::StrCat("[", text, "]");
  }
  return "";
}

}  // namespace

std::vector<std::string> OwnAddresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::vector<std::string> addresses;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (std::string text = ToText(i->ifa_addr); !text.empty()) addresses.push_back(std::move(text));
  }
  freeifaddrs(list);
  return addresses;
}

std::vector<std::string> ResolveHost(const std::string& host) {
  const std::string name(absl::StripSuffix(absl::StripPrefix(host, "["), "]"));
  const addrinfo hints{.ai_flags = 0, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* i = found; i != nullptr; i = i->ai_next) {
    if (std::string text = ToText(i->ai_addr); !text.empty()) addresses.push_back(std::move(text));
  }
  return addresses;
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || host == "[::1]" || absl::StartsWith(host, "127.");
}

}  // namespace thalweg
