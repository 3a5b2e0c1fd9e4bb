// Calls to a server on this machine, over a link instead of a connection.
#pragma once

#include <cstdint>
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
#include "thalweg/rpc/rpc_client.h"
#include "thalweg/transport/same_host_link.h"

namespace thalweg {

// The server of a port of this machine, as links know it.
struct LinkTarget {
  int port = 0;
  std::vector<std::string> hosts;  // addresses at which it may listen; "" for all of them
};
// nullopt if the address is not one of this machine.
std::optional<LinkTarget> FindLinkTarget(const std::string& address);

// Thread-safe.
class SameHostChannel : public std::enable_shared_from_this<SameHostChannel> {
 public:
  // Makes a call without a link.
  using Otherwise = std::function<void(const char* method, const grpc::ByteBuffer& request, const CallOptions& options,
                                       RpcChannel::Done done)>;
  // The loop must live until Close(), the timer longer. Calls over a link that the
  // server does not take, as when it has no more file descriptors, go on `otherwise`.
  SameHostChannel(SocketLoop* loop, Timer* timer, LinkTarget target, Otherwise otherwise)
      : loop_(loop), timer_(timer), target_(std::move(target)), otherwise_(std::move(otherwise)) {}

  // As RpcChannel::Call(). False if the server has no link: then nothing was
  // called, and `done` is as it was.
  bool Call(const char* method, const grpc::ByteBuffer& request, const CallOptions& options, RpcChannel::Done& done);
  // There will be no more calls: the link ends with the last of those under way.
  void Abandon();
  // Calls under way end with CANCELLED.
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
    std::unique_ptr<Request> request;  // if the server had not greeted when it was sent
  };

  // The link, and the number of the next call over it; nullptr if there is none.
  std::pair<std::shared_ptr<SameHostLink>, uint64_t> NextCall();
  std::shared_ptr<SameHostLink> Link() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SameHostLink::Work Receive(const LinkMessage& message, HeldBytes body);
  void Lost(const absl::Status& status);
  void GiveUp(uint64_t call, const absl::Status& why);
  std::optional<Pending> Take(uint64_t call);
  void StopWaiting(const Pending& pending);
  void End(Pending pending, const absl::Status& status, grpc::ByteBuffer body);

  SocketLoop* const loop_;
  Timer* const timer_;  // of deadlines
  const LinkTarget target_;
  const Otherwise otherwise_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<SameHostLink> link_ ABSL_GUARDED_BY(mutex_);
  absl::Time retry_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // when to try to link again
  uint64_t last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
