// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/rpc/call_deduplicator.h"
#include "thalweg/rpc/message.h"
#include "thalweg/rpc/piece_table.h"
#include "thalweg/rpc/recv_buf.h"
#include "thalweg/rpc/service_call.h"
#include "thalweg/rpc/services.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using namespace tensorflow;  // NOLINT: all messages of this file are theirs

absl::Status ReadCall(RunGraphRequest& request, RunGraphCall* call) {
  call->session_handle = std::move(*request.mutable_session_handle());
  call->has_session = request.create_worker_session_called();
  call->graph_handle = std::move(*request.mutable_graph_handle());
  call->step_id = request.step_id();
  call->collective_step_id = request.collective_step_id();
  call->request_id = request.request_id();
  call->send.reserve(request.send_size());
  int64_t allowance = kExpansionBytes;
  for (NamedTensorProto& send : *request.mutable_send()) {
    ASSIGN_OR_RETURN(Tensor value, TensorFromProto(std::move(*send.mutable_tensor()), &allowance));
    call->send.emplace_back(std::move(*send.mutable_name()), std::move(value));
  }
  call->recv_keys = {request.recv_key().begin(), request.recv_key().end()};
  call->client = request.client();
  call->sequence = request.sequence();
  call->sent_nanos = request.sent_nanos();
  call->valid_nanos = request.valid_nanos();
  call->pause = request.pause();
  call->is_partial = request.is_partial();
  call->is_last_partial = request.is_last_partial_run();
  call->trace = request.exec_opts().record_timeline();
  call->record_costs = request.exec_opts().record_costs();
  call->partition_graphs = request.exec_opts().record_partition_graphs();
  return absl::OkStatus();
}

void ServeRunGraph(Worker& worker, ServerCall& call) {
  struct State {
    RunGraphResult result;
    bool errors_in_body = false;
  };
  auto state = std::make_unique<State>();
  RunGraphCall graph_call;
  {
    RunGraphRequest request;
    absl::Status status = ParseMessage(call.request(), &request);
    // Decode the tensors only if the session exists.
    if (status.ok()) {
      status = worker.CheckSession(request.session_handle(), request.create_worker_session_called());
    }
    if (status.ok()) status = ReadCall(request, &graph_call);
    if (!status.ok()) return call.Reply(status, {});
    state->errors_in_body = request.store_errors_in_response_body();
  }
  RunGraphResult* result = &state->result;
  worker.RunGraph({.cancellation = &call.cancellation()}, std::move(graph_call), result,
                  [&call, state = std::move(state)](const absl::Status& status) {
                    // Errors in the body may be long; those of gRPC are truncated.
                    if (!status.ok() && !state->errors_in_body) return call.Reply(status, {});
                    const RunGraphResult& r = state->result;
                    MessageWriter writer;
                    if (status.ok()) {
                      for (const auto& [key, tensor] : r.recv)
                        writer.AddNamedTensor(RunGraphResponse::kRecvFieldNumber, key, tensor);
                    }
                    if (r.step_stats.dev_stats_size() > 0)
                      writer.Message(RunGraphResponse::kStepStatsFieldNumber, r.step_stats);
                    if (r.cost_graph.node_size() > 0)
                      writer.Message(RunGraphResponse::kCostGraphFieldNumber, r.cost_graph);
                    for (const GraphDef& graph : r.partition_graphs)
                      writer.Message(RunGraphResponse::kPartitionGraphFieldNumber, graph);
                    writer.Varint(RunGraphResponse::kStatusCodeFieldNumber, static_cast<uint64_t>(status.code()));
                    if (!status.ok()) writer.Bytes(RunGraphResponse::kStatusErrorMessageFieldNumber, status.message());
                    if (status.ok()) {
                      for (const Transfer& t : r.pushed)
                        writer.Message(RunGraphResponse::kPushedFieldNumber, ToPushedTensor(t));
                    }
                    call.Reply(writer.Finish());
                  });
}

void ServeRecvTensor(Worker& worker, ServerCall& call) {
  struct State {
    RecvTensorRequest request;
    Rendezvous::Value value;
  };
  auto state = std::make_unique<State>();
  if (const absl::Status status = ParseMessage(call.request(), &state->request); !status.ok()) {
    return call.Reply(status, {});
  }
  State& s = *state;
  worker.RecvTensor({.cancellation = &call.cancellation()}, s.request, &s.value,
                    [&call, state = std::move(state)](const absl::Status& status) {
                      if (!status.ok()) return call.Reply(status, {});
                      call.Reply(SerializeRecvTensorResponse(state->value));
                    });
}

// A call that arrives twice gets the answer of the first. Answers are not kept: the memory of a buffer is reused.
void ServeRecvBuf(Worker& worker, CallDeduplicator& running, ServerCall& call) {
  struct State {
    RecvBufRequest request;
    Tensor value;
  };
  auto state = std::make_unique<State>();
  if (const absl::Status status = ParseMessage(call.request(), &state->request); !status.ok()) {
    return call.Reply(status, {});
  }
  State& s = *state;
  const int64_t id = s.request.request_id();
  if (!running.Begin(id, call)) return;
  running.Serve(id, [&] {
    worker.RecvBuf({.cancellation = &call.cancellation()}, s.request, &s.value,
                   [&call, &running, id, state = std::move(state)](const absl::Status& status) {
                     if (!status.ok()) return running.Reply(id, call, status, {});
                     absl::StatusOr<grpc::ByteBuffer> answer = SerializeRecvBufResponse(state->value);
                     running.Reply(id, call, answer.status(), answer.ok() ? *answer : grpc::ByteBuffer());
                   });
  });
}

void ServePush(Worker& worker, ServerCall& call) {
  absl::StatusOr<Push> push = ParsePushRequest(call.request());
  if (!push.ok()) return call.Reply(push.status(), {});
  int64_t bytes = 0;
  for (const Transfer& t : push->tensors) bytes += t.value.tensor.has_value() ? t.value.tensor.TotalBytes() : 0;
  const absl::Status admitted = worker.AdmitPush(push->step_id, bytes);
  // Acknowledge before delivery: the tensors may start a long computation on this thread.
  call.Reply(admitted, {});
  if (!admitted.ok()) return;
  worker.Push({}, push->step_id, std::move(push->tensors), [](const absl::Status&) {});
}

void ServePushPiece(Worker& worker, PieceTable& pieces, ServerCall& call) {
  absl::StatusOr<std::optional<Push>> push = pieces.Add(call.request());
  absl::Status status = push.status();
  if (status.ok() && push->has_value()) {
    status = worker.AdmitPush((*push)->step_id, (*push)->tensors[0].value.tensor.TotalBytes());
  }
  call.Reply(status, {});
  if (!status.ok() || !push->has_value()) return;
  worker.Push({}, (*push)->step_id, std::move((*push)->tensors), [](const absl::Status&) {});
}

// Methods of TensorFlow's protocol for which this worker has nothing to do.
template <typename Request, typename Response>
std::function<void(ServerCall&)> Nothing() {
  return Unary<Request, Response>([](const auto&, const CallOptions&, auto*, auto done) { done(absl::OkStatus()); });
}

}  // namespace

std::vector<RpcMethod> WorkerService(Worker& worker) {
  Worker* w = &worker;
  const auto pieces = std::make_shared<PieceTable>();
  const auto buffers = std::make_shared<CallDeduplicator>(/*max_answers=*/0);
  const auto path = [](const char* name) { return absl::StrCat("/tensorflow.WorkerService/", name); };
  return {
      {path("GetStatus"), Unary<GetStatusRequest, GetStatusResponse>(
                              [w](const auto&, const CallOptions& options, auto* response, auto done) {
                                w->GetStatus(options, response, std::move(done));
                              })},
      {path("CreateWorkerSession"), Unary<CreateWorkerSessionRequest, CreateWorkerSessionResponse>(
                                        [w](const auto& request, const CallOptions& options, auto*, auto done) {
                                          w->CreateWorkerSession(options, request, std::move(done));
                                        })},
      {path("DeleteWorkerSession"), Unary<DeleteWorkerSessionRequest, DeleteWorkerSessionResponse>(
                                        [w](const auto& request, const CallOptions& options, auto*, auto done) {
                                          w->DeleteWorkerSession(options, request, std::move(done));
                                        })},
      {path("RegisterGraph"), Unary<RegisterGraphRequest, RegisterGraphResponse>(
                                  [w](const auto& request, const CallOptions& options, auto* response, auto done) {
                                    w->RegisterGraph(options, request, response, std::move(done));
                                  })},
      {path("DeregisterGraph"), Unary<DeregisterGraphRequest, DeregisterGraphResponse>(
                                    [w](const auto& request, const CallOptions& options, auto*, auto done) {
                                      w->DeregisterGraph(options, request, std::move(done));
                                    })},
      {path("RunGraph"), [w](ServerCall& call) { ServeRunGraph(*w, call); }},
      {path("CleanupGraph"), Unary<CleanupGraphRequest, CleanupGraphResponse>(
                                 [w, pieces](const auto& request, const CallOptions& options, auto*, auto done) {
                                   pieces->Remove(request.step_id());
                                   w->CleanupGraph(options, request.step_id(), std::move(done));
                                 })},
      {path("CleanupAll"), Unary<CleanupAllRequest, CleanupAllResponse>(
                               [w](const auto& request, const CallOptions& options, auto*, auto done) {
                                 w->CleanupAll(options, request, std::move(done));
                               })},
      {path("RecvTensor"), [w](ServerCall& call) { ServeRecvTensor(*w, call); }},
      {"/thalweg.TransferService/Push", [w](ServerCall& call) { ServePush(*w, call); }},
      {"/thalweg.TransferService/PushPiece", [w, pieces](ServerCall& call) { ServePushPiece(*w, *pieces, call); }},
      {path("RecvBuf"), [w, buffers](ServerCall& call) { ServeRecvBuf(*w, *buffers, call); }},
      {path("CompleteGroup"), Unary<CompleteGroupRequest, CompleteGroupResponse>(
                                  [w](const auto& request, const CallOptions& options, auto* response, auto done) {
                                    w->CompleteGroup(options, request, response, std::move(done));
                                  })},
      {path("CompleteInstance"), Unary<CompleteInstanceRequest, CompleteInstanceResponse>(
                                     [w](const auto& request, const CallOptions& options, auto* response, auto done) {
                                       w->CompleteInstance(options, request, response, std::move(done));
                                     })},
      {path("GetStepSequence"), Unary<GetStepSequenceRequest, GetStepSequenceResponse>(
                                    [w](const auto& request, const CallOptions& options, auto* response, auto done) {
                                      w->GetStepSequence(options, request, response, std::move(done));
                                    })},
      {"/thalweg.TransferService/AbortCollective",
       Unary<AbortCollectiveRequest, AbortCollectiveResponse>(
           [w](const auto& request, const CallOptions& options, auto*, auto done) {
             w->AbortCollective(options, request, std::move(done));
           })},
      {"/thalweg.TransferService/PauseUpdates",
       Unary<PauseUpdatesRequest, PauseUpdatesResponse>(
           [w](const auto& request, const CallOptions& options, auto*, auto done) {
             w->PauseUpdates(options, request, std::move(done));
           })},
      {path("MarkRecvFinished"), Nothing<MarkRecvFinishedRequest, MarkRecvFinishedResponse>()},
      {path("Logging"), Nothing<LoggingRequest, LoggingResponse>()},
      {path("Tracing"), Nothing<TracingRequest, TracingResponse>()},
  };
}

}  // namespace thalweg
