// SPDX-License-Identifier: Apache-2.0
// Calls to a server over a link instead of gRPC.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/monitor/traffic.h"
#include "thalweg/rpc/rpc_client.h"
#include "thalweg/transport/link.h"

namespace thalweg {

// Thread-safe.
class LinkChannel : public std::enable_shared_from_this<LinkChannel> {
 public:
  // Makes a call without a link, over gRPC.
  using Otherwise = std::function<void(const char* method, const grpc::ByteBuffer& request, const CallOptions& options,
                                       RpcChannel::Done done)>;
  // Opens a started link, or fails if there is none now. Must not block.
  using Connect = std::function<absl::StatusOr<std::shared_ptr<Link>>(Link::Handlers handlers)>;
  // `loop` must live until Close(), `timer` longer. If the server refuses a link, for example
  // because it has no file descriptors left, calls are made with `otherwise`.
  // `traffic`, which may be nullptr, counts what is exchanged as traffic of `path`.
  LinkChannel(SocketLoop* loop, Timer* timer, Connect connect, Otherwise otherwise,
              Traffic::Path path = Traffic::kSharedMemory, Traffic* traffic = nullptr)
      : loop_(loop),
        timer_(timer),
        connect_(std::move(connect)),
        otherwise_(std::move(otherwise)),
        path_(path),
        traffic_(traffic) {}

  // Like RpcChannel::Call(). If the server does not read, the call waits until it does. Returns false if the server has
  // no link; then the call was not made, and `done` is unchanged.
  bool Call(const char* method, const grpc::ByteBuffer& request, const CallOptions& options, RpcChannel::Done& done);
  // The server has accepted a link.
  bool linked() const;
  // There will be no more calls. The link is closed after the last running one.
  void Abandon();
  // Ends the running calls with CANCELLED.
  void Close();

 private:
  struct Request {
    const char* method = nullptr;
    grpc::ByteBuffer bytes;  // shared
    CallOptions options;
    absl::Time deadline;
  };
  struct Pending {
    RpcChannel::Done done;
    Cancellation* cancellation = nullptr;
    std::optional<Cancellation::CallbackId> callback;
    std::optional<Timer::AlarmId> alarm;
    std::unique_ptr<Request> request;  // kept until the server has accepted the link and the call was sent
  };

  // The link, and the number of the next call over it; nullptr if there is none.
  std::pair<std::shared_ptr<Link>, uint64_t> NextCall();
  std::shared_ptr<Link> OpenLink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the call. If the link is full, adds it to those that wait. Other errors mean that it was not sent.
  absl::Status SendOrWait(Link& link, uint64_t call, const Request& request);
  // Sends the calls that wait, as far as the link has room.
  void SendWaiting();
  Link::Work Receive(const LinkMessage& message, LinkBody body);
  void Lost(const absl::Status& status);
  void GiveUp(uint64_t call, const absl::Status& why);
  std::optional<Pending> Take(uint64_t call);
  void StopWaiting(const Pending& pending);
  void End(Pending pending, const absl::Status& status, grpc::ByteBuffer body);

  SocketLoop* const loop_;
  Timer* const timer_;  // runs the deadlines
  const Connect connect_;
  const Otherwise otherwise_;
  const Traffic::Path path_;
  Traffic* const traffic_;
  mutable Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Link> link_ ABSL_GUARDED_BY(mutex_);
  absl::Time retry_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // when to try to link again
  uint64_t last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
  // Pending calls for which the link had no room. They keep their requests, which are the caller's tensors.
  std::deque<uint64_t> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
