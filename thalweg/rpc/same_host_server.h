// SPDX-License-Identifier: Apache-2.0
// Serves the methods of a server to processes on the same machine over same-host links.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {

class SameHostServer {
 public:
  // The server listens when this returns. The sockets are named after `port` and `hosts` of
  // the gRPC server ("" for all addresses). UNAVAILABLE if another process uses a name.
  // `methods` is borrowed.
  static absl::StatusOr<std::unique_ptr<SameHostServer>> Start(int port, const std::vector<std::string>& hosts,
                                                               const std::vector<RpcMethod>& methods);
  ~SameHostServer();  // Shutdown()

  // Like RpcServer::Shutdown().
  void Shutdown();

 private:
  class State;
  class Connection;
  class Call;
  class Listener;
  explicit SameHostServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace thalweg
