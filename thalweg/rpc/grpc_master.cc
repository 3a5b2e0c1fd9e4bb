// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/grpc_master.h"

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"
#include "thalweg/rpc/message.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using namespace tensorflow;  // NOLINT: all messages of this file are theirs

class GrpcMaster : public Master {
 public:
  explicit GrpcMaster(std::shared_ptr<RpcChannel> channel) : channel_(std::move(channel)) {}

  void CreateSession(const CallOptions& options, const CreateSessionRequest& request, CreateSessionResponse* response,
                     Done done) override {
    Call("/tensorflow.MasterService/CreateSession", options, request, response, std::move(done));
  }
  void ExtendSession(const CallOptions& options, const ExtendSessionRequest& request, ExtendSessionResponse* response,
                     Done done) override {
    Call("/tensorflow.MasterService/ExtendSession", options, request, response, std::move(done));
  }
  void PartialRunSetup(const CallOptions& options, const PartialRunSetupRequest& request,
                       PartialRunSetupResponse* response, Done done) override {
    Call("/tensorflow.MasterService/PartialRunSetup", options, request, response, std::move(done));
  }
  void CloseSession(const CallOptions& options, const CloseSessionRequest& request, Done done) override {
    Call("/tensorflow.MasterService/CloseSession", options, request, nullptr, std::move(done));
  }
  void ListDevices(const CallOptions& options, const ListDevicesRequest& request, ListDevicesResponse* response,
                   Done done) override {
    Call("/tensorflow.MasterService/ListDevices", options, request, response, std::move(done));
  }
  void Reset(const CallOptions& options, const ResetRequest& request, Done done) override {
    Call("/tensorflow.MasterService/Reset", options, request, nullptr, std::move(done));
  }
  void MakeCallable(const CallOptions& options, const MakeCallableRequest& request, MakeCallableResponse* response,
                    Done done) override {
    Call("/tensorflow.MasterService/MakeCallable", options, request, response, std::move(done));
  }
  void ReleaseCallable(const CallOptions& options, const ReleaseCallableRequest& request, Done done) override {
    Call("/tensorflow.MasterService/ReleaseCallable", options, request, nullptr, std::move(done));
  }

  void RunStep(const CallOptions& options, RunStepCall call, RunStepResult* result, Done done) override {
    MessageWriter writer;
    writer.Bytes(RunStepRequest::kSessionHandleFieldNumber, call.session_handle);
    for (const auto& [name, value] : call.feeds) writer.AddNamedTensor(RunStepRequest::kFeedFieldNumber, name, value);
    for (const std::string& name : call.fetches) writer.Bytes(RunStepRequest::kFetchFieldNumber, name);
    for (const std::string& name : call.targets) writer.Bytes(RunStepRequest::kTargetFieldNumber, name);
    if (call.options.ByteSizeLong() > 0) writer.Message(RunStepRequest::kOptionsFieldNumber, call.options);
    if (!call.partial_run_handle.empty())
      writer.Bytes(RunStepRequest::kPartialRunHandleFieldNumber, call.partial_run_handle);
    writer.Varint(RunStepRequest::kStoreErrorsInResponseBodyFieldNumber, 1);
    writer.Varint(RunStepRequest::kRequestIdFieldNumber, static_cast<uint64_t>(NewRequestId()));
    const absl::StatusOr<grpc::ByteBuffer> request = writer.Finish();
    if (!request.ok()) return done(request.status());
    channel_->Call("/tensorflow.MasterService/RunStep", *request, options,
                   [fetches = std::move(call.fetches), result, done = std::move(done)](
                       const absl::Status& status, grpc::ByteBuffer& bytes) mutable {
                     done(status.ok() ? ReadRunStep(fetches, bytes, result) : status);
                   });
  }

  void RunCallable(const CallOptions& options, RunCallableCall call, RunStepResult* result, Done done) override {
    MessageWriter writer;
    writer.Bytes(RunCallableRequest::kSessionHandleFieldNumber, call.session_handle);
    writer.Varint(RunCallableRequest::kHandleFieldNumber, static_cast<uint64_t>(call.handle));
    for (const Tensor& feed : call.feeds) writer.AddTensor(RunCallableRequest::kFeedFieldNumber, feed);
    writer.Varint(RunCallableRequest::kRequestIdFieldNumber, static_cast<uint64_t>(NewRequestId()));
    if (call.options.has_value()) writer.Message(RunCallableRequest::kThalwegOptionsFieldNumber, *call.options);
    const absl::StatusOr<grpc::ByteBuffer> request = writer.Finish();
    if (!request.ok()) return done(request.status());
    channel_->Call("/tensorflow.MasterService/RunCallable", *request, options,
                   [result, done = std::move(done)](const absl::Status& status, grpc::ByteBuffer& bytes) mutable {
                     done(status.ok() ? ReadRunCallable(bytes, result) : status);
                   });
  }

 private:
  void Call(const char* method, const CallOptions& options, const google::protobuf::MessageLite& request,
            google::protobuf::MessageLite* response, Done done) {
    channel_->Call(method, SerializeMessage(request), options,
                   [response, done = std::move(done)](const absl::Status& status, grpc::ByteBuffer& bytes) mutable {
                     if (!status.ok()) return done(status);
                     done(response == nullptr ? absl::OkStatus() : ParseMessage(bytes, response));
                   });
  }

  static absl::Status ReadRunStep(const std::vector<std::string>& fetches, grpc::ByteBuffer& bytes,
                                  RunStepResult* result) {
    RunStepResponse response;
    RETURN_IF_ERROR(ParseMessage(bytes, &response));
    result->metadata = std::move(*response.mutable_metadata());
    if (response.status_code() != 0) {
      result->step_failed = true;
      return absl::Status(static_cast<absl::StatusCode>(response.status_code()), response.status_error_message());
    }
    if (response.tensor_size() != static_cast<int>(fetches.size())) {
      return Internal("The master answered with ", response.tensor_size(), " tensors, expected ", fetches.size());
    }
    int64_t allowance = kExpansionBytes;
    for (NamedTensorProto& tensor : *response.mutable_tensor()) {
      ASSIGN_OR_RETURN(Tensor value, TensorFromProto(std::move(*tensor.mutable_tensor()), &allowance));
      result->fetches.push_back(std::move(value));
    }
    // TensorFlow's masters return the fetches in an arbitrary order.
    for (size_t i = 0; i < fetches.size(); ++i) {
      for (size_t k = i; k < fetches.size(); ++k) {
        if (response.tensor(static_cast<int>(k)).name() != fetches[i]) continue;
        if (k != i) {
          std::swap(result->fetches[i], result->fetches[k]);
          response.mutable_tensor()->SwapElements(static_cast<int>(i), static_cast<int>(k));
        }
        break;
      }
      if (response.tensor(static_cast<int>(i)).name() != fetches[i]) {
        return Internal("The master's answer lacks ", fetches[i]);
      }
    }
    return absl::OkStatus();
  }

  static absl::Status ReadRunCallable(grpc::ByteBuffer& bytes, RunStepResult* result) {
    RunCallableResponse response;
    RETURN_IF_ERROR(ParseMessage(bytes, &response));
    result->metadata = std::move(*response.mutable_metadata());
    if (response.thalweg_status_code() != 0) {
      result->step_failed = true;
      return absl::Status(static_cast<absl::StatusCode>(response.thalweg_status_code()),
                          response.thalweg_status_error_message());
    }
    int64_t allowance = kExpansionBytes;
    for (TensorProto& tensor : *response.mutable_fetch()) {
      ASSIGN_OR_RETURN(Tensor value, TensorFromProto(std::move(tensor), &allowance));
      result->fetches.push_back(std::move(value));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<RpcChannel> channel_;
};

}  // namespace

std::unique_ptr<Master> MakeGrpcMaster(std::shared_ptr<RpcChannel> channel) {
  return std::make_unique<GrpcMaster>(std::move(channel));
}

}  // namespace thalweg
