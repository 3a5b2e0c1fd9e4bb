// A server of methods that take and give bytes: over gRPC, and over links for
// clients on the same machine.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"

namespace thalweg {

// One call under way. Reply() exactly once, from any thread; it is gone then.
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  virtual grpc::ByteBuffer& request() = 0;
  // Cancelled when the client gives up or goes away. Valid until Reply().
  virtual Cancellation& cancellation() = 0;
  virtual void Reply(const absl::Status& status, const grpc::ByteBuffer& response) = 0;
  void Reply(const absl::StatusOr<grpc::ByteBuffer>& response);
};

struct RpcMethod {
  std::string path;  // "/tensorflow.MasterService/RunStep"
  // Runs on the thread that received the call, and may stay there.
  std::function<void(ServerCall&)> handler;
};

struct RpcServerOptions {
  std::vector<std::string> hosts = {"0.0.0.0"};  // where it listens
  int port = 0;                                  // 0: one that is free; then there must be one host
  bool links = true;                             // serves processes of this machine over links, too
};

class RpcServer {
 public:
  // Listens when it returns. UNKNOWN, naming the address, if it cannot be had.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcServerOptions& options,
                                                          std::vector<RpcMethod> methods);
  ~RpcServer();  // Shutdown()

  int port() const;
  // Takes no calls any more, cancels those under way, and waits for their
  // replies. The handlers must be able to give them.
  void Shutdown();

 private:
  class Service;
  class Call;
  class State;
  explicit RpcServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace thalweg
