// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/same_host_listener.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/local_socket.h"
#include "thalweg/transport/same_host_link.h"

namespace thalweg {
namespace {

socklen_t NameOf(int port, absl::string_view host, sockaddr_un* address) {
  return LocalAddress(absl::StrCat("thalweg-rpc-", host.substr(0, 64), host.empty() ? "" : ":", port), address);
}

}  // namespace

absl::StatusOr<FileHandle> ConnectLocally(int port, absl::string_view host) {
  sockaddr_un address;
  const socklen_t size = NameOf(port, host, &address);
  FileHandle socket = NewLocalSocket();
  if (!socket.valid() || connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      !OfThisUser(socket.get())) {
    return Unavailable("Nobody on this machine serves port ", port, " for this user");
  }
  return socket;
}

absl::StatusOr<FileHandle> ListenLocally(int port, absl::string_view host) {
  sockaddr_un address;
  const socklen_t size = NameOf(port, host, &address);
  FileHandle socket = NewLocalSocket();
  if (!socket.valid() || bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return Unavailable("Cannot listen for processes of this machine: ", std::strerror(errno));
  }
  return socket;
}

absl::StatusOr<std::optional<FileHandle>> AcceptLocally(int listener) {
  FileHandle socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
    return ResourceExhausted("Cannot accept a process of this machine: ", std::strerror(errno));
  }
  if (!socket.valid() || !OfThisUser(socket.get())) return std::nullopt;
  return socket;
}

namespace {

class SameHostListener : public LinkListener {
 public:
  explicit SameHostListener(FileHandle socket) : socket_(std::move(socket)) {}
  int fd() const override { return socket_.get(); }
  absl::StatusOr<std::shared_ptr<Link>> Accept(SocketLoop* loop, Link::Handlers handlers) override {
    ASSIGN_OR_RETURN(std::optional<FileHandle> client, AcceptLocally(socket_.get()));
    if (!client.has_value()) return nullptr;
    return SameHostLink::Create(loop, *std::move(client), std::move(handlers));
  }

 private:
  const FileHandle socket_;
};

}  // namespace

std::unique_ptr<LinkListener> MakeSameHostListener(FileHandle socket) {
  return std::make_unique<SameHostListener>(std::move(socket));
}

}  // namespace thalweg
