// SPDX-License-Identifier: Apache-2.0
// Finds out whether a server offers links over TCP, and connects to it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/rpc/rpc_client.h"
#include "thalweg/transport/link.h"

namespace thalweg {

// The method with which a server tells the port and the token of its links (LinkOffer). Other servers answer
// UNIMPLEMENTED.
inline constexpr char kOpenLinkMethod[] = "/thalweg.TransferService/OpenLink";

// Asks over gRPC, then connects in the background. Calls are made over gRPC meanwhile. Thread-safe.
class TcpConnector : public std::enable_shared_from_this<TcpConnector> {
 public:
  // Calls kOpenLinkMethod of the server over gRPC.
  using Ask = std::function<void(RpcChannel::Done done)>;
  // `loop` must live until Close(). `address` is the "host:port" of the gRPC server.
  TcpConnector(SocketLoop* loop, std::string address, Ask ask)
      : loop_(loop), address_(std::move(address)), ask_(std::move(ask)) {}

  // A link, if a connection is ready. Otherwise UNAVAILABLE, and unless an attempt is running or has failed
  // recently, begins one. Does not block.
  absl::StatusOr<std::shared_ptr<Link>> Connect(Link::Handlers handlers);
  void Close();

 private:
  void Answered(const absl::Status& status, grpc::ByteBuffer& answer);
  void Dial(int port, const std::string& token);
  void Failed(const absl::Status& why);

  SocketLoop* const loop_;
  const std::string address_;
  const Ask ask_;
  std::atomic<bool> closed_{false};
  Mutex mutex_;
  bool connecting_ ABSL_GUARDED_BY(mutex_) = false;
  bool logged_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);                     // after the last failure
  absl::Time retry_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // when to try again
  FileHandle socket_ ABSL_GUARDED_BY(mutex_);                        // connected, not used yet
};

}  // namespace thalweg
