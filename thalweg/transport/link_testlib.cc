// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/link_testlib.h"

#include <sys/socket.h>

#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/base/timer.h"
#include "thalweg/transport/same_host_link.h"
#include "thalweg/transport/tcp_connect.h"

namespace thalweg {
namespace {

std::string Join(absl::Span<const absl::string_view> pieces) {
  std::string all;
  for (const absl::string_view piece : pieces) all.append(piece.data(), piece.size());
  return all;
}

// One end of a link whose other end is in the same process.
class InProcessLink : public Link, public std::enable_shared_from_this<InProcessLink> {
 public:
  InProcessLink(SocketLoop* loop, Handlers handlers)
      : loop_(loop), handlers_(std::make_shared<const Handlers>(std::move(handlers))) {}
  void SetPeer(const std::shared_ptr<InProcessLink>& peer) { peer_ = peer; }

  absl::Status Start(Side) override { return absl::OkStatus(); }
  bool greeted() const override { return true; }
  absl::Status Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces,
                    std::shared_ptr<const void>) override {
    {
      MutexLock lock(&mutex_);
      if (closed_) return Unavailable("The link is closed");
    }
    const auto peer = peer_.lock();
    if (peer == nullptr) return Unavailable("The other side has closed the link");
    peer->Add({message, std::make_shared<const std::string>(Join(pieces))});
    return absl::OkStatus();
  }
  using Link::Send;
  void Break() override {
    Lose();
    if (const auto peer = peer_.lock(); peer != nullptr) peer->Lose();
  }
  void Close() override {
    if (Detach() == nullptr) return;
    if (const auto peer = peer_.lock(); peer != nullptr) peer->Lose();
  }

 private:
  struct Message {
    LinkMessage message;
    std::shared_ptr<const std::string> body;
  };

  void Add(Message message) {
    MutexLock lock(&mutex_);
    if (closed_) return;
    messages_.push_back(std::move(message));
    loop_->Post([self = shared_from_this()] { self->Deliver(); });
  }
  // One message; the threads of the loop take turns, so that the handler sees them in order.
  void Deliver() {
    Work work;
    {
      MutexLock turn(&turn_);
      std::shared_ptr<const Handlers> handlers;
      Message next;
      {
        MutexLock lock(&mutex_);
        if (closed_ || messages_.empty()) return;
        next = std::move(messages_.front());
        messages_.pop_front();
        handlers = handlers_;
      }
      work = handlers->receive(std::move(next.message), HeldBytes{next.body->data(), next.body->size(), next.body});
    }
    if (work) work();
  }
  void Lose() {
    loop_->Post([self = shared_from_this()] {
      while (self->HasMessages()) self->Deliver();
      if (const auto handlers = self->Detach(); handlers != nullptr) handlers->lost(Unavailable("The link is lost"));
    });
  }
  bool HasMessages() {
    MutexLock lock(&mutex_);
    return !closed_ && !messages_.empty();
  }
  std::shared_ptr<const Handlers> Detach() {
    MutexLock lock(&mutex_);
    closed_ = true;
    return std::exchange(handlers_, nullptr);
  }

  SocketLoop* const loop_;
  std::weak_ptr<InProcessLink> peer_;
  Mutex turn_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Message> messages_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Handlers> handlers_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<LinkPair> MakeTcpPair(SocketLoop* loop, Link::Handlers client, Link::Handlers server,
                                     const LinkPairOptions& options) {
  ASSIGN_OR_RETURN(const std::string token, NewTcpToken());
  ASSIGN_OR_RETURN(FileHandle socket, ListenTcp("127.0.0.1", 0));
  ASSIGN_OR_RETURN(const int port, TcpPort(socket.get()));
  const auto listener = MakeTcpListener(std::move(socket), {.token = token,
                                                            .budget = std::make_shared<ReceiveBudget>(options.budget),
                                                            .max_unsent_bytes = options.max_unsent});
  const std::atomic<bool> cancelled = false;
  absl::StatusOr<FileHandle> dialed;
  std::thread dial([&] { dialed = DialTcp("127.0.0.1", port, token, absl::Now() + absl::Seconds(30), cancelled); });
  LinkPair pair;
  absl::Status status;
  while (status.ok() && pair.server == nullptr) {
    absl::StatusOr<std::shared_ptr<Link>> accepted = listener->Accept(loop, server);
    status = accepted.status();
    if (accepted.ok()) pair.server = *std::move(accepted);
  }
  if (status.ok()) status = pair.server->Start(Link::Side::kAccepted);
  dial.join();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(dialed.status());
  pair.client = TcpLink::Create(loop, *std::move(dialed), std::move(client), {.max_unsent_bytes = options.max_unsent});
  RETURN_IF_ERROR(pair.client->Start(Link::Side::kConnected));
  return pair;
}

// Remembers the link, which lives as long as its timer needs it.
class FaultyLink : public Link, public std::enable_shared_from_this<FaultyLink> {
 public:
  FaultyLink(std::shared_ptr<Link> link, LinkFault fault) : link_(std::move(link)), fault_(fault) {}

  absl::Status Start(Side side) override { return link_->Start(side); }
  bool greeted() const override { return link_->greeted(); }
  void Break() override { link_->Break(); }
  void Close() override { link_->Close(); }
  bool stalled() const override { return link_->stalled(); }
  uint64_t unsent_bytes() const override { return link_->unsent_bytes(); }
  using Link::Send;

  absl::Status Send(const LinkMessage& message, absl::Span<const absl::string_view> pieces,
                    std::shared_ptr<const void> holder) override {
    MutexLock lock(&mutex_);
    const bool strikes = ++sent_ == fault_.nth;
    const auto body = std::make_shared<const std::string>(Join(pieces));
    if (!strikes) {
      // What a delayed message holds up waits behind it; what a reordered one lets pass goes first.
      if (!held_.empty() && fault_.kind == LinkFault::kDelay) {
        held_.push_back({message, body});
        return absl::OkStatus();
      }
      const absl::Status status = link_->Send(message, pieces, std::move(holder));
      SendHeld();
      return status;
    }
    switch (fault_.kind) {
      case LinkFault::kDrop:
        return absl::OkStatus();
      case LinkFault::kDelay:
      case LinkFault::kReorder:
        held_.push_back({message, body});
        timer_.Set(absl::Now() + fault_.delay, [this] {
          MutexLock later(&mutex_);
          SendHeld();
        });
        return absl::OkStatus();
      case LinkFault::kDuplicate:
        link_->Send(message, pieces, holder).IgnoreError();
        return link_->Send(message, pieces, std::move(holder));
      case LinkFault::kTruncate:
        return link_->Send(message, {absl::string_view(*body).substr(0, body->size() / 2)}, body);
      case LinkFault::kFail:
        link_->Break();
        return Unavailable("injected");
    }
    return Internal("no such fault");
  }

 private:
  struct Held {
    LinkMessage message;
    std::shared_ptr<const std::string> body;
  };
  void SendHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const Held& held : held_) link_->Send(held.message, {absl::string_view(*held.body)}, held.body).IgnoreError();
    held_.clear();
  }

  const std::shared_ptr<Link> link_;
  const LinkFault fault_;
  Mutex mutex_;
  int sent_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Held> held_ ABSL_GUARDED_BY(mutex_);
  Timer timer_;  // destroyed first
};

class FaultyListener : public LinkListener {
 public:
  FaultyListener(std::unique_ptr<LinkListener> listener, LinkFault fault)
      : listener_(std::move(listener)), fault_(fault) {}
  int fd() const override { return listener_->fd(); }
  absl::StatusOr<std::shared_ptr<Link>> Accept(SocketLoop* loop, Link::Handlers handlers) override {
    ASSIGN_OR_RETURN(std::shared_ptr<Link> link, listener_->Accept(loop, std::move(handlers)));
    if (link == nullptr) return nullptr;
    return MakeFaultyLink(std::move(link), fault_);
  }

 private:
  const std::unique_ptr<LinkListener> listener_;
  const LinkFault fault_;
};

}  // namespace

std::string NameOf(LinkKind kind) {
  return kind == LinkKind::kInProcess ? "InProcess" : kind == LinkKind::kSharedMemory ? "SharedMemory" : "Tcp";
}

absl::StatusOr<LinkPair> MakeLinkPair(LinkKind kind, SocketLoop* loop, Link::Handlers client, Link::Handlers server,
                                      LinkPairOptions options) {
  if (kind == LinkKind::kTcp) return MakeTcpPair(loop, std::move(client), std::move(server), options);
  if (kind == LinkKind::kInProcess) {
    const auto a = std::make_shared<InProcessLink>(loop, std::move(client));
    const auto b = std::make_shared<InProcessLink>(loop, std::move(server));
    a->SetPeer(b);
    b->SetPeer(a);
    return LinkPair{a, b};
  }
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) != 0) {
    return ResourceExhausted("no sockets");
  }
  FileHandle first(sockets[0]), second(sockets[1]);
  LinkPair pair;
  ASSIGN_OR_RETURN(pair.server, SameHostLink::Create(loop, std::move(second), std::move(server)));
  RETURN_IF_ERROR(pair.server->Start(Link::Side::kAccepted));
  ASSIGN_OR_RETURN(pair.client, SameHostLink::Create(loop, std::move(first), std::move(client)));
  RETURN_IF_ERROR(pair.client->Start(Link::Side::kConnected));
  while (!pair.client->greeted()) std::this_thread::yield();  // before that the server must not send
  return pair;
}

std::shared_ptr<Link> MakeFaultyLink(std::shared_ptr<Link> link, LinkFault fault) {
  return std::make_shared<FaultyLink>(std::move(link), fault);
}

std::unique_ptr<LinkListener> MakeFaultyListener(std::unique_ptr<LinkListener> listener, LinkFault fault) {
  return std::make_unique<FaultyListener>(std::move(listener), fault);
}

}  // namespace thalweg
