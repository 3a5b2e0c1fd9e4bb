// Calls to a server on this machine, over a link instead of a connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/rpc/rpc_client.h"
#include "thalweg/transport/local_link.h"

namespace thalweg {

// The port of a server at `address` that links can reach, because the address is
// one of this machine; 0 if it is not.
int LocalPort(const std::string& address);

// Thread-safe.
class LocalChannel : public std::enable_shared_from_this<LocalChannel> {
 public:
  // The loop must live until Close(), the timer longer.
  LocalChannel(SocketLoop* loop, Timer* timer, int port) : loop_(loop), timer_(timer), port_(port) {}

  // As RpcChannel::Call(). False if the server has no link: then nothing was
  // called, and `done` is as it was.
  bool Call(const char* method, const grpc::ByteBuffer& request, const CallOptions& options, RpcChannel::Done& done);
  // There will be no more calls: the link ends with the last of those under way.
  void Abandon();
  // Calls under way end with CANCELLED.
  void Close();

 private:
  struct Pending {
    RpcChannel::Done done;
    Cancellation* cancellation = nullptr;
    std::optional<Cancellation::CallbackId> callback;
    std::optional<Timer::AlarmId> alarm;
  };

  std::shared_ptr<LocalLink> Link();
  LocalLink::Work Receive(LinkMessage message);
  void Lost(const absl::Status& status);
  void GiveUp(uint64_t call, const absl::Status& why);
  std::optional<Pending> Take(uint64_t call);
  void End(Pending pending, const absl::Status& status, grpc::ByteBuffer body);

  SocketLoop* const loop_;
  Timer* const timer_;  // of deadlines
  const int port_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<LocalLink> link_ ABSL_GUARDED_BY(mutex_);
  absl::Time retry_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // when to try to link again
  uint64_t last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
