// SPDX-License-Identifier: Apache-2.0
// A server of methods whose requests and responses are bytes. It serves gRPC clients, clients on
// the same machine over same-host links, and tasks on other machines over TCP links.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/monitor/traffic.h"

namespace thalweg {

// One running call. Call Reply() exactly once, from any thread; it destroys the object.
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  // Valid until the handler has returned or Reply() was called.
  virtual grpc::ByteBuffer& request() = 0;
  // Cancelled when the client cancels the call or disconnects. Valid until Reply().
  virtual Cancellation& cancellation() = 0;
  virtual void Reply(const absl::Status& status, const grpc::ByteBuffer& response) = 0;
  void Reply(const absl::StatusOr<grpc::ByteBuffer>& response);
};

// Keeps a call whose handler has thrown until the process ends: callbacks that the handler left
// behind may use it at any time.
void KeepUntilExit(std::shared_ptr<const ServerCall> call);

struct RpcMethod {
  std::string path;  // "/tensorflow.MasterService/RunStep"
  // Runs on the thread that received the call, and may block.
  std::function<void(ServerCall&)> handler;
  // Counts its answers.
  std::shared_ptr<CallCounts> counts = std::make_shared<CallCounts>();
};

struct RpcServerOptions {
  std::vector<std::string> hosts = {"0.0.0.0"};  // addresses to listen on
  int port = 0;                                  // 0: any free port; `hosts` must then have one element
  bool links = true;                             // also serve same-host links
  bool tcp_links = false;                        // also serve TCP links, and tell their port over gRPC
};

class RpcServer {
 public:
  // The server listens when this returns. UNKNOWN, naming the address, if it cannot.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcServerOptions& options,
                                                          std::vector<RpcMethod> methods);
  ~RpcServer();  // Shutdown()

  int port() const;
  // gRPC's health service (grpc.health.v1.Health) answers NOT_SERVING from now on, and tells those
  // that watch. Calls are still accepted.
  void StopAnnouncingHealth();
  // Stops accepting calls, cancels the running ones, and waits for their replies. The
  // handlers must still be able to reply.
  void Shutdown();

 private:
  class Service;
  class Call;
  class State;
  explicit RpcServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace thalweg
