// The methods of a server for the processes of this machine.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {

class SameHostServer {
 public:
  // Listens when it returns. `port` is the one that gRPC has, at these addresses
  // ("" for all), which name it. UNAVAILABLE if another process has a name.
  // `methods` is borrowed.
  static absl::StatusOr<std::unique_ptr<SameHostServer>> Start(int port, const std::vector<std::string>& hosts,
                                                               const std::vector<RpcMethod>& methods);
  ~SameHostServer();  // Shutdown()

  // As RpcServer::Shutdown().
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
