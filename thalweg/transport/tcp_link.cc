// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/tcp_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "thalweg/base/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/memory.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// Received bytes that are not part of a large body: headers, texts, small bodies.
constexpr size_t kBufferBytes = 16 << 10;
// Larger bodies take their memory from the budget.
constexpr uint64_t kUnbudgetedBytes = 64 << 10;
// What one turn of a thread sends or receives at most, before it looks at the other direction again.
constexpr uint64_t kTurnBytes = 8 << 20;
constexpr size_t kMaxUnsentMessages = 64 << 10;
constexpr size_t kMaxParts = 64;  // buffers per sendmsg()

// A slower message stalls. The second limit holds while other messages wait for the memory that this one occupies: the
// largest message then occupies it for 36 minutes at most.
constexpr double kMinBytesPerSecond = 64e3, kMinBytesPerSecondOfScarceMemory = 1e6;

bool IsFull(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS; }

// Compares without telling by its duration how much is equal.
bool SameToken(absl::string_view a, absl::string_view b) {
  unsigned char different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) different |= static_cast<unsigned char>(a[i] ^ b[i]);
  return different == 0;
}

// Adds the sizes of the pieces to a header.
void Describe(absl::Span<const absl::string_view> pieces, TcpHeader* header) {
  uint64_t offset = 0, large_offset = 0, large_bytes = 0;
  for (const absl::string_view piece : pieces) {
    if (piece.size() > large_bytes) {
      large_offset = offset;
      large_bytes = piece.size();
    }
    offset += piece.size();
  }
  header->body_bytes = offset;
  header->large_offset = static_cast<uint32_t>(large_offset);
  header->large_bytes = static_cast<uint32_t>(large_bytes);
}

}  // namespace

std::shared_ptr<TcpLink> TcpLink::Create(SocketLoop* loop, FileHandle socket, Handlers handlers,
                                         TcpLinkOptions options) {
  return std::shared_ptr<TcpLink>(new TcpLink(loop, std::move(socket), std::move(handlers), std::move(options)));
}

TcpLink::TcpLink(SocketLoop* loop, FileHandle socket, Handlers handlers, TcpLinkOptions options)
    : loop_(loop),
      socket_(std::move(socket)),
      options_(std::move(options)),
      begun_nanos_(RealClock().MonotonicNanos()),
      handlers_(std::make_shared<const Handlers>(std::move(handlers))) {}

absl::Status TcpLink::Start(Side side) {
  if (side == Side::kConnected) {  // DialTcp() has greeted
    greeted_.store(true, std::memory_order_release);
    begun_nanos_.store(0, std::memory_order_relaxed);
  }
  MutexLock lock(&mutex_);  // something may come at once
  ASSIGN_OR_RETURN(id_, loop_->Add(socket_.get(), shared_from_this()));
  loop_->Wait(id_, socket_.get(), /*write=*/false);
  return absl::OkStatus();
}

// ---- Sending ----

absl::Status TcpLink::Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces,
                           std::shared_ptr<const void> holder) {
  TcpHeader header;
  header.kind = message.kind;
  header.call = message.call;
  header.code = message.code;
  const absl::string_view text = absl::string_view(message.text).substr(0, TcpHeader::kMaxText);
  header.text_bytes = static_cast<uint32_t>(text.size());
  Describe(pieces, &header);
  if (header.body_bytes > TcpHeader::kMaxBody) {
    return ResourceExhausted("A message of ", header.body_bytes, " bytes is larger than a link can send (2 GB)");
  }
  Unsent entry;
  entry.head.reserve(sizeof(header) + text.size());
  entry.head.append(reinterpret_cast<const char*>(&header), sizeof(header));
  entry.head.append(text.data(), text.size());
  entry.pieces.assign(pieces.begin(), pieces.end());
  entry.bytes = entry.head.size() + header.body_bytes;

  MutexLock lock(&mutex_);
  if (closed_) return Unavailable("The link is closed");
  uint64_t written = 0;
  if (unsent_.empty()) {
    const Unsent* const first = &entry;
    const absl::StatusOr<uint64_t> sent = Write({&first, 1}, 0);
    if (!sent.ok()) {
      Break();
      return sent.status();
    }
    if (*sent == entry.bytes) return absl::OkStatus();
    written = *sent;
  } else if (unsent_.size() >= kMaxUnsentMessages || unsent_bytes_ + entry.bytes > options_.max_unsent_bytes) {
    return ResourceExhausted("The other side of the link does not read: ", unsent_.size(), " messages of ",
                             unsent_bytes_, " bytes wait for it");
  }
  if (holder == nullptr && !pieces.empty()) {
    auto copy = std::make_shared<std::string>();
    for (const absl::string_view piece : pieces) copy->append(piece.data(), piece.size());
    entry.pieces = {absl::string_view(*copy)};
    holder = std::move(copy);
  }
  entry.holder = std::move(holder);
  if (unsent_.empty()) front_sent_ = written;
  unsent_bytes_ += entry.bytes - written;
  unsent_.push_back(std::move(entry));
  if (!receiving_) loop_->Wait(id_, socket_.get(), /*write=*/true, /*read=*/!starved_);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TcpLink::Write(absl::Span<const Unsent* const> messages, uint64_t skip) {
  iovec parts[kMaxParts];
  size_t count = 0;
  const auto add = [&](absl::string_view bytes) {
    const size_t cut = std::min<uint64_t>(skip, bytes.size());
    skip -= cut;
    bytes.remove_prefix(cut);
    if (bytes.empty() || count == kMaxParts) return;
    parts[count++] = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  };
  for (const Unsent* message : messages) {
    add(message->head);
    for (const absl::string_view piece : message->pieces) add(piece);
  }
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = count;
  ssize_t n = 0;
  while ((n = sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0) {
    if (IsFull(errno)) return 0;
    if (errno != EINTR) return Unavailable("The link is lost: ", std::strerror(errno));
  }
  return static_cast<uint64_t>(n);
}

absl::Status TcpLink::Flush(std::vector<Unsent>* sent) {
  for (uint64_t turn = 0; !unsent_.empty() && turn < kTurnBytes;) {
    absl::InlinedVector<const Unsent*, kMaxParts> messages;
    for (size_t i = 0; i < std::min(unsent_.size(), kMaxParts / 2); ++i) messages.push_back(&unsent_[i]);
    ASSIGN_OR_RETURN(const uint64_t n, Write(messages, front_sent_));
    if (n == 0) break;
    turn += n;
    unsent_bytes_ -= n;
    front_sent_ += n;
    while (!unsent_.empty() && front_sent_ >= unsent_.front().bytes) {
      front_sent_ -= unsent_.front().bytes;
      sent->push_back(std::move(unsent_.front()));
      unsent_.pop_front();
    }
  }
  return absl::OkStatus();
}

uint64_t TcpLink::unsent_bytes() const {
  MutexLock lock(&mutex_);
  return unsent_bytes_;
}

// ---- Receiving ----

void TcpLink::Ready() {
  std::shared_ptr<const Handlers> handlers;
  std::vector<Unsent> sent;
  bool reads = false, drained = false;
  {
    MutexLock lock(&mutex_);
    if (closed_ || receiving_) return;
    receiving_ = true;
    handlers = handlers_;
    // Read even so: answers may have come before the link was lost.
    if (!Flush(&sent).ok()) Break();
    reads = !starved_;
    drained = !sent.empty() && unsent_.empty();
  }
  sent.clear();
  if (drained && handlers->drained) handlers->drained();
  absl::StatusOr<std::optional<Received>> received = std::nullopt;
  if (reads) {
    received = Read();
  } else if (HangsUp()) {
    received = Unavailable("The other side has closed the link");
  }
  Work work;
  if (received.ok() && received->has_value()) {
    work = handlers->receive(std::move((*received)->message), std::move((*received)->body));
  }
  if (!received.ok()) {
    incoming_.reset();  // gives its memory back; nobody receives any more
    if (Detach()) handlers->lost(received.status());
    return;
  }
  {
    MutexLock lock(&mutex_);
    receiving_ = false;
    if (closed_) {
    } else if (received->has_value() && begin_ < end_ && !starved_) {
      // The buffer may hold another message, for which the socket will not wake anybody. (If there was none, the buffer
      // holds the beginning of one, and the socket will.)
      loop_->Post([self = shared_from_this()] { self->Ready(); });
    } else {
      loop_->Wait(id_, socket_.get(), !unsent_.empty(), /*read=*/!starved_);
    }
  }
  handlers.reset();
  if (work) work();
}

absl::StatusOr<std::optional<TcpLink::Received>> TcpLink::Read() {
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  for (uint64_t turn = 0;;) {
    ASSIGN_OR_RETURN(const Progress progress, Assemble());
    if (progress == Progress::kStarved) return std::nullopt;
    if (progress == Progress::kComplete) {
      Received received{.message = {.kind = static_cast<LinkMessage::Kind>(incoming_->header.kind),
                                    .code = incoming_->header.code,
                                    .call = incoming_->header.call,
                                    .text = std::move(incoming_->text)},
                        .body = {incoming_->body, incoming_->header.body_bytes, std::move(incoming_->holder)}};
      incoming_.reset();
      begun_nanos_.store(0, std::memory_order_relaxed);
      leased_.store(false, std::memory_order_relaxed);
      if (greeted()) return received;
      RETURN_IF_ERROR(Greet(received));
      continue;
    }
    if (turn >= kTurnBytes) return std::nullopt;
    // The rest of the body goes where it belongs, and what comes after it into the buffer.
    if (begin_ == end_) begin_ = end_ = 0;
    iovec parts[2];
    size_t count = 0;
    if (incoming_.has_value() && incoming_->body != nullptr && incoming_->filled < incoming_->header.body_bytes) {
      parts[count++] = {incoming_->body + incoming_->filled,
                        std::min(kTurnBytes, incoming_->header.body_bytes - incoming_->filled)};
    }
    parts[count++] = {buffer_.data() + end_, buffer_.size() - end_};
    if (count == 2 && parts[0].iov_len < incoming_->header.body_bytes - incoming_->filled) count = 1;
    msghdr header{};
    header.msg_iov = parts;
    header.msg_iovlen = count;
    size_t wanted = 0;
    for (size_t i = 0; i < count; ++i) wanted += parts[i].iov_len;
    ssize_t n = 0;
    while ((n = recvmsg(socket_.get(), &header, MSG_DONTWAIT)) < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
      if (errno != EINTR) return Unavailable("The link is lost: ", std::strerror(errno));
    }
    if (n == 0) return Unavailable("The other side has closed the link");
    turn += static_cast<uint64_t>(n);
    size_t rest = static_cast<size_t>(n);
    if (incoming_.has_value() && incoming_->body != nullptr) {
      const size_t in_body = std::min<uint64_t>(rest, incoming_->header.body_bytes - incoming_->filled);
      incoming_->filled += in_body;
      rest -= in_body;
    }
    end_ += rest;
    got_bytes_.fetch_add(static_cast<uint64_t>(n), std::memory_order_relaxed);
    // A socket that gave less than it was asked for is empty.
    if (static_cast<size_t>(n) < wanted) turn = std::max(turn, kTurnBytes);
  }
}

absl::StatusOr<TcpLink::Progress> TcpLink::Assemble() {
  if (!incoming_.has_value()) {
    if (end_ - begin_ < sizeof(TcpHeader)) {
      // Make room for the rest of the header.
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
      return Progress::kPartial;
    }
    Incoming incoming;
    std::memcpy(&incoming.header, buffer_.data() + begin_, sizeof(TcpHeader));
    RETURN_IF_ERROR(CheckHeader(incoming.header));
    begin_ += sizeof(TcpHeader);
    incoming_ = std::move(incoming);
    got_bytes_.store(0, std::memory_order_relaxed);
    if (greeted()) begun_nanos_.store(RealClock().MonotonicNanos(), std::memory_order_relaxed);
  }
  const size_t text = std::min(incoming_->header.text_bytes - incoming_->text.size(), end_ - begin_);
  incoming_->text.append(buffer_.data() + begin_, text);
  begin_ += text;
  if (incoming_->text.size() < incoming_->header.text_bytes) return Progress::kPartial;
  const uint64_t bytes = incoming_->header.body_bytes;
  if (bytes == 0) return Progress::kComplete;
  if (incoming_->body == nullptr) {
    ASSIGN_OR_RETURN(const bool has_memory, PrepareBody());
    if (!has_memory) return Progress::kStarved;
  }
  const size_t body = std::min<uint64_t>(bytes - incoming_->filled, end_ - begin_);
  std::memcpy(incoming_->body + incoming_->filled, buffer_.data() + begin_, body);
  incoming_->filled += body;
  begin_ += body;
  return incoming_->filled == bytes ? Progress::kComplete : Progress::kPartial;
}

absl::Status TcpLink::CheckHeader(const TcpHeader& header) const {
  if (header.magic != TcpHeader::kMagic) return InvalidArgument("What has come over the link is not a message");
  const bool hello = header.kind == LinkMessage::kHello;
  if (header.kind < LinkMessage::kHello || header.kind > LinkMessage::kCancel || hello == greeted()) {
    return InvalidArgument("A message of kind ", header.kind, " is not expected now");
  }
  if (header.text_bytes > (hello ? TcpHeader::kTokenBytes : TcpHeader::kMaxText) ||
      header.body_bytes > (hello ? 0 : TcpHeader::kMaxBody) ||
      uint64_t{header.large_offset} + header.large_bytes > header.body_bytes) {
    return InvalidArgument("A message has ", header.text_bytes, " bytes of text and ", header.body_bytes,
                           " bytes of body, which is more than a link carries");
  }
  return absl::OkStatus();
}

// False if the budget is used up: Granted() resumes reading.
absl::StatusOr<bool> TcpLink::PrepareBody() {
  const uint64_t bytes = incoming_->header.body_bytes;
  if (options_.budget != nullptr && bytes > kUnbudgetedBytes) {
    std::optional<ReceiveBudget::Lease> lease;
    {
      MutexLock lock(&mutex_);
      lease.swap(lease_);
      starved_ = !lease.has_value();
    }
    if (!lease.has_value()) {
      uint64_t ticket = 0;
      lease = options_.budget->Take(
          bytes,
          [weak = weak_from_this()](ReceiveBudget::Lease later) {
            if (const auto self = weak.lock(); self != nullptr) self->Granted(std::move(later));
          },
          &ticket);
      if (!lease.has_value()) {
        bool closed = false;
        {
          MutexLock lock(&mutex_);
          closed = closed_;
          ticket_ = ticket;
        }
        if (closed) options_.budget->Cancel(ticket);
        return false;
      }
      MutexLock lock(&mutex_);
      starved_ = false;
    }
    incoming_->lease = *std::move(lease);
    leased_.store(true, std::memory_order_relaxed);
    begun_nanos_.store(RealClock().MonotonicNanos(), std::memory_order_relaxed);
  }
  // Large memory comes from the system when it is first written, so a sender gets only what it sends.
  const size_t allocated = bytes + TcpHeader::kAlignment;
  void* const memory = HostAllocator().Allocate(allocated);
  if (memory == nullptr) return ResourceExhausted("No memory for a message of ", bytes, " bytes");
  incoming_->holder =
      std::shared_ptr<const void>(memory, [allocated](void* held) { HostAllocator().Deallocate(held, allocated); });
  incoming_->body =
      static_cast<char*>(memory) +
      (TcpHeader::kAlignment - incoming_->header.large_offset % TcpHeader::kAlignment) % TcpHeader::kAlignment;
  return true;
}

void TcpLink::Granted(ReceiveBudget::Lease lease) {
  MutexLock lock(&mutex_);
  if (closed_) return;
  lease_ = std::move(lease);
  starved_ = false;
  if (!receiving_) loop_->Wait(id_, socket_.get(), !unsent_.empty());
}

absl::Status TcpLink::Greet(const Received& hello) {
  if (!SameToken(hello.message.text, options_.token)) {
    return absl::PermissionDeniedError("A client has presented a wrong token");
  }
  greeted_.store(true, std::memory_order_release);
  return Send({.kind = LinkMessage::kHello});
}

bool TcpLink::stalled() const {
  const int64_t begun = begun_nanos_.load(std::memory_order_relaxed);
  if (begun == 0) return false;
  const absl::Duration elapsed = absl::Nanoseconds(RealClock().MonotonicNanos() - begun);
  if (!greeted()) return elapsed > options_.greeting;
  {
    MutexLock lock(&mutex_);
    if (starved_) return false;
  }
  if (elapsed <= options_.stall_timeout) return false;
  const bool scarce = options_.budget != nullptr && options_.budget->waiting() > 0;
  const auto got = static_cast<double>(got_bytes_.load(std::memory_order_relaxed));
  return got <
         (scarce && leased_.load(std::memory_order_relaxed) ? kMinBytesPerSecondOfScarceMemory : kMinBytesPerSecond) *
             absl::ToDoubleSeconds(elapsed);
}

// ---- The end ----

void TcpLink::Break() { shutdown(socket_.get(), SHUT_RDWR); }

bool TcpLink::HangsUp() const {
  pollfd state{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return poll(&state, 1, 0) == 1;
}

// False if it was closed before.
bool TcpLink::Detach() {
  std::shared_ptr<const Handlers> handlers;
  std::deque<Unsent> unsent;
  std::optional<ReceiveBudget::Lease> lease;
  uint64_t ticket = 0;
  {
    MutexLock lock(&mutex_);
    if (closed_) return false;
    closed_ = true;
    ticket = ticket_;
    unsent.swap(unsent_);
    unsent_bytes_ = 0;
    lease.swap(lease_);
    handlers.swap(handlers_);
  }
  if (ticket != 0) options_.budget->Cancel(ticket);
  shutdown(socket_.get(), SHUT_RDWR);
  loop_->Remove(id_, socket_.get());
  return true;
}

void TcpLink::Close() { Detach(); }

bool TcpLink::closed() const {
  MutexLock lock(&mutex_);
  return closed_;
}

}  // namespace thalweg
