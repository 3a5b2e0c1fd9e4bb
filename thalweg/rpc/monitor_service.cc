// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/rpc/monitor_stub.h"
#include "thalweg/rpc/service_call.h"
#include "thalweg/rpc/services.h"

namespace thalweg {
namespace {

constexpr char kGetStatus[] = "/thalweg.MonitorService/GetStatus";

}  // namespace

RpcMethod MonitorMethod(std::function<JobStatus(const GetMonitorRequest&)> answer) {
  return {kGetStatus,
          Unary<GetMonitorRequest, JobStatus>(
              [answer = std::move(answer)](const auto& request, const CallOptions&, auto* response, auto done) {
                *response = answer(request);
                done(absl::OkStatus());
              })};
}

void CallGetStatus(RpcChannel& channel, const CallOptions& options, const GetMonitorRequest& request,
                   std::shared_ptr<JobStatus> response, Worker::Done done) {
  channel.Call(kGetStatus, SerializeMessage(request), options,
               [response = std::move(response), done = std::move(done)](const absl::Status& status,
                                                                        grpc::ByteBuffer& bytes) mutable {
                 done(status.ok() ? ParseMessage(bytes, response.get()) : status);
               });
}

}  // namespace thalweg
