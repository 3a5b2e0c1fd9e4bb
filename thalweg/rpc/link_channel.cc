// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/link_channel.h"

#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/rpc/message.h"

namespace thalweg {
namespace {

// A server without links is not asked for one at every call.
constexpr absl::Duration kRetry = absl::Milliseconds(200);

}  // namespace

std::shared_ptr<Link> LinkChannel::OpenLink() {
  if (closed_ || link_ != nullptr) return link_;
  const absl::Time now = absl::Now();
  if (now < retry_) return nullptr;
  retry_ = now + kRetry;
  const auto self = shared_from_this();
  absl::StatusOr<std::shared_ptr<Link>> link = connect_(
      {.receive = [self](LinkMessage message, LinkBody body) { return self->Receive(message, std::move(body)); },
       .lost = [self](const absl::Status& status) { self->Lost(status); },
       .drained = [self] { self->SendWaiting(); }});
  if (!link.ok()) return nullptr;
  retry_ = absl::InfinitePast();
  return link_ = *std::move(link);
}

std::pair<std::shared_ptr<Link>, uint64_t> LinkChannel::NextCall() {
  MutexLock lock(&mutex_);
  return {OpenLink(), ++last_call_};
}

bool LinkChannel::linked() const {
  MutexLock lock(&mutex_);
  return link_ != nullptr && link_->greeted();
}

bool LinkChannel::Call(const char* method, const grpc::ByteBuffer& request, const CallOptions& options,
                       RpcChannel::Done& done) {
  const auto [link, call] = NextCall();
  if (link == nullptr) return false;
  const auto give_up = [self = shared_from_this(), call = call](const absl::Status& why) { self->GiveUp(call, why); };
  Pending pending{.cancellation = options.cancellation};
  if (options.cancellation != nullptr) {
    pending.callback = options.cancellation->Register(
        [give_up](const absl::Status&) { give_up(Cancelled("The call was cancelled")); });
    if (!pending.callback.has_value()) {
      grpc::ByteBuffer nothing;
      done(options.cancellation->status(), nothing);
      return true;
    }
  }
  const absl::Time deadline =
      options.timeout == absl::InfiniteDuration() ? absl::InfiniteFuture() : absl::Now() + options.timeout;
  if (deadline != absl::InfiniteFuture()) {
    pending.alarm = timer_->Set(deadline, [give_up] { give_up(absl::DeadlineExceededError("Deadline Exceeded")); });
  }
  const Request message{method, request, options, deadline};
  pending.request = std::make_unique<Request>(message);
  bool waits = false;
  {
    MutexLock lock(&mutex_);
    // From now on a cancellation finds the pending call; check for one that came before.
    waits = link_ == link && (options.cancellation == nullptr || !options.cancellation->cancelled()) &&
            absl::Now() < deadline;
    if (waits) {
      pending.done = std::move(done);
      pending_.emplace(call, std::move(pending));
    }
  }
  if (waits) {
    if (SendOrWait(*link, call, message).ok()) return true;
    std::optional<Pending> unsent = Take(call);
    if (!unsent.has_value()) return true;  // ended with the link, or given up
    pending = *std::move(unsent);
    done = std::move(pending.done);
  }
  StopWaiting(pending);  // not sent: gRPC finds out why
  return false;
}

absl::Status LinkChannel::SendOrWait(Link& link, uint64_t call, const Request& request) {
  const absl::Status sent =
      SendOver(link, {.kind = LinkMessage::kCall, .call = call, .text = request.method}, request.bytes);
  if (sent.ok()) {
    if (traffic_ != nullptr) {
      traffic_->Sent(path_, static_cast<int64_t>(request.bytes.Length()));
      traffic_->SetUnsent(path_, link.unsent_bytes());
    }
    if (!link.greeted()) return sent;  // the request may be needed again
    std::unique_ptr<Request> unused;
    MutexLock lock(&mutex_);
    if (const auto it = pending_.find(call); it != pending_.end()) unused = std::move(it->second.request);
    return sent;
  }
  // If nothing waits to be sent, the link lacks memory or descriptors for this message.
  if (!absl::IsResourceExhausted(sent) || link.unsent_bytes() == 0) return sent;
  {
    MutexLock lock(&mutex_);
    waiting_.push_back(call);
  }
  if (link.unsent_bytes() == 0) SendWaiting();  // it was drained meanwhile, and will not tell that again
  return absl::OkStatus();
}

void LinkChannel::SendWaiting() {
  std::deque<uint64_t> calls;
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mutex_);
    calls.swap(waiting_);
    link = link_;
  }
  if (link == nullptr) return;  // the calls end with the link
  for (const uint64_t call : calls) {
    std::optional<Request> request;
    {
      MutexLock lock(&mutex_);
      const auto it = pending_.find(call);
      if (it != pending_.end() && it->second.request != nullptr) request = *it->second.request;
    }
    if (!request.has_value() || SendOrWait(*link, call, *request).ok()) continue;
    std::optional<Pending> unsent = Take(call);
    if (!unsent.has_value()) continue;
    StopWaiting(*unsent);
    if (request->deadline != absl::InfiniteFuture()) request->options.timeout = request->deadline - absl::Now();
    otherwise_(request->method, request->bytes, request->options, std::move(unsent->done));
  }
}

Link::Work LinkChannel::Receive(const LinkMessage& message, LinkBody body) {
  if (message.kind != LinkMessage::kReply) return nullptr;
  std::optional<Pending> pending = Take(message.call);
  if (!pending.has_value()) return nullptr;  // was cancelled
  return [self = shared_from_this(), pending = *std::move(pending),
          status = absl::Status(static_cast<absl::StatusCode>(message.code), message.text),
          body = std::move(body)]() mutable { self->End(std::move(pending), status, FromLink(std::move(body))); };
}

void LinkChannel::Lost(const absl::Status& status) {
  absl::flat_hash_map<uint64_t, Pending> ended;
  bool was_refused = false;
  {
    MutexLock lock(&mutex_);
    was_refused = link_ != nullptr && !link_->greeted();
    if (was_refused) retry_ = absl::Now() + kRetry;
    link_ = nullptr;
    waiting_.clear();
    ended.swap(pending_);
  }
  for (auto& [call, pending] : ended) {
    if (!was_refused) {
      End(std::move(pending), Unavailable(status.message()), {});
      continue;
    }
    StopWaiting(pending);
    Request& request = *pending.request;  // kept: the link was not greeted
    if (request.deadline != absl::InfiniteFuture()) request.options.timeout = request.deadline - absl::Now();
    otherwise_(request.method, request.bytes, request.options, std::move(pending.done));
  }
}

void LinkChannel::Abandon() {
  {
    MutexLock lock(&mutex_);
    abandoned_ = true;
    if (!pending_.empty()) return;
  }
  Close();
}

void LinkChannel::Close() {
  absl::flat_hash_map<uint64_t, Pending> ended;
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    link.swap(link_);
    ended.swap(pending_);
  }
  if (link != nullptr) link->Close();
  for (auto& [call, pending] : ended) End(std::move(pending), Cancelled("The client of the call is closing"), {});
}

// The call ends at once, whatever the server does; though not on this thread,
// which may be the one that cancels.
void LinkChannel::GiveUp(uint64_t call, const absl::Status& why) {
  std::optional<Pending> pending = Take(call);
  if (!pending.has_value()) return;
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mutex_);
    link = link_;
  }
  if (link != nullptr) {
    link->Send({.kind = LinkMessage::kCancel, .call = call}).IgnoreError();
  }
  {
    // The loop lives until Close(), which cannot come in between.
    MutexLock lock(&mutex_);
    if (!closed_) {
      loop_->Post([self = shared_from_this(), pending = *std::move(pending), why]() mutable {
        self->End(std::move(pending), why, {});
      });
      return;
    }
  }
  End(*std::move(pending), why, {});
}

std::optional<LinkChannel::Pending> LinkChannel::Take(uint64_t call) {
  std::optional<Pending> pending;
  std::shared_ptr<Link> unused;  // an abandoned channel's, after its last call
  {
    MutexLock lock(&mutex_);
    const auto it = pending_.find(call);
    if (it == pending_.end()) return std::nullopt;
    pending = std::move(it->second);
    pending_.erase(it);
    if (abandoned_ && pending_.empty()) unused.swap(link_);
  }
  if (unused != nullptr) unused->Close();
  return pending;
}

void LinkChannel::StopWaiting(const Pending& pending) {
  if (pending.callback.has_value()) pending.cancellation->Deregister(*pending.callback);
  if (pending.alarm.has_value()) timer_->Unset(*pending.alarm);
}

void LinkChannel::End(Pending pending, const absl::Status& status, grpc::ByteBuffer body) {
  StopWaiting(pending);
  if (traffic_ != nullptr) {
    traffic_->Received(path_, static_cast<int64_t>(body.Length()), status.ok());
    std::shared_ptr<Link> link;
    {
      MutexLock lock(&mutex_);
      link = link_;
    }
    traffic_->SetUnsent(path_, link == nullptr ? 0 : link->unsent_bytes());
  }
  pending.done(status, body);
}

}  // namespace thalweg
