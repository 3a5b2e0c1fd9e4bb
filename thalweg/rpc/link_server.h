// SPDX-License-Identifier: Apache-2.0
// Serves the methods of a server over links.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/rpc/rpc_server.h"
#include "thalweg/transport/link.h"

namespace thalweg {

class LinkServer {
 public:
  // The server accepts links from `listeners` when this returns. `methods` is borrowed.
  static absl::StatusOr<std::unique_ptr<LinkServer>> Start(std::vector<std::unique_ptr<LinkListener>> listeners,
                                                           const std::vector<RpcMethod>& methods);
  ~LinkServer();  // Shutdown()

  // Like RpcServer::Shutdown().
  void Shutdown();

 private:
  class State;
  class Connection;
  class Call;
  class Listener;
  explicit LinkServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace thalweg
