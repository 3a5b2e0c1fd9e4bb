// SPDX-License-Identifier: Apache-2.0
// Calls to other processes.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "thalweg/cluster/worker/worker.h"

namespace thalweg {

class Traffic;

// A connection to one address, made when it is first used and again when it was
// lost. Thread-safe.
class RpcChannel {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&, grpc::ByteBuffer&)>;
  virtual ~RpcChannel() = default;
  // `method` is a path of static storage duration. `done` runs on a thread of
  // the client, or on this one if the call cannot be made.
  virtual void Call(const char* method, const grpc::ByteBuffer& request, const CallOptions& options, Done done) = 0;
  // True if large messages are received in place now, so that it does not help to send them in pieces.
  virtual bool ReceivedInPlace() const { return false; }
};

struct RpcClientOptions {
  bool local_links = true;  // call servers on this machine over same-host links, if they have any
  bool tcp_links = false;   // call other servers over TCP links, if they have any
  // The "host:port" of the server that makes the calls, "" for a client's: injected faults may
  // cut it off from others.
  std::string address;
};

// The threads on which calls come back. Thread-safe.
class RpcClient {
 public:
  explicit RpcClient(RpcClientOptions options = {});
  ~RpcClient();  // cancels the calls under way and waits for their ends

  // The client must outlive it.
  std::shared_ptr<RpcChannel> Connect(const std::string& address);

  // Bytes exchanged with each address so far. Lives as long as the client.
  std::vector<const Traffic*> traffic() const;

 private:
  class State;
  class Channel;
  class PendingCall;
  const std::unique_ptr<State> state_;
};

}  // namespace thalweg
