// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/rpc/call_deduplicator.h"
#include "thalweg/rpc/message.h"
#include "thalweg/rpc/service_call.h"
#include "thalweg/rpc/services.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using namespace tensorflow;  // NOLINT: all messages of this file are theirs

absl::Status ReadCall(RunStepRequest& request, RunStepCall* call) {
  call->session_handle = std::move(*request.mutable_session_handle());
  call->feeds.reserve(request.feed_size());
  int64_t allowance = kExpansionBytes;
  for (NamedTensorProto& feed : *request.mutable_feed()) {
    absl::StatusOr<Tensor> value = TensorFromProto(std::move(*feed.mutable_tensor()), &allowance);
    if (!value.ok()) return Prepend(value.status(), absl::StrCat("Feed '", feed.name(), "': "));
    call->feeds.emplace_back(std::move(*feed.mutable_name()), *std::move(value));
  }
  call->fetches = {request.fetch().begin(), request.fetch().end()};
  call->targets = {request.target().begin(), request.target().end()};
  call->options = std::move(*request.mutable_options());
  call->partial_run_handle = std::move(*request.mutable_partial_run_handle());
  return absl::OkStatus();
}

// The answer of a step that ended with `status`.
absl::StatusOr<grpc::ByteBuffer> WriteRunStep(const absl::Status& status, const std::vector<std::string>& fetches,
                                              const RunStepResult& result) {
  MessageWriter writer;
  for (size_t i = 0; i < fetches.size() && status.ok(); ++i) {
    RETURN_IF_ERROR(CheckEncodable(result.fetches[i]));
    writer.AddNamedTensor(RunStepResponse::kTensorFieldNumber, fetches[i], result.fetches[i]);
  }
  writer.Message(RunStepResponse::kMetadataFieldNumber, result.metadata);
  writer.Varint(RunStepResponse::kStatusCodeFieldNumber, static_cast<uint64_t>(status.code()));
  if (!status.ok()) writer.Bytes(RunStepResponse::kStatusErrorMessageFieldNumber, status.message());
  return writer.Finish();
}

// Serves a call that is not a repetition.
void ServeNewRunStep(Master& master, CallDeduplicator& recent, ServerCall& call, RunStepRequest taken) {
  struct State {
    RunStepResult result;
    std::vector<std::string> fetches;
    bool errors_in_body = false;
    int64_t request_id = 0;
  };
  auto state = std::make_unique<State>();
  RunStepCall step;
  {
    RunStepRequest request = std::move(taken);
    state->errors_in_body = request.store_errors_in_response_body();
    state->request_id = request.request_id();
    // Decode the feeds only if the session exists.
    absl::Status status = master.CheckSession(request.session_handle());
    if (status.ok()) status = ReadCall(request, &step);
    if (!status.ok()) return recent.Reply(state->request_id, call, status, {});
  }
  state->fetches = step.fetches;
  RunStepResult* result = &state->result;
  master.RunStep({.cancellation = &call.cancellation()}, std::move(step), result,
                 [&call, &recent, state = std::move(state)](const absl::Status& status) {
                   const bool has_body = status.ok() || (state->errors_in_body && state->result.step_failed);
                   const absl::StatusOr<grpc::ByteBuffer> answer =
                       has_body ? WriteRunStep(status, state->fetches, state->result)
                                : absl::StatusOr<grpc::ByteBuffer>(status);
                   recent.Reply(state->request_id, call, answer.status(), answer.ok() ? *answer : grpc::ByteBuffer());
                 });
}

void ServeRunStep(Master& master, CallDeduplicator& recent, ServerCall& call) {
  RunStepRequest request;
  if (const absl::Status status = ParseMessage(call.request(), &request); !status.ok()) return call.Reply(status, {});
  const int64_t id = request.request_id();
  if (!recent.Begin(id, call)) return;
  recent.Serve(id, [&] { ServeNewRunStep(master, recent, call, std::move(request)); });
}

// The answer of a step of a callable that ended with `status`.
absl::StatusOr<grpc::ByteBuffer> WriteRunCallable(const absl::Status& status, const RunStepResult& result) {
  MessageWriter writer;
  for (size_t i = 0; i < result.fetches.size() && status.ok(); ++i) {
    RETURN_IF_ERROR(CheckEncodable(result.fetches[i]));
    writer.AddTensor(RunCallableResponse::kFetchFieldNumber, result.fetches[i]);
  }
  writer.Message(RunCallableResponse::kMetadataFieldNumber, result.metadata);
  if (!status.ok()) {
    writer.Varint(RunCallableResponse::kThalwegStatusCodeFieldNumber, static_cast<uint64_t>(status.code()));
    writer.Bytes(RunCallableResponse::kThalwegStatusErrorMessageFieldNumber, status.message());
  }
  return writer.Finish();
}

void ServeNewRunCallable(Master& master, CallDeduplicator& recent, ServerCall& call, RunCallableRequest taken) {
  struct State {
    RunStepResult result;
    bool errors_in_body = false;
    int64_t request_id = 0;
  };
  auto state = std::make_unique<State>();
  RunCallableCall step;
  {
    RunCallableRequest request = std::move(taken);
    state->request_id = request.request_id();
    absl::Status status = master.CheckSession(request.session_handle());
    step.session_handle = std::move(*request.mutable_session_handle());
    step.handle = request.handle();
    if (request.has_thalweg_options()) {
      state->errors_in_body = true;
      step.options = std::move(*request.mutable_thalweg_options());
    }
    int64_t allowance = kExpansionBytes;
    for (int i = 0; i < request.feed_size() && status.ok(); ++i) {
      absl::StatusOr<Tensor> value = TensorFromProto(std::move(*request.mutable_feed(i)), &allowance);
      status = value.status();
      if (status.ok()) step.feeds.push_back(*std::move(value));
    }
    if (!status.ok()) return recent.Reply(state->request_id, call, status, {});
  }
  RunStepResult* result = &state->result;
  master.RunCallable(
      {.cancellation = &call.cancellation()}, std::move(step), result,
      [&call, &recent, state = std::move(state)](const absl::Status& status) {
        const bool has_body = status.ok() || (state->errors_in_body && state->result.step_failed);
        const absl::StatusOr<grpc::ByteBuffer> answer =
            has_body ? WriteRunCallable(status, state->result) : absl::StatusOr<grpc::ByteBuffer>(status);
        recent.Reply(state->request_id, call, answer.status(), answer.ok() ? *answer : grpc::ByteBuffer());
      });
}

void ServeRunCallable(Master& master, CallDeduplicator& recent, ServerCall& call) {
  RunCallableRequest request;
  if (const absl::Status status = ParseMessage(call.request(), &request); !status.ok()) return call.Reply(status, {});
  const int64_t id = request.request_id();
  if (!recent.Begin(id, call)) return;
  recent.Serve(id, [&] { ServeNewRunCallable(master, recent, call, std::move(request)); });
}

}  // namespace

std::vector<RpcMethod> MasterService(Master& master) {
  Master* m = &master;
  const auto recent = std::make_shared<CallDeduplicator>();
  const auto path = [](const char* name) { return absl::StrCat("/tensorflow.MasterService/", name); };
  return {
      {path("CreateSession"), Unary<CreateSessionRequest, CreateSessionResponse>(
                                  [m](const auto& request, const CallOptions& options, auto* response, auto done) {
                                    m->CreateSession(options, request, response, std::move(done));
                                  })},
      {path("ExtendSession"), Unary<ExtendSessionRequest, ExtendSessionResponse>(
                                  [m](const auto& request, const CallOptions& options, auto* response, auto done) {
                                    m->ExtendSession(options, request, response, std::move(done));
                                  })},
      {path("RunStep"), [m, recent](ServerCall& call) { ServeRunStep(*m, *recent, call); }},
      {path("PartialRunSetup"), Unary<PartialRunSetupRequest, PartialRunSetupResponse>(
                                    [m](const auto& request, const CallOptions& options, auto* response, auto done) {
                                      m->PartialRunSetup(options, request, response, std::move(done));
                                    })},
      {path("CloseSession"), Unary<CloseSessionRequest, CloseSessionResponse>(
                                 [m](const auto& request, const CallOptions& options, auto*, auto done) {
                                   m->CloseSession(options, request, std::move(done));
                                 })},
      {path("ListDevices"), Unary<ListDevicesRequest, ListDevicesResponse>(
                                [m](const auto& request, const CallOptions& options, auto* response, auto done) {
                                  m->ListDevices(options, request, response, std::move(done));
                                })},
      {path("Reset"),
       Unary<ResetRequest, ResetResponse>([m](const auto& request, const CallOptions& options, auto*, auto done) {
         m->Reset(options, request, std::move(done));
       })},
      {path("MakeCallable"), Unary<MakeCallableRequest, MakeCallableResponse>(
                                 [m](const auto& request, const CallOptions& options, auto* response, auto done) {
                                   m->MakeCallable(options, request, response, std::move(done));
                                 })},
      {path("RunCallable"), [m, recent](ServerCall& call) { ServeRunCallable(*m, *recent, call); }},
      {path("ReleaseCallable"), Unary<ReleaseCallableRequest, ReleaseCallableResponse>(
                                    [m](const auto& request, const CallOptions& options, auto*, auto done) {
                                      m->ReleaseCallable(options, request, std::move(done));
                                    })},
  };
}

}  // namespace thalweg
