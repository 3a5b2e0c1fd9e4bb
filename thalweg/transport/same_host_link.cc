// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/same_host_link.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/local_socket.h"

namespace thalweg {

namespace {

constexpr uint32_t kMagic = 0x6b6e6c54;  // "Tlnk"
// Up to here a body goes in the packet.
constexpr size_t kInlineBytes = 4 << 10;
constexpr size_t kMaxText = 32 << 10;
// Memory for what is under way; a body that has no room there gets a memory of
// its own. Only what is used of it takes memory.
constexpr size_t kArenaBytes = 64 << 20;

// What may wait for a side that does not read: messages, and bytes of those that
// have a memory, and so a descriptor, of their own.
constexpr size_t kMaxUnsent = 64 << 10;
constexpr uint64_t kMaxUnsentBytes = uint64_t{4} << 30;
constexpr int kMaxUnsentFiles = 512;

enum Place : uint32_t { kInline, kBlock, kFile };

}  // namespace

struct SameHostLink::Header {
  uint32_t magic = kMagic;
  uint32_t kind = 0;
  uint64_t call = 0;
  uint32_t code = 0;
  uint32_t text_bytes = 0;
  uint32_t place = kInline;  // of the body
  uint32_t reserved = 0;
  uint64_t offset = 0;  // in the sender's memory
  uint64_t body_bytes = 0;
};

absl::StatusOr<std::shared_ptr<SameHostLink>> SameHostLink::Create(SocketLoop* loop, FileHandle socket,
                                                                   Handlers handlers) {
  ASSIGN_OR_RETURN(auto memory, SharedMemory::Create(kArenaBytes));
  return std::shared_ptr<SameHostLink>(
      new SameHostLink(loop, std::move(socket), std::move(handlers), std::move(memory)));
}

absl::Status SameHostLink::Start(Side side) {
  if (side == Side::kConnected) RETURN_IF_ERROR(Greet());
  MutexLock lock(&mutex_);  // that the other side has gone may come at once
  ASSIGN_OR_RETURN(id_, loop_->Add(socket_.get(), shared_from_this()));
  loop_->Wait(id_, socket_.get(), /*write=*/false);
  return absl::OkStatus();
}

// The socket is empty yet: it takes this.
absl::Status SameHostLink::Greet() {
  Header header;
  header.kind = LinkMessage::kHello;
  const Packet hello{.bytes = std::string(reinterpret_cast<const char*>(&header), sizeof(header)), .file = {}};
  has_greeted_ = true;
  return Write(hello, outgoing_.fd()).status();
}

SameHostLink::SameHostLink(SocketLoop* loop, FileHandle socket, Handlers handlers, std::shared_ptr<SharedMemory> memory)
    : loop_(loop),
      socket_(std::move(socket)),
      outgoing_(std::move(memory)),
      handlers_(std::make_shared<const Handlers>(std::move(handlers))) {}

// Where the body goes; what belongs into the packet is appended to it.
absl::Status SameHostLink::Place(absl::Span<const absl::string_view> pieces, Header* header, Packet* packet) {
  for (const absl::string_view piece : pieces) header->body_bytes += piece.size();
  if (header->body_bytes <= kInlineBytes) {
    for (const absl::string_view piece : pieces) packet->bytes.append(piece.data(), piece.size());
    return absl::OkStatus();
  }
  char* to = nullptr;
  std::shared_ptr<SharedMemory> own;
  if (const std::optional<uint64_t> offset = outgoing_.Allocate(header->body_bytes); offset.has_value()) {
    header->place = kBlock;
    header->offset = *offset;
    to = outgoing_.at(*offset);
  } else {
    ASSIGN_OR_RETURN(own, SharedMemory::Create(header->body_bytes));
    packet->file = FileHandle(dup(own->fd()));
    if (!packet->file.valid()) return ResourceExhausted("No more file descriptors");
    packet->body_bytes = header->body_bytes;
    header->place = kFile;
    to = own->data();
  }
  for (const absl::string_view piece : pieces) to = std::copy(piece.begin(), piece.end(), to);
  if (header->place == kBlock) outgoing_.Publish(header->offset);
  return absl::OkStatus();
}

absl::Status SameHostLink::Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces,
                                std::shared_ptr<const void> /*holder*/) {
  Header header;
  header.kind = message.kind;
  header.call = message.call;
  header.code = message.code;
  const absl::string_view text = absl::string_view(message.text).substr(0, kMaxText);
  header.text_bytes = static_cast<uint32_t>(text.size());
  Packet packet;
  packet.bytes.resize(sizeof(header));
  packet.bytes.append(text.data(), text.size());
  RETURN_IF_ERROR(Place(pieces, &header, &packet));
  std::memcpy(packet.bytes.data(), &header, sizeof(header));

  MutexLock lock(&mutex_);
  absl::StatusOr<bool> sent = Unavailable("The link is closed");
  if (!closed_) sent = unsent_.empty() ? Write(packet, packet.file.get()) : false;
  if (!sent.ok() && !closed_) Break();
  if (sent.ok() && !*sent && !HasRoom(packet)) {
    sent = ResourceExhausted("The other side of the link does not read: ", unsent_.size(), " messages wait for it");
  }
  if (!sent.ok()) {
    if (header.place == kBlock) outgoing_.Release(header.offset);
    return sent.status();
  }
  if (!*sent) {
    unsent_files_ += packet.file.valid() ? 1 : 0;
    unsent_bytes_ += packet.body_bytes;
    unsent_.push_back(std::move(packet));
    if (!receiving_) loop_->Wait(id_, socket_.get(), /*write=*/true);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SameHostLink::Write(const Packet& packet, int file) {
  iovec part{.iov_base = const_cast<char*>(packet.bytes.data()), .iov_len = packet.bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (file >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &file, sizeof(int));
  }
  while (sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return false;
    if (errno != EINTR) return Unavailable("The link is lost: ", std::strerror(errno));
  }
  return true;
}

absl::Status SameHostLink::Flush() {
  while (!unsent_.empty()) {
    ASSIGN_OR_RETURN(const bool sent, Write(unsent_.front(), unsent_.front().file.get()));
    if (!sent) break;
    unsent_files_ -= unsent_.front().file.valid() ? 1 : 0;
    unsent_bytes_ -= unsent_.front().body_bytes;
    unsent_.pop_front();
  }
  return absl::OkStatus();
}

bool SameHostLink::HasRoom(const Packet& packet) const {
  if (unsent_.size() >= kMaxUnsent) return false;
  return !packet.file.valid() ||
         (unsent_files_ < kMaxUnsentFiles && unsent_bytes_ + packet.body_bytes <= kMaxUnsentBytes);
}

void SameHostLink::Break() { shutdown(socket_.get(), SHUT_RDWR); }

void SameHostLink::Ready() {
  std::shared_ptr<const Handlers> handlers;
  {
    MutexLock lock(&mutex_);
    if (closed_ || receiving_) return;
    receiving_ = true;
    handlers = handlers_;
    // What has come is read even so: there may be answers.
    if (!Flush().ok()) Break();
  }
  absl::StatusOr<std::optional<Received>> received = Read();
  Work work;
  if (received.ok() && received->has_value()) {
    work = handlers->receive(std::move((*received)->message), std::move((*received)->body));
  }
  if (!received.ok()) {
    if (Detach()) handlers->lost(received.status());
    return;
  }
  {
    MutexLock lock(&mutex_);
    receiving_ = false;
    if (!closed_) loop_->Wait(id_, socket_.get(), !unsent_.empty());
  }
  handlers.reset();
  if (work) work();
}

namespace {

// All descriptors that came with a packet: each is ours to close, however many the
// sender has put there.
std::vector<FileHandle> TakeFiles(msghdr& header) {
  std::vector<FileHandle> files;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + at, sizeof(int));
      files.emplace_back(fd);
    }
  }
  return files;
}

}  // namespace

absl::StatusOr<std::optional<SameHostLink::Received>> SameHostLink::Read() {
  static thread_local std::vector<char> buffer(sizeof(Header) + kMaxText + kInlineBytes);
  iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t n = 0;
  while ((n = recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    // The other side has left something unread. That is said once, before what it
    // has sent, which may be answers.
    if (errno == ECONNRESET) continue;
    if (errno != EINTR) return Unavailable("The link is lost: ", std::strerror(errno));
  }
  std::vector<FileHandle> files = TakeFiles(header);
  if (n == 0) return Unavailable("The other side has closed the link");
  greeted_.store(true, std::memory_order_release);
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return InvalidArgument("A message is too long");
  if (files.size() > 1) return InvalidArgument("A message has ", files.size(), " descriptors, expected at most one");
  FileHandle file = files.empty() ? FileHandle() : std::move(files[0]);
  ASSIGN_OR_RETURN(Received received, Parse({buffer.data(), static_cast<size_t>(n)}, std::move(file)));
  if (received.message.kind != LinkMessage::kHello) return received;
  if (!has_greeted_) RETURN_IF_ERROR(Greet());
  return std::nullopt;
}

absl::StatusOr<SameHostLink::Received> SameHostLink::Parse(absl::string_view packet, FileHandle file) {
  Header header;
  if (packet.size() < sizeof(header)) return InvalidArgument("A message is too short");
  std::memcpy(&header, packet.data(), sizeof(header));
  packet.remove_prefix(sizeof(header));
  const bool first = incoming_ == nullptr;
  if (header.magic != kMagic || header.kind < LinkMessage::kHello || header.kind > LinkMessage::kCancel ||
      header.text_bytes > packet.size() || first != (header.kind == LinkMessage::kHello)) {
    return InvalidArgument("What has come over the link is no message");
  }
  Received received;
  LinkMessage& message = received.message;
  message.kind = static_cast<LinkMessage::Kind>(header.kind);
  message.call = header.call;
  message.code = header.code;
  message.text = std::string(packet.substr(0, header.text_bytes));
  packet.remove_prefix(header.text_bytes);
  if (first) {
    ASSIGN_OR_RETURN(incoming_, SharedMemory::Map(std::move(file)));
    return received;
  }
  std::optional<HeldBytes> body;
  if (header.place == kInline && header.body_bytes == packet.size()) {
    const auto held = std::make_shared<const std::string>(packet);
    body = HeldBytes{held->data(), held->size(), held};
  } else if (header.place == kBlock) {
    body = TakeBlock(incoming_, header.offset, header.body_bytes);
  } else if (header.place == kFile) {
    ASSIGN_OR_RETURN(const auto memory, SharedMemory::Map(std::move(file)));
    body = TakeWhole(memory, header.body_bytes);
  }
  if (!body.has_value()) return InvalidArgument("The body of a message is not where it says");
  received.body = *std::move(body);
  return received;
}

// False if it was closed before.
bool SameHostLink::Detach() {
  std::shared_ptr<const Handlers> handlers;
  {
    MutexLock lock(&mutex_);
    if (closed_) return false;
    closed_ = true;
    unsent_.clear();
    handlers.swap(handlers_);
  }
  shutdown(socket_.get(), SHUT_RDWR);
  loop_->Remove(id_, socket_.get());
  return true;
}

void SameHostLink::Close() { Detach(); }

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
