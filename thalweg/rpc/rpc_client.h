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
};

// The threads on which calls come back. Thread-safe.
class RpcClient {
 public:
  // With `links`, calls to servers on this machine go over links if those have any.
  // `address` is the "host:port" of the server that makes the calls, "" for a
  // client's: injected faults may cut it off from others.
  explicit RpcClient(bool links = true, std::string address = "");
  ~RpcClient();  // cancels the calls under way and waits for their ends

  // The client must outlive it.
  std::shared_ptr<RpcChannel> Connect(const std::string& address);

  // What was exchanged with each address so far. Lives as long as the client.
  std::vector<const Traffic*> traffic() const;

 private:
  class State;
  class Channel;
  class PendingCall;
  const std::unique_ptr<State> state_;
};

}  // namespace thalweg
