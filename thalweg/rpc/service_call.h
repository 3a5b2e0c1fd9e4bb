// SPDX-License-Identifier: Apache-2.0
// Adapts a function from one message to another to a method of a server.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/rpc/message.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {

// `serve(const Request&, const CallOptions&, Response*, done)`.
template <typename Request, typename Response, typename Serve>
std::function<void(ServerCall&)> Unary(Serve serve) {
  return [serve](ServerCall& call) {
    struct State {
      Request request;
      Response response;
    };
    auto state = std::make_unique<State>();
    if (const absl::Status status = ParseMessage(call.request(), &state->request); !status.ok()) {
      return call.Reply(status, {});
    }
    State& s = *state;
    serve(s.request, CallOptions{.cancellation = &call.cancellation()}, &s.response,
          [&call, state = std::move(state)](const absl::Status& status) {
            call.Reply(status, status.ok() ? SerializeMessage(state->response) : grpc::ByteBuffer());
          });
  };
}

}  // namespace thalweg
