// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/host_join.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/local_socket.h"

namespace thalweg {
namespace {

constexpr uint32_t kHelloMagic = 0x7477676d, kHelloVersion = 3;
constexpr size_t kMaxName = 64;
// How long a wait lasts before cancellation and deadline are looked at again, and how long
// one that finds nobody to connect to waits before it tries again.
constexpr int kPollMillis = 50, kRetryMillis = 5;

struct Hello {
  uint32_t magic = kHelloMagic;
  uint32_t version = kHelloVersion;
  int32_t rank = 0;
  int32_t ranks = 0;
  char refusal[256] = {};  // the first member's reason to refuse this one; "" if it takes it
};

socklen_t AddressOf(const std::string& name, sockaddr_un* address) {
  return LocalAddress(absl::StrCat("thalweg-group-", name), address);
}

absl::Status Send(int socket, const Hello& hello, const std::vector<int>& files) {
  iovec data{const_cast<Hello*>(&hello), sizeof(hello)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(sizeof(int) * files.size()));
  if (!files.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * files.size());
    std::memcpy(CMSG_DATA(header), files.data(), sizeof(int) * files.size());
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(hello))) return absl::OkStatus();
  return Unavailable("Cannot send to a member of the group: ", std::strerror(errno));
}

// One packet that is there. Descriptors that come with it are ours.
absl::StatusOr<Hello> Receive(int socket, std::vector<FileHandle>* files) {
  Hello hello;
  iovec data{&hello, sizeof(hello)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(sizeof(int) * (HostControlBlock::kMaxRanks + 1)));
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  for (cmsghdr* header = bytes < 0 ? nullptr : CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      files->emplace_back(fd);
    }
  }
  if (bytes != sizeof(hello) || hello.magic != kHelloMagic || hello.version != kHelloVersion ||
      (message.msg_flags & MSG_CTRUNC)) {
    return InvalidArgument("This is no message of a member of a group");
  }
  hello.refusal[sizeof(hello.refusal) - 1] = 0;
  return hello;
}

absl::Status CheckTime(absl::Time deadline, const Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->cancelled()) return cancellation->status();
  if (absl::Now() > deadline) return absl::DeadlineExceededError("");
  return absl::OkStatus();
}

bool Readable(int fd, int millis) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, millis) > 0;
}

// Members say nothing after their hello: a socket with news has been closed.
bool HungUp(int fd) { return Readable(fd, 0); }

absl::Status Fits(const Hello& hello, int ranks, const std::vector<FileHandle>& sockets) {
  if (hello.ranks != ranks) {
    return InvalidArgument("rank ", hello.rank, " expects a group of ", hello.ranks, ", but rank 0 one of ", ranks);
  }
  if (hello.rank < 1 || hello.rank >= ranks) return InvalidArgument("there is no rank ", hello.rank, " of ", ranks);
  if (sockets[hello.rank].valid() && !HungUp(sockets[hello.rank].get()))
    return InvalidArgument("there are two members of rank ", hello.rank);
  return absl::OkStatus();
}

// The first member's part: collects all others, then tells each of all.
absl::StatusOr<HostMembers> Lead(const std::string& name, int ranks, std::shared_ptr<SharedMemory> arena,
                                 absl::Time deadline, const Cancellation* cancellation) {
  HostMembers members;
  ASSIGN_OR_RETURN(members.control, HostControlBlock::Create(ranks));
  members.arenas.resize(ranks);
  members.arenas[0] = std::move(arena);
  std::vector<FileHandle> sockets(ranks);
  sockaddr_un address;
  const socklen_t size = AddressOf(name, &address);
  const FileHandle listener = NewLocalSocket();
  if (!listener.valid() || bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return Unavailable("Cannot lead group ", name, " of this host: ", std::strerror(errno));
  }
  std::vector<FileHandle> unknown;  // connected, but have not said who they are
  const auto missing = [&] {
    return std::count_if(sockets.begin() + 1, sockets.end(), [](const FileHandle& socket) { return !socket.valid(); });
  };
  while (missing() > 0) {
    if (const absl::Status over = CheckTime(deadline, cancellation); !over.ok()) {
      if (!absl::IsDeadlineExceeded(over)) return over;
      std::vector<int> absent;
      for (int r = 1; r < ranks; ++r) {
        if (!sockets[r].valid()) absent.push_back(r);
      }
      return DeadlineExceeded("Of group ", name, " of ", ranks, " processes on this host, rank ",
                              absl::StrJoin(absent, ", "), " did not come in time");
    }
    std::vector<pollfd> polled = {{listener.get(), POLLIN, 0}};
    for (const FileHandle& socket : unknown) polled.push_back({socket.get(), POLLIN, 0});
    const int ready = poll(polled.data(), polled.size(), kPollMillis);
    // One that has gone may come again.
    for (FileHandle& socket : sockets) {
      if (socket.valid() && HungUp(socket.get())) socket = FileHandle();
    }
    if (ready <= 0) continue;
    for (size_t i = polled.size(); i-- > 1;) {
      if (polled[i].revents == 0) continue;
      FileHandle socket = std::move(unknown[i - 1]);
      unknown.erase(unknown.begin() + static_cast<ptrdiff_t>(i) - 1);
      std::vector<FileHandle> files;
      const absl::StatusOr<Hello> hello = Receive(socket.get(), &files);
      if (!hello.ok() || files.size() != 1) continue;  // a stranger
      const absl::Status fits = Fits(*hello, ranks, sockets);
      if (!fits.ok()) {
        Hello refusal{.ranks = ranks};
        std::strncpy(refusal.refusal, std::string(fits.message()).c_str(), sizeof(refusal.refusal) - 1);
        Send(socket.get(), refusal, {}).IgnoreError();
        return Append(fits, absl::StrCat(" (group ", name, ")"));
      }
      ASSIGN_OR_RETURN(members.arenas[hello->rank], SharedMemory::Map(std::move(files[0])));
      sockets[hello->rank] = std::move(socket);
    }
    if (polled[0].revents == 0) continue;
    FileHandle socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid() && OfThisUser(socket.get())) unknown.push_back(std::move(socket));
  }
  std::vector<int> files = {members.control->fd()};
  for (const auto& memory : members.arenas) files.push_back(memory->fd());
  for (int r = 1; r < ranks; ++r) {
    RETURN_IF_ERROR(Send(sockets[r].get(), Hello{.rank = r, .ranks = ranks}, files));
    members.sockets.push_back(std::move(sockets[r]));
    members.socket_ranks.push_back(r);
  }
  return members;
}

absl::StatusOr<HostMembers> Follow(const std::string& name, int rank, int ranks, const SharedMemory& arena,
                                   absl::Time deadline, const Cancellation* cancellation) {
  sockaddr_un address;
  const socklen_t size = AddressOf(name, &address);
  const auto wait_over = [&](absl::string_view what) -> absl::Status {
    const absl::Status over = CheckTime(deadline, cancellation);
    if (!absl::IsDeadlineExceeded(over)) return over;
    return DeadlineExceeded("Group ", name, " of ", ranks, " processes on this host: ", what);
  };
  FileHandle socket;
  std::vector<FileHandle> files;
  absl::StatusOr<Hello> hello;
  // Rank 0 may not have come yet, or it has given up before all members had come and will try again.
  for (;;) {
    socket = NewLocalSocket();
    if (!socket.valid()) return ResourceExhausted("Cannot join group ", name, ": ", std::strerror(errno));
    const bool connected = connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0;
    if (connected && !OfThisUser(socket.get())) {
      return PermissionDenied("Rank 0 of group ", name, " belongs to another user");
    }
    if (connected && Send(socket.get(), Hello{.rank = rank, .ranks = ranks}, {arena.fd()}).ok()) {
      while (!Readable(socket.get(), kPollMillis)) RETURN_IF_ERROR(wait_over("some ranks did not come in time"));
      files.clear();
      hello = Receive(socket.get(), &files);
      if (hello.ok()) break;
    }
    RETURN_IF_ERROR(wait_over("rank 0 did not come in time"));
    poll(nullptr, 0, kRetryMillis);
  }
  if (hello->refusal[0] != 0) return InvalidArgument("Cannot join group ", name, ": ", hello->refusal);
  if (files.size() != static_cast<size_t>(ranks) + 1) {
    return InvalidArgument("Rank 0 of group ", name, " has sent ", files.size(), " files, expected ", ranks + 1);
  }
  HostMembers members;
  ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> control, SharedMemory::Map(std::move(files[0])));
  ASSIGN_OR_RETURN(members.control, HostControlBlock::Of(std::move(control), ranks));
  for (int r = 0; r < ranks; ++r) {
    ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory, SharedMemory::Map(std::move(files[r + 1])));
    members.arenas.push_back(std::move(memory));
  }
  members.sockets.push_back(std::move(socket));
  members.socket_ranks.push_back(0);
  return members;
}

}  // namespace

std::string HostIdentity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char space[64] = {};
  const ssize_t length = readlink("/proc/self/ns/net", space, sizeof(space) - 1);
  if (boot.empty() || length <= 0) return "";
  return absl::StrCat("thalweg host ", kHelloVersion, " ", boot, " ", space, " user ", geteuid());
}

absl::StatusOr<HostMembers> JoinHostMembers(const std::string& name, int rank, int ranks,
                                            std::shared_ptr<SharedMemory> arena, absl::Time deadline,
                                            const Cancellation* cancellation) {
  if (ranks < 1 || ranks > HostControlBlock::kMaxRanks || rank < 0 || rank >= ranks) {
    return InvalidArgument("A group has 1 to ", HostControlBlock::kMaxRanks, " members, got rank ", rank, " of ",
                           ranks);
  }
  if (name.empty() || name.size() > kMaxName) {
    return InvalidArgument("The name of a group has 1 to ", kMaxName, " characters, got '", name, "'");
  }
  return rank == 0 ? Lead(name, ranks, std::move(arena), deadline, cancellation)
                   : Follow(name, rank, ranks, *arena, deadline, cancellation);
}

}  // namespace thalweg
