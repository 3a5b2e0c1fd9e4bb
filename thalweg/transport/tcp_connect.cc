// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/tcp_connect.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/resolve.h"

namespace thalweg {
namespace {

// A connection without acknowledgements is closed after this time, as gRPC's channels are.
constexpr int kUserTimeoutMs = 10'000;
// Strangers can connect. When more links have not greeted, the oldest is closed.
constexpr size_t kMaxUnknownLinks = 256;

constexpr absl::Duration kListenLookupTime = absl::Seconds(60);  // for a name server, before a server listens

std::string WithoutBrackets(const std::string& host) {
  return std::string(absl::StripSuffix(absl::StripPrefix(host, "["), "]"));
}

void SetOption(int socket, int level, int option, int value) {
  if (setsockopt(socket, level, option, &value, sizeof(value)) != 0) {
    VLOG(1) << "Cannot set an option of a TCP link: " << std::strerror(errno);
  }
}

void Configure(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

class TcpListener : public LinkListener {
 public:
  TcpListener(FileHandle socket, TcpLinkOptions options) : socket_(std::move(socket)), options_(std::move(options)) {}
  int fd() const override { return socket_.get(); }
  absl::StatusOr<std::shared_ptr<Link>> Accept(SocketLoop* loop, Link::Handlers handlers) override {
    FileHandle client(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      return ResourceExhausted("Cannot accept a TCP link: ", std::strerror(errno));
    }
    if (!client.valid()) return nullptr;
    Configure(client.get());
    std::shared_ptr<TcpLink> link = TcpLink::Create(loop, std::move(client), std::move(handlers), options_);
    if (const std::shared_ptr<TcpLink> oldest = AddUnknown(link); oldest != nullptr) oldest->Break();
    return link;
  }

 private:
  // Returns a link that has not greeted, if there are too many of them.
  std::shared_ptr<TcpLink> AddUnknown(const std::shared_ptr<TcpLink>& link) {
    MutexLock lock(&mutex_);
    unknown_.push_back(link);
    std::shared_ptr<TcpLink> oldest;
    while (!unknown_.empty()) {
      oldest = unknown_.front().lock();
      if (oldest != nullptr && !oldest->greeted() && !oldest->closed()) break;
      unknown_.pop_front();
      oldest = nullptr;
    }
    if (unknown_.size() <= kMaxUnknownLinks) return nullptr;
    // Those behind the oldest may have greeted meanwhile.
    std::erase_if(unknown_, [](const std::weak_ptr<TcpLink>& other) {
      const std::shared_ptr<TcpLink> known = other.lock();
      return known == nullptr || known->greeted() || known->closed();
    });
    if (unknown_.size() <= kMaxUnknownLinks) return nullptr;
    unknown_.pop_front();
    return oldest;
  }

  const FileHandle socket_;
  const TcpLinkOptions options_;
  Mutex mutex_;
  std::deque<std::weak_ptr<TcpLink>> unknown_ ABSL_GUARDED_BY(mutex_);  // that have not greeted; oldest first
};

// Waits in short turns until the socket is ready.
class Dialer {
 public:
  Dialer(absl::Time deadline, const std::atomic<bool>& cancelled) : deadline_(deadline), cancelled_(cancelled) {}

  absl::StatusOr<FileHandle> Dial(const addrinfo& address, const std::string& token) const {
    FileHandle client(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!client.valid()) return ResourceExhausted("Cannot open a socket: ", std::strerror(errno));
    Configure(client.get());
    if (connect(client.get(), address.ai_addr, address.ai_addrlen) != 0) {
      if (errno != EINPROGRESS) return Unavailable("Cannot connect: ", std::strerror(errno));
      RETURN_IF_ERROR(Wait(client.get(), POLLOUT));
      int error = 0;
      socklen_t size = sizeof(error);
      if (getsockopt(client.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
      if (error != 0) return Unavailable("Cannot connect: ", std::strerror(error));
    }
    RETURN_IF_ERROR(Greet(client.get(), token));
    return client;
  }

 private:
  absl::Status Wait(int socket, short events) const {
    for (;;) {
      if (cancelled_) return Cancelled("The client is closing");
      const absl::Duration left = std::min(deadline_ - absl::Now(), absl::Milliseconds(50));
      if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("The server does not answer");
      pollfd wait{.fd = socket, .events = events, .revents = 0};
      if (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) > 0) return absl::OkStatus();
    }
  }

  absl::Status Greet(int socket, const std::string& token) const {
    TcpHeader hello;
    hello.kind = LinkMessage::kHello;
    hello.text_bytes = static_cast<uint32_t>(token.size());
    const std::string bytes = std::string(reinterpret_cast<const char*>(&hello), sizeof(hello)) + token;
    // The socket is empty, so it takes this.
    if (send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
      return Unavailable("Cannot greet: ", std::strerror(errno));
    }
    TcpHeader answer;
    for (size_t got = 0; got < sizeof(answer);) {
      RETURN_IF_ERROR(Wait(socket, POLLIN));
      const ssize_t n = recv(socket, reinterpret_cast<char*>(&answer) + got, sizeof(answer) - got, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) return Unavailable("The server has refused the link");
      got += static_cast<size_t>(n);
    }
    if (answer.magic != TcpHeader::kMagic || answer.kind != LinkMessage::kHello || answer.text_bytes != 0 ||
        answer.body_bytes != 0) {
      return FailedPrecondition("The port serves something else, or another version");
    }
    return absl::OkStatus();
  }

  const absl::Time deadline_;
  const std::atomic<bool>& cancelled_;
};

}  // namespace

absl::StatusOr<FileHandle> ListenTcp(const std::string& host, int port) {
  // One socket for all addresses of both families, if the system has them.
  const bool all = host == "0.0.0.0" || host == "[::]";
  absl::Status status = Unavailable("no address");
  for (const std::string& name : all ? std::vector<std::string>{"[::]", "0.0.0.0"} : std::vector<std::string>{host}) {
    ASSIGN_OR_RETURN(const HostAddresses addresses, ResolveHost(WithoutBrackets(name), port, AI_PASSIVE,
                                                                absl::Now() + kListenLookupTime, [] { return false; }));
    FileHandle listener(socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (listener.valid() && addresses->ai_family == AF_INET6) {
      SetOption(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, all ? 0 : 1);
    }
    if (listener.valid() && bind(listener.get(), addresses->ai_addr, addresses->ai_addrlen) == 0 &&
        listen(listener.get(), SOMAXCONN) == 0) {
      return listener;
    }
    status = Unavailable("Cannot listen on ", name, ":", port, ": ", std::strerror(errno));
  }
  return status;
}

absl::StatusOr<int> TcpPort(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Unavailable("Cannot find the port of a socket: ", std::strerror(errno));
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::unique_ptr<LinkListener> MakeTcpListener(FileHandle socket, TcpLinkOptions options) {
  return std::make_unique<TcpListener>(std::move(socket), std::move(options));
}

absl::StatusOr<FileHandle> DialTcp(const std::string& host, int port, const std::string& token, absl::Time deadline,
                                   const std::atomic<bool>& cancelled) {
  if (port <= 0 || port > 65535 || token.size() != TcpHeader::kTokenBytes) {
    return InvalidArgument("A server has offered port ", port, " and a token of ", token.size(), " bytes");
  }
  ASSIGN_OR_RETURN(const HostAddresses addresses,
                   ResolveHost(WithoutBrackets(host), port, 0, deadline, [&] { return cancelled.load(); }));
  const Dialer dialer(deadline, cancelled);
  absl::StatusOr<FileHandle> client = Unavailable("no address");
  for (const addrinfo* i = addresses.get(); i != nullptr && !client.ok(); i = i->ai_next) {
    client = dialer.Dial(*i, token);
  }
  return client;
}

bool IsConnected(int socket) {
  char c = 0;
  const ssize_t n = recv(socket, &c, 1, MSG_PEEK | MSG_DONTWAIT);
  return n > 0 || (n < 0 && errno == EAGAIN);
}

absl::StatusOr<std::string> NewTcpToken() {
  std::string token(TcpHeader::kTokenBytes, '\0');
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    return Internal("The system has no random numbers: ", std::strerror(errno));
  }
  return token;
}

}  // namespace thalweg
