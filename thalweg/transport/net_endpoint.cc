// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/net_endpoint.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/resolve.h"

namespace thalweg {
namespace {

// Strangers can connect: few at a time are read, and each must say its token soon.
constexpr size_t kMaxUnknown = 256;
constexpr absl::Duration kHelloTimeout = absl::Seconds(5);
// Members connect before this process has begun to join. More than these, or older ones, are closed. The member then
// connects again.
constexpr size_t kMaxWaiting = 4096;
constexpr absl::Duration kMaxWait = absl::Minutes(2);
// How long a wait lasts before cancellation and deadline are checked, and how long a member waits before it connects
// again.
constexpr int kJoinPollMillis = 20;
constexpr absl::Duration kConnectAgain = absl::Milliseconds(100);
// How long a member may be out of reach. Its endpoint accepts connections whatever the member does.
constexpr absl::Duration kUnreachableAfter = absl::Seconds(20);
constexpr int kMaxNetRanks = 1024;

constexpr absl::Duration kListenLookup = absl::Seconds(60);  // for a name server, when an endpoint is made

int PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

// Listens on an address. All addresses of an endpoint have the same port; 0 chooses a free one. Not valid after an
// error, which is then in errno.
FileHandle ListenOn(const addrinfo& a, int port) {
  FileHandle listener(socket(a.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return listener;
  const int on = 1;
  if (a.ai_family == AF_INET6) setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  sockaddr_storage where{};
  std::memcpy(&where, a.ai_addr, a.ai_addrlen);
  (a.ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(where).sin6_port
                           : reinterpret_cast<sockaddr_in&>(where).sin_port) = htons(static_cast<uint16_t>(port));
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&where), a.ai_addrlen) != 0) return FileHandle();
  if (listen(listener.get(), SOMAXCONN) != 0) return FileHandle();
  return listener;
}

bool SameBytes(const char* a, const char* b, size_t n) {  // takes the same time wherever they differ
  unsigned char difference = 0;
  for (size_t i = 0; i < n; ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

absl::string_view GroupOf(const NetHello& hello) {
  return absl::string_view(hello.group, strnlen(hello.group, kNetNameBytes));
}

// The other end of a socket has closed it.
bool ClosedByPeer(int socket) {
  char byte = 0;
  const ssize_t n = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

void ConfigureSocket(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // A peer whose machine has vanished is noticed also while nobody calls it.
  const int idle_seconds = 10, every_seconds = 5, probes = 3;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(int));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &every_seconds, sizeof(int));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(int));
  // Nor is one waited for that takes no values: keep-alives are not sent while there are unsent bytes.
  const int user_timeout_millis = 20'000;
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_millis, sizeof(int));
}

// Reads into the rest of a message. True if it is complete; an error if the other end has closed the socket.
template <typename Message>
absl::StatusOr<bool> ReadMessage(int socket, Message& message, size_t& have) {
  const ssize_t n = recv(socket, reinterpret_cast<char*>(&message) + have, sizeof(message) - have, MSG_DONTWAIT);
  if (n == 0) return Unavailable("the connection was closed");
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    return Unavailable(std::strerror(errno));
  }
  have += static_cast<size_t>(n);
  return have == sizeof(message);
}

}  // namespace

std::string NetAddress::ToString() const { return absl::StrCat(host, " ", port, " ", absl::BytesToHexString(token)); }

absl::StatusOr<NetAddress> NetAddress::Parse(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  NetAddress address;
  const bool ok =
      parts.size() == 3 && !parts[0].empty() && absl::SimpleAtoi(parts[1], &address.port) && address.port > 0 &&
      address.port < 65536 && parts[2].size() == 2 * kNetTokenBytes &&
      std::all_of(parts[2].begin(), parts[2].end(), [](unsigned char c) { return absl::ascii_isxdigit(c); });
  if (!ok) return InvalidArgument("\"", absl::CHexEscape(text), "\" is not the address of a member of a group");
  address.host = parts[0];
  address.token = absl::HexStringToBytes(parts[2]);
  return address;
}

absl::StatusOr<std::unique_ptr<NetEndpoint>> NetEndpoint::Listen(const std::vector<std::string>& hosts,
                                                                 const std::string& reach_at) {
  NetAddress address{.host = reach_at, .port = 0, .token = std::string(kNetTokenBytes, 0)};
  if (getrandom(address.token.data(), kNetTokenBytes, 0) != static_cast<ssize_t>(kNetTokenBytes)) {
    return Internal("Cannot draw a token: ", std::strerror(errno));
  }
  std::vector<FileHandle> listeners;
  std::string why = "they have no address";
  for (const std::string& host : hosts) {
    const absl::StatusOr<HostAddresses> list =
        ResolveHost(host, 0, AI_PASSIVE, absl::Now() + kListenLookup, [] { return false; });
    if (!list.ok()) why = std::string(list.status().message());
    for (const addrinfo* a = list.ok() ? list->get() : nullptr; a != nullptr; a = a->ai_next) {
      FileHandle listener = ListenOn(*a, address.port);
      if (!listener.valid()) {
        why = std::strerror(errno);
        continue;
      }
      if (address.port == 0) address.port = PortOf(listener.get());
      listeners.push_back(std::move(listener));
    }
  }
  if (listeners.empty()) return Unavailable("Cannot listen on ", absl::StrJoin(hosts, ", "), ": ", why);
  return std::unique_ptr<NetEndpoint>(new NetEndpoint(std::move(address), std::move(listeners)));
}

NetEndpoint::NetEndpoint(NetAddress address, std::vector<FileHandle> listeners)
    : address_(std::move(address)),
      listeners_(std::move(listeners)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      thread_(std::make_unique<Thread>("net-endpoint", [this] { Accept(); })) {}

NetEndpoint::~NetEndpoint() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) < 0) LOG(ERROR) << "Cannot stop an endpoint";
  thread_.reset();
}

void NetEndpoint::Accept() {
  struct Unknown {
    FileHandle socket;
    absl::Time since;
    NetHello hello;
    size_t have = 0;
  };
  std::deque<Unknown> unknown;
  for (;;) {
    std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
    for (const FileHandle& listener : listeners_) polled.push_back({listener.get(), POLLIN, 0});
    for (const Unknown& u : unknown) polled.push_back({u.socket.get(), POLLIN, 0});
    constexpr int kLookMillis = 1000;  // for those that say nothing
    if (poll(polled.data(), polled.size(), unknown.empty() ? -1 : kLookMillis) < 0) continue;
    if (polled[0].revents != 0) return;
    const absl::Time now = absl::Now();
    for (size_t i = 0; i < unknown.size(); ++i) {
      Unknown& u = unknown[i];
      if (polled[1 + listeners_.size() + i].revents != 0) {
        const absl::StatusOr<bool> complete = ReadMessage(u.socket.get(), u.hello, u.have);
        if (complete.ok() && !*complete) continue;
        const bool known = complete.ok() && u.hello.magic == kNetMagic && u.hello.version == kNetVersion &&
                           SameBytes(u.hello.token, address_.token.data(), kNetTokenBytes) &&
                           u.hello.channel < kNetChannels;
        if (known) {
          MutexLock lock(&mutex_);
          waiting_.push_back({u.hello, std::move(u.socket), now});
          if (waiting_.size() > kMaxWaiting) waiting_.pop_front();
          changed_.SignalAll();
        }
        u.since = absl::InfinitePast();  // it is closed below, if it is a stranger
      }
    }
    std::erase_if(unknown, [&](const Unknown& u) { return now - u.since > kHelloTimeout; });
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (polled[1 + i].revents == 0) continue;
      FileHandle socket(accept4(listeners_[i].get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) {
        // Without descriptors left, accept() would fail at once again and again.
        if (errno == EMFILE || errno == ENFILE) poll(polled.data(), 1, kLookMillis);
        continue;
      }
      if (unknown.size() >= kMaxUnknown) unknown.pop_front();
      unknown.push_back({std::move(socket), now, {}, 0});
    }
  }
}

std::vector<NetEndpoint::Connection> NetEndpoint::Take(const std::string& group) {
  std::vector<Connection> taken;
  MutexLock lock(&mutex_);
  const absl::Time oldest = absl::Now() - kMaxWait;
  for (Connection& connection : waiting_) {
    if (GroupOf(connection.hello) == absl::string_view(group)) taken.push_back(std::move(connection));
  }
  std::erase_if(waiting_, [&](const Connection& c) { return !c.socket.valid() || c.since < oldest; });
  return taken;
}

void NetEndpoint::Wait(int millis) {
  MutexLock lock(&mutex_);
  changed_.WaitWithTimeout(&mutex_, absl::Milliseconds(millis));
}

namespace {

// Connections that this member makes to one of a lower rank, one per channel.
struct NetOutgoing {
  enum class State { kIdle, kConnecting, kGreeted, kReady } state = State::kIdle;
  FileHandle socket = FileHandle();
  absl::Time again;                             // when to connect next
  absl::Time failing = absl::InfiniteFuture();  // since when no connection could be made
  NetWelcome welcome;
  size_t have = 0;
};

class NetJoining {
 public:
  NetJoining(NetEndpoint& endpoint, const NetJoin& join)
      : endpoint_(endpoint), join_(join), ranks_(static_cast<int>(join.addresses.size())) {
    peers_.resize(ranks_);
    outgoing_.resize(join.rank);
  }

  absl::StatusOr<std::vector<NetPeer>> Run() {
    for (int to = 0; to < join_.rank; ++to) {
      absl::StatusOr<HostAddresses> found =
          ResolveHost(join_.addresses[to].host, join_.addresses[to].port, 0, join_.deadline,
                      [this] { return join_.cancellation != nullptr && join_.cancellation->cancelled(); });
      if (absl::IsCancelled(found.status())) return join_.cancellation->status();
      ASSIGN_OR_RETURN(HostAddresses list, std::move(found));
      resolved_.push_back(std::move(list));
    }
    for (;;) {
      RETURN_IF_ERROR(TakeIncoming());
      RETURN_IF_ERROR(AdvanceOutgoing());
      const std::vector<std::string> missing = Missing();
      if (missing.empty()) return std::move(peers_);
      if (join_.cancellation != nullptr && join_.cancellation->cancelled()) return join_.cancellation->status();
      if (absl::Now() > join_.deadline) {
        return DeadlineExceeded("Group ", join_.group, " of ", ranks_, " members: ", absl::StrJoin(missing, ", "),
                                " did not connect in time");
      }
      Wait();
    }
  }

 private:
  FileHandle& Place(int rank, NetChannel channel) {
    return channel == NetChannel::kControl ? peers_[rank].control : peers_[rank].values;
  }
  std::string Name(int rank) const {
    if (rank >= static_cast<int>(join_.names.size())) return absl::StrCat("rank ", rank);
    return absl::StrCat("rank ", rank, " (", join_.names[rank], ")");
  }
  std::vector<std::string> Missing() const {
    std::vector<std::string> missing;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank != join_.rank && !(peers_[rank].control.valid() && peers_[rank].values.valid()))
        missing.push_back(Name(rank));
    }
    return missing;
  }

  absl::Status TakeIncoming() {
    for (NetEndpoint::Connection& connection : endpoint_.Take(join_.group)) {
      const NetHello& hello = connection.hello;
      const int fd = connection.socket.get();
      if (ClosedByPeer(fd)) continue;
      absl::Status fits;
      if (hello.ranks != ranks_) {
        fits = InvalidArgument("rank ", hello.rank, " expects a group of ", hello.ranks, ", but rank ", join_.rank,
                               " one of ", ranks_);
      } else if (hello.rank <= join_.rank || hello.rank >= ranks_) {
        fits = InvalidArgument("rank ", hello.rank, " does not connect to rank ", join_.rank, " of ", ranks_);
      } else {
        const FileHandle& place = Place(hello.rank, static_cast<NetChannel>(hello.channel));
        if (place.valid() && !ClosedByPeer(place.get()))
          fits = InvalidArgument("there are two members of rank ", hello.rank);
      }
      NetWelcome welcome;
      if (fits.ok()) {
        std::memcpy(welcome.token, join_.addresses[hello.rank].token.data(), kNetTokenBytes);
      } else {
        std::strncpy(welcome.refusal, std::string(fits.message()).c_str(), sizeof(welcome.refusal) - 1);
      }
      // The socket is new, so there is room for the few bytes.
      const bool sent = send(fd, &welcome, sizeof(welcome), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(welcome));
      if (!fits.ok()) return Append(fits, absl::StrCat(" (group ", join_.group, ")"));
      if (!sent) continue;
      ConfigureSocket(fd);
      Place(hello.rank, static_cast<NetChannel>(hello.channel)) = std::move(connection.socket);
    }
    return absl::OkStatus();
  }

  absl::Status AdvanceOutgoing() {
    for (int to = 0; to < join_.rank; ++to) {
      for (int channel = 0; channel < kNetChannels; ++channel) {
        NetOutgoing& out = outgoing_[to][channel];
        if (out.state == NetOutgoing::State::kReady) continue;
        if (absl::Now() > out.failing + kUnreachableAfter) {
          return Unavailable("Rank ", join_.rank, " of group ", join_.group, " cannot connect to ", Name(to), " at ",
                             join_.addresses[to].host, " port ", join_.addresses[to].port,
                             ": the task is gone, or this port is not open between the machines");
        }
        absl::Status advanced = Advance(to, static_cast<NetChannel>(channel), out);
        if (absl::IsInvalidArgument(advanced)) return advanced;
        if (!advanced.ok()) {
          // The member may have given up the group before all had come, and will join again.
          VLOG(1) << "Rank " << join_.rank << " connects again to rank " << to << ": " << advanced;
          const absl::Time now = absl::Now();
          out = {.again = now + kConnectAgain, .failing = std::min(out.failing, now)};
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Advance(int to, NetChannel channel, NetOutgoing& out) {
    if (out.state == NetOutgoing::State::kIdle) {
      if (absl::Now() < out.again) return absl::OkStatus();
      RETURN_IF_ERROR(Connect(to, out));
    }
    pollfd p{out.socket.get(), static_cast<int16_t>(out.state == NetOutgoing::State::kConnecting ? POLLOUT : POLLIN),
             0};
    if (poll(&p, 1, 0) <= 0) return absl::OkStatus();
    if (out.state == NetOutgoing::State::kConnecting) {
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(out.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return Unavailable(std::strerror(error));
      NetHello hello{.rank = join_.rank, .ranks = ranks_, .channel = static_cast<uint32_t>(channel)};
      std::memcpy(hello.token, join_.addresses[to].token.data(), kNetTokenBytes);
      std::memcpy(hello.group, join_.group.data(), join_.group.size());
      if (send(out.socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(hello))) {
        return Unavailable(std::strerror(errno));
      }
      out.failing = absl::InfiniteFuture();
      out.state = NetOutgoing::State::kGreeted;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const bool complete, ReadMessage(out.socket.get(), out.welcome, out.have));
    if (!complete) return absl::OkStatus();
    NetWelcome& welcome = out.welcome;
    welcome.refusal[sizeof(welcome.refusal) - 1] = 0;
    if (welcome.magic != kNetMagic || welcome.version != kNetVersion) {
      return InvalidArgument("There is no member of group ", join_.group, " at ", join_.addresses[to].host, ":",
                             join_.addresses[to].port);
    }
    if (welcome.refusal[0] != 0) return InvalidArgument("Cannot join group ", join_.group, ": ", welcome.refusal);
    if (!SameBytes(welcome.token, join_.addresses[join_.rank].token.data(), kNetTokenBytes)) {
      return InvalidArgument("The process at ", join_.addresses[to].host, ":", join_.addresses[to].port, " is not ",
                             Name(to), " of group ", join_.group);
    }
    ConfigureSocket(out.socket.get());
    Place(to, channel) = std::move(out.socket);
    out.state = NetOutgoing::State::kReady;
    return absl::OkStatus();
  }

  absl::Status Connect(int to, NetOutgoing& out) {
    std::string why;
    for (const addrinfo* a = resolved_[to].get(); a != nullptr; a = a->ai_next) {
      out.socket = FileHandle(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!out.socket.valid()) return ResourceExhausted("Cannot make a socket: ", std::strerror(errno));
      if (connect(out.socket.get(), a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS) {
        out.state = NetOutgoing::State::kConnecting;
        out.failing = std::min(out.failing, absl::Now());  // until it succeeds
        return absl::OkStatus();
      }
      why = std::strerror(errno);
    }
    return Unavailable("Cannot connect: ", why);
  }

  void Wait() {
    std::vector<pollfd> polled;
    for (auto& channels : outgoing_) {
      for (NetOutgoing& out : channels) {
        if (out.state == NetOutgoing::State::kConnecting) polled.push_back({out.socket.get(), POLLOUT, 0});
        if (out.state == NetOutgoing::State::kGreeted) polled.push_back({out.socket.get(), POLLIN, 0});
      }
    }
    // While connections in both directions are missing, those that this member makes come first.
    if (polled.empty()) {
      endpoint_.Wait(kJoinPollMillis);
    } else {
      poll(polled.data(), polled.size(), kJoinPollMillis);
    }
  }

  NetEndpoint& endpoint_;
  const NetJoin& join_;
  const int ranks_;
  std::vector<HostAddresses> resolved_;                          // by rank
  std::vector<std::array<NetOutgoing, kNetChannels>> outgoing_;  // by rank
  std::vector<NetPeer> peers_;
};

}  // namespace

absl::StatusOr<std::vector<NetPeer>> JoinNetMembers(NetEndpoint& endpoint, const NetJoin& join) {
  const int ranks = static_cast<int>(join.addresses.size());
  if (ranks < 1 || ranks > kMaxNetRanks || join.rank < 0 || join.rank >= ranks) {
    return InvalidArgument("A group has 1 to ", kMaxNetRanks, " members, got rank ", join.rank, " of ", ranks);
  }
  if (join.group.empty() || join.group.size() > kNetNameBytes) {
    return InvalidArgument("The name of a group has 1 to ", kNetNameBytes, " characters, got '", join.group, "'");
  }
  for (const NetAddress& address : join.addresses) {
    if (address.token.size() != kNetTokenBytes)
      return InvalidArgument("A member of group ", join.group, " has no token");
  }
  return NetJoining(endpoint, join).Run();
}

}  // namespace thalweg
