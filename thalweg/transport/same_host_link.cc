// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/same_host_link.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/exported_memory.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/local_socket.h"

namespace thalweg {

namespace {

constexpr uint32_t kMagic = 0x326b6c54;  // "Tlk2"
// Up to here a body goes in the packet.
constexpr size_t kInlineBytes = 4 << 10;
constexpr size_t kMaxText = 32 << 10;
// Longer pieces of a body have a place of their own, at which the receiver can leave them.
constexpr size_t kLargePiece = 32 << 10;
constexpr size_t kMaxBodyParts = 64;
constexpr uint64_t kPartAlignment = 64;
// A file in which a message has come stays mapped for a part of at least this size. Shorter parts are copied out of
// it: a process cannot have many mappings.
constexpr uint64_t kMinMapped = 1 << 20;
// Memory for what is under way; a body that has no room there gets a memory of
// its own. Only what is used of it takes memory.
constexpr size_t kArenaBytes = 64 << 20;

// What may wait for a side that does not read: messages, and bytes of those that
// have a memory, and so a descriptor, of their own.
constexpr size_t kMaxUnsent = 64 << 10;
constexpr uint64_t kMaxUnsentBytes = uint64_t{4} << 30;
constexpr int kMaxUnsentFiles = 512;

enum Place : uint32_t { kInline, kBlock, kFile, kExported };

}  // namespace

struct SameHostLink::Header {
  uint32_t magic = kMagic;
  uint32_t kind = 0;
  uint64_t call = 0;
  uint32_t code = 0;
  uint32_t text_bytes = 0;
  uint32_t parts = 0;    // of the body; they follow the text
  uint32_t exports = 0;  // a greeting: 1 if the descriptor is that of the sender's exported memory
};

// Some of the bytes of a body.
struct SameHostLink::Part {
  uint32_t place = kInline;
  uint32_t reserved = 0;
  uint64_t offset = 0;  // in the memory, unless it is kInline
  uint64_t bytes = 0;
  uint64_t mark = 0;  // kExported: in the sender's memory, to be cleared by the receiver
};

// Pieces of a body that go to one place, one after the other.
struct SameHostLink::Run {
  absl::InlinedVector<HeldBytes, 2> pieces;
  uint64_t bytes = 0;

  void Add(const HeldBytes& piece) {
    pieces.push_back(piece);
    bytes += piece.size;
  }
  void CopyTo(char* to) const {
    for (const HeldBytes& piece : pieces) to = std::copy_n(piece.data, piece.size, to);
  }
};

// The memory that is sent, and what is held until the receiver has let go of it. Lives longer than the link if the
// receiver does not let go at once.
class SameHostLink::Outgoing : public BlockArena, public ExportHolder {
 public:
  Outgoing(std::shared_ptr<SharedMemory> memory, int socket) : BlockArena(std::move(memory)) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) receiver_ = peer.pid;
  }

  // False if the receiver is in another namespace, so that its end would not be noticed.
  bool KnowsReceiver() const { return receiver_ > 0; }
  bool Reclaim() override {
    if (Sweep()) return true;
    if (!closed_.load(std::memory_order_acquire) || !HasEnded()) return false;
    ReleaseHeld();
    return true;
  }
  // The link is closed. What the receiver still uses must not change: it is held until the receiver lets go of it, or
  // has ended.
  void Close() {
    process_ = FileHandle(receiver_ > 0 ? static_cast<int>(syscall(SYS_pidfd_open, receiver_, 0)) : -1);
    closed_.store(true, std::memory_order_release);
  }

 private:
  // REQUIRES: KnowsReceiver(); otherwise nothing is held.
  bool HasEnded() const {
    if (!process_.valid()) return kill(receiver_, 0) != 0 && errno == ESRCH;
    pollfd state{.fd = process_.get(), .events = POLLIN, .revents = 0};
    return poll(&state, 1, 0) == 1;
  }

  pid_t receiver_ = 0;
  FileHandle process_;  // set by Close()
  std::atomic<bool> closed_{false};
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
  Packet hello;
  hello.bytes = std::string(reinterpret_cast<const char*>(&header), sizeof(header));
  has_greeted_ = true;
  return Write(hello, outgoing_->fd()).status();
}

SameHostLink::SameHostLink(SocketLoop* loop, FileHandle socket, Handlers handlers, std::shared_ptr<SharedMemory> memory)
    : loop_(loop),
      socket_(std::move(socket)),
      outgoing_(std::make_shared<Outgoing>(std::move(memory), socket_.get())),
      handlers_(std::make_shared<const Handlers>(std::move(handlers))) {
  ExportedMemory::Global().Add(outgoing_);
}

// Nobody else uses the link. The sender still holds what is in messages that were not read.
SameHostLink::~SameHostLink() {
  bool reads = incoming_ != nullptr;
  while (reads) {
    const absl::StatusOr<std::optional<Received>> unread = Read();
    reads = unread.ok() && unread->has_value();
  }
}

absl::Status SameHostLink::Place(std::vector<Run>& runs, std::vector<Part>* parts, Packet* packet) {
  size_t inline_bytes = 0;
  std::vector<size_t> left;  // runs without a place yet
  for (size_t i = 0; i < runs.size(); ++i) {
    Run& run = runs[i];
    Part& part = parts->emplace_back();
    part.bytes = run.bytes;
    if (run.bytes <= kInlineBytes - inline_bytes) {
      inline_bytes += run.bytes;
      continue;
    }
    uint64_t offset = 0;
    if (run.pieces.size() == 1 && run.pieces[0].holder != nullptr && outgoing_->KnowsReceiver()) {
      const HeldBytes& piece = run.pieces[0];
      if (ExportedMemory::Global().Holds(piece.data, piece.size, &offset)) {
        if (const std::optional<uint64_t> mark = outgoing_->Hold(piece); mark.has_value()) {
          packet->blocks.push_back(*mark);
          packet->exports = true;
          part = {.place = kExported, .offset = offset, .bytes = run.bytes, .mark = *mark};
          continue;
        }
      } else {
        ExportedMemory::Global().Want(piece.size);
      }
    }
    if (const std::optional<uint64_t> block = outgoing_->Allocate(run.bytes); block.has_value()) {
      run.CopyTo(outgoing_->at(*block));
      packet->blocks.push_back(*block);
      part.place = kBlock;
      part.offset = *block;
      continue;
    }
    left.push_back(i);
  }
  if (!left.empty()) RETURN_IF_ERROR(PlaceInFile(runs, left, parts, packet));
  for (const uint64_t block : packet->blocks) outgoing_->Publish(block);
  return absl::OkStatus();
}

// There is no room in the memory of the link: the rest of the body gets its own.
absl::Status SameHostLink::PlaceInFile(const std::vector<Run>& runs, const std::vector<size_t>& which,
                                       std::vector<Part>* parts, Packet* packet) {
  uint64_t bytes = 0;
  for (const size_t i : which) {
    Part& part = (*parts)[i];
    part.place = kFile;
    part.offset = bytes;
    bytes += (part.bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  }
  ASSIGN_OR_RETURN(const auto memory, SharedMemory::Create(bytes));
  packet->file = FileHandle(dup(memory->fd()));
  if (!packet->file.valid()) return ResourceExhausted("No more file descriptors");
  packet->body_bytes = bytes;
  for (const size_t i : which) runs[i].CopyTo(memory->data() + (*parts)[i].offset);
  return absl::OkStatus();
}

absl::Status SameHostLink::Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces,
                                std::shared_ptr<const void> holder) {
  absl::InlinedVector<HeldBytes, 8> held;
  for (const absl::string_view piece : pieces) held.push_back({piece.data(), piece.size(), holder});
  return SendPieces(message, held);
}

absl::Status SameHostLink::SendPieces(const LinkMessage& message, absl::Span<const HeldBytes> pieces) {
  std::vector<Run> runs;
  bool is_open = false;  // the last run takes more short pieces
  for (const HeldBytes& piece : pieces) {
    if (piece.size == 0) continue;
    const bool is_large = piece.size >= kLargePiece && runs.size() + 1 < kMaxBodyParts;
    if (is_large || !is_open) runs.emplace_back();
    runs.back().Add(piece);
    is_open = !is_large;
  }
  Header header;
  header.kind = message.kind;
  header.call = message.call;
  header.code = message.code;
  const absl::string_view text = absl::string_view(message.text).substr(0, kMaxText);
  header.text_bytes = static_cast<uint32_t>(text.size());
  header.parts = static_cast<uint32_t>(runs.size());
  Packet packet;
  std::vector<Part> parts;
  parts.reserve(runs.size());
  // Also if there is no memory for the packet: nobody else would clear these marks.
  absl::InlinedVector<uint64_t, 4> blocks;
  absl::Cleanup release = [&] {
    for (const uint64_t block : blocks.empty() ? packet.blocks : blocks) outgoing_->Release(block);
  };
  RETURN_IF_ERROR(Place(runs, &parts, &packet));
  blocks = packet.blocks;
  packet.bytes.append(reinterpret_cast<const char*>(&header), sizeof(header));
  packet.bytes.append(text.data(), text.size());
  packet.bytes.append(reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(Part));
  for (size_t i = 0; i < runs.size(); ++i) {
    if (parts[i].place != kInline) continue;
    for (const HeldBytes& piece : runs[i].pieces) packet.bytes.append(piece.data, piece.size);
  }
  MutexLock lock(&mutex_);
  if (packet.exports) RETURN_IF_ERROR(SendExports());
  RETURN_IF_ERROR(Queue(std::move(packet)));
  std::move(release).Cancel();
  return absl::OkStatus();
}

// Gives the receiver the memory that the next packet names.
absl::Status SameHostLink::SendExports() {
  if (has_sent_exports_) return absl::OkStatus();
  Header header;
  header.kind = LinkMessage::kHello;
  header.exports = 1;
  Packet packet;
  packet.bytes = std::string(reinterpret_cast<const char*>(&header), sizeof(header));
  packet.file = FileHandle(dup(ExportedMemory::Global().fd()));
  if (!packet.file.valid()) return ResourceExhausted("No more file descriptors");
  RETURN_IF_ERROR(Queue(std::move(packet)));
  has_sent_exports_ = true;
  return absl::OkStatus();
}

// Sends the packet, or keeps it until the socket has room.
absl::Status SameHostLink::Queue(Packet packet) {
  if (closed_) return Unavailable("The link is closed");
  bool sent = false;
  if (unsent_.empty()) {
    const absl::StatusOr<bool> written = Write(packet, packet.file.get());
    if (!written.ok()) Break();
    RETURN_IF_ERROR(written.status());
    sent = *written;
  }
  if (sent) return absl::OkStatus();
  if (!HasRoom(packet)) {
    return ResourceExhausted("The other side of the link does not read: ", unsent_.size(), " messages wait for it");
  }
  unsent_files_ += packet.file.valid() ? 1 : 0;
  unsent_bytes_ += packet.body_bytes;
  unsent_.push_back(std::move(packet));
  if (!receiving_) loop_->Wait(id_, socket_.get(), /*write=*/true);
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

uint64_t SameHostLink::unsent_bytes() const {
  MutexLock lock(&mutex_);
  uint64_t bytes = unsent_bytes_;
  for (const Packet& packet : unsent_) bytes += packet.bytes.size();
  return bytes;
}

void SameHostLink::Break() { shutdown(socket_.get(), SHUT_RDWR); }

void SameHostLink::Ready() {
  std::shared_ptr<const Handlers> handlers;
  bool drained = false;
  {
    MutexLock lock(&mutex_);
    if (closed_ || receiving_) return;
    receiving_ = true;
    handlers = handlers_;
    drained = !unsent_.empty();
    // What has come is read even so: there may be answers.
    if (!Flush().ok()) Break();
    drained = drained && unsent_.empty();
  }
  if (drained && handlers->drained) handlers->drained();
  absl::StatusOr<std::optional<Received>> received = Read();
  Work work;
  if (received.ok() && received->has_value() && (*received)->message.kind != LinkMessage::kHello) {
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
  static thread_local std::vector<char> buffer(sizeof(Header) + kMaxText + kMaxBodyParts * sizeof(Part) + kInlineBytes);
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
  if (received.message.kind == LinkMessage::kHello && !has_greeted_) RETURN_IF_ERROR(Greet());
  return received;
}

absl::StatusOr<SameHostLink::Received> SameHostLink::Parse(absl::string_view packet, FileHandle file) {
  Header header;
  if (packet.size() < sizeof(header)) return InvalidArgument("A message is too short");
  std::memcpy(&header, packet.data(), sizeof(header));
  packet.remove_prefix(sizeof(header));
  if (header.magic != kMagic || header.kind < LinkMessage::kHello || header.kind > LinkMessage::kCancel ||
      header.text_bytes > packet.size() || header.parts > kMaxBodyParts ||
      header.parts * sizeof(Part) > packet.size() - header.text_bytes) {
    return InvalidArgument("What has come over the link is no message");
  }
  Received received;
  LinkMessage& message = received.message;
  message.kind = static_cast<LinkMessage::Kind>(header.kind);
  message.call = header.call;
  message.code = header.code;
  message.text = std::string(packet.substr(0, header.text_bytes));
  if (message.kind == LinkMessage::kHello) {
    RETURN_IF_ERROR(ParseHello(header, std::move(file)));
    return received;
  }
  if (incoming_ == nullptr) return InvalidArgument("A message has come over the link before the greeting");
  packet.remove_prefix(header.text_bytes);
  const absl::string_view parts = packet.substr(0, header.parts * sizeof(Part));
  ASSIGN_OR_RETURN(received.body, ParseBody(parts, packet.substr(parts.size()), std::move(file)));
  return received;
}

// The first greeting brings the memory of the link. A second one may bring the exported memory.
absl::Status SameHostLink::ParseHello(const Header& header, FileHandle file) {
  const bool first = incoming_ == nullptr;
  if (header.exports != (first ? 0 : 1) || incoming_exports_ != nullptr) {
    return InvalidArgument("The link was greeted again");
  }
  if (first) {
    ASSIGN_OR_RETURN(incoming_, SharedMemory::Map(std::move(file)));
  } else {
    ASSIGN_OR_RETURN(incoming_exports_, SharedMemory::MapToRead(std::move(file)));
  }
  return absl::OkStatus();
}

namespace {

HeldBytes CopyOf(absl::string_view bytes) {
  const std::shared_ptr<char> held = AllocateAligned(bytes.size());
  std::copy(bytes.begin(), bytes.end(), held.get());
  return {held.get(), bytes.size(), held};
}

}  // namespace

// Nothing that a part says is believed.
absl::StatusOr<LinkBody> SameHostLink::ParseBody(absl::string_view parts, absl::string_view bytes,
                                                 FileHandle file) const {
  std::shared_ptr<const SharedMemory> own;
  if (file.valid()) {
    ASSIGN_OR_RETURN(own, SharedMemory::MapToRead(std::move(file)));
  }
  LinkBody body;
  for (; !parts.empty(); parts.remove_prefix(sizeof(Part))) {
    Part part;
    std::memcpy(&part, parts.data(), sizeof(part));
    std::optional<HeldBytes> piece;
    if (part.place == kInline && part.bytes <= bytes.size()) {
      piece = CopyOf(bytes.substr(0, part.bytes));
      bytes.remove_prefix(part.bytes);
    } else if (part.place == kBlock) {
      piece = TakeBlock(incoming_, part.offset, part.bytes);
    } else if (part.place == kFile && own != nullptr) {
      piece = TakePart(own, part.offset, part.bytes);
      // A part that is left in the file keeps all of it.
      if (piece.has_value() && (piece->size < kMinMapped || piece->size < own->bytes() / 2)) {
        piece = CopyOf({piece->data, piece->size});
      }
    } else if (part.place == kExported && incoming_exports_ != nullptr) {
      piece = TakeMarkedPart(incoming_exports_, part.offset, part.bytes, incoming_, part.mark);
    }
    if (!piece.has_value()) return InvalidArgument("The body of a message is not where it says");
    body.pieces.push_back(*std::move(piece));
  }
  if (!bytes.empty()) return InvalidArgument("A message has more bytes than its parts");
  return body;
}

// False if it was closed before.
bool SameHostLink::Detach() {
  std::shared_ptr<const Handlers> handlers;
  {
    MutexLock lock(&mutex_);
    if (closed_) return false;
    closed_ = true;
    // Nobody will clear the marks of these.
    for (const Packet& packet : unsent_) {
      for (const uint64_t block : packet.blocks) outgoing_->Release(block);
    }
    unsent_.clear();
    handlers.swap(handlers_);
  }
  shutdown(socket_.get(), SHUT_RDWR);
  loop_->Remove(id_, socket_.get());
  outgoing_->Close();
  ExportedMemory::Global().Adopt(outgoing_);
  ExportedMemory::Global().Reclaim();
  return true;
}

void SameHostLink::Close() { Detach(); }

}  // namespace thalweg
