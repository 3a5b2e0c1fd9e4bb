// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/grpc_worker.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/status.h"
#include "thalweg/rpc/message.h"
#include "thalweg/rpc/piece_table.h"
#include "thalweg/rpc/recv_buf.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using tensorflow::RunGraphRequest;

// Shared with the running calls, which may outlive the worker.
struct RemoteTask {
  std::string task;
  std::string address;
  std::shared_ptr<RpcChannel> channel;

  // Adds the name and address of the task to errors of the connection.
  absl::Status Explain(const absl::Status& status) const {
    // A server that shuts down cancels its running calls; gRPC then reports exactly this text.
    const bool ended = absl::IsCancelled(status) && status.message() == "CANCELLED";
    if (!absl::IsUnavailable(status) && !ended) return status;
    return Unavailable("Task ", task, " at ", address, " cannot be reached: ", status.message());
  }
};

constexpr char kPushMethod[] = "/thalweg.TransferService/Push";
constexpr char kPushPieceMethod[] = "/thalweg.TransferService/PushPiece";

constexpr int64_t kPieceBytes = 8 << 20;
// Tensors that are larger do not fit into a message with others, or not at all.
constexpr int64_t kWholeBytes = 1 << 30;

bool IsLarge(const Transfer& t, int64_t bytes) {
  const Tensor& tensor = t.value.tensor;
  return tensor.has_value() && tensor.dtype() != kBool && ElementSize(tensor.dtype()) > 0 &&
         tensor.TotalBytes() > bytes;
}

// Calls `done` with the first error when all calls have ended.
class AllCalls {
 public:
  AllCalls(int calls, Worker::Done done) : left_(calls), done_(std::move(done)) {}
  void Ended(const absl::Status& status) {
    absl::Status first;
    {
      MutexLock lock(&mutex_);
      status_.Update(status);
      if (--left_ > 0) return;
      first = status_;
    }
    done_(first);
  }

 private:
  Mutex mutex_;
  int left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Worker::Done done_;
};

class GrpcWorker : public Worker {
 public:
  GrpcWorker(std::string task, std::string address, std::shared_ptr<RpcChannel> channel)
      : remote_(
            std::make_shared<const RemoteTask>(RemoteTask{std::move(task), std::move(address), std::move(channel)})) {}

  void GetStatus(const CallOptions& options, tensorflow::GetStatusResponse* response, Done done) override {
    Call("/tensorflow.WorkerService/GetStatus", options, tensorflow::GetStatusRequest(), response, std::move(done));
  }
  void CreateWorkerSession(const CallOptions& options, const tensorflow::CreateWorkerSessionRequest& request,
                           Done done) override {
    Call("/tensorflow.WorkerService/CreateWorkerSession", options, request, nullptr, std::move(done));
  }
  void DeleteWorkerSession(const CallOptions& options, const tensorflow::DeleteWorkerSessionRequest& request,
                           Done done) override {
    Call("/tensorflow.WorkerService/DeleteWorkerSession", options, request, nullptr, std::move(done));
  }
  void RegisterGraph(const CallOptions& options, const tensorflow::RegisterGraphRequest& request,
                     tensorflow::RegisterGraphResponse* response, Done done) override {
    Call("/tensorflow.WorkerService/RegisterGraph", options, request, response, std::move(done));
  }
  void DeregisterGraph(const CallOptions& options, const tensorflow::DeregisterGraphRequest& request,
                       Done done) override {
    Call("/tensorflow.WorkerService/DeregisterGraph", options, request, nullptr, std::move(done));
  }
  void CleanupGraph(const CallOptions& options, int64_t step_id, Done done) override {
    tensorflow::CleanupGraphRequest request;
    request.set_step_id(step_id);
    Call("/tensorflow.WorkerService/CleanupGraph", options, request, nullptr, std::move(done));
  }
  void CleanupAll(const CallOptions& options, const tensorflow::CleanupAllRequest& request, Done done) override {
    Call("/tensorflow.WorkerService/CleanupAll", options, request, nullptr, std::move(done));
  }

  void RunGraph(const CallOptions& options, RunGraphCall call, RunGraphResult* result, Done done) override {
    MessageWriter writer;
    writer.Bytes(RunGraphRequest::kGraphHandleFieldNumber, call.graph_handle);
    writer.Varint(RunGraphRequest::kStepIdFieldNumber, static_cast<uint64_t>(call.step_id));
    for (const auto& [key, tensor] : call.send) writer.AddNamedTensor(RunGraphRequest::kSendFieldNumber, key, tensor);
    for (const std::string& key : call.recv_keys) writer.Bytes(RunGraphRequest::kRecvKeyFieldNumber, key);
    if (call.trace || call.record_costs || call.partition_graphs) {
      tensorflow::ExecutorOpts opts;
      opts.set_record_timeline(call.trace);
      opts.set_record_costs(call.record_costs);
      opts.set_record_partition_graphs(call.partition_graphs);
      writer.Message(RunGraphRequest::kExecOptsFieldNumber, opts);
    }
    writer.Varint(RunGraphRequest::kIsPartialFieldNumber, call.is_partial ? 1 : 0);
    writer.Varint(RunGraphRequest::kIsLastPartialRunFieldNumber, call.is_last_partial ? 1 : 0);
    writer.Bytes(RunGraphRequest::kSessionHandleFieldNumber, call.session_handle);
    writer.Varint(RunGraphRequest::kStoreErrorsInResponseBodyFieldNumber, 1);  // errors of a step may be long
    writer.Varint(RunGraphRequest::kCreateWorkerSessionCalledFieldNumber, call.has_session ? 1 : 0);
    writer.Varint(RunGraphRequest::kRequestIdFieldNumber, static_cast<uint64_t>(call.request_id));
    writer.Varint(RunGraphRequest::kCollectiveStepIdFieldNumber, static_cast<uint64_t>(call.collective_step_id));
    if (call.client != 0) {
      writer.Varint(RunGraphRequest::kClientFieldNumber, call.client);
      writer.Varint(RunGraphRequest::kSequenceFieldNumber, static_cast<uint64_t>(call.sequence));
    }
    writer.Varint(RunGraphRequest::kSentNanosFieldNumber, static_cast<uint64_t>(call.sent_nanos));
    writer.Varint(RunGraphRequest::kValidNanosFieldNumber, static_cast<uint64_t>(call.valid_nanos));
    if (call.pause != 0) writer.Varint(RunGraphRequest::kPauseFieldNumber, call.pause);
    const absl::StatusOr<grpc::ByteBuffer> request = writer.Finish();
    if (!request.ok()) return done(request.status());
    remote_->channel->Call("/tensorflow.WorkerService/RunGraph", *request, options,
                           [remote = remote_, call = std::move(call), result, done = std::move(done)](
                               const absl::Status& status, grpc::ByteBuffer& response) mutable {
                             done(status.ok() ? ReadRunGraph(call, response, result) : remote->Explain(status));
                           });
  }

  void RecvTensor(const CallOptions& options, const tensorflow::RecvTensorRequest& request, Rendezvous::Value* value,
                  Done done) override {
    remote_->channel->Call("/tensorflow.WorkerService/RecvTensor", SerializeMessage(request), options,
                           [remote = remote_, value, done = std::move(done)](const absl::Status& status,
                                                                             grpc::ByteBuffer& response) mutable {
                             done(status.ok() ? ParseRecvTensorResponse(response, value) : remote->Explain(status));
                           });
  }

  void RecvBuf(const CallOptions& options, const tensorflow::RecvBufRequest& request, Tensor* value,
               Done done) override {
    remote_->channel->Call("/tensorflow.WorkerService/RecvBuf", SerializeMessage(request), options,
                           [remote = remote_, value, done = std::move(done)](const absl::Status& status,
                                                                             grpc::ByteBuffer& response) mutable {
                             done(status.ok() ? ParseRecvBufResponse(response, value) : remote->Explain(status));
                           });
  }
  void CompleteGroup(const CallOptions& options, const tensorflow::CompleteGroupRequest& request,
                     tensorflow::CompleteGroupResponse* response, Done done) override {
    Call("/tensorflow.WorkerService/CompleteGroup", options, request, response, std::move(done));
  }
  void CompleteInstance(const CallOptions& options, const tensorflow::CompleteInstanceRequest& request,
                        tensorflow::CompleteInstanceResponse* response, Done done) override {
    Call("/tensorflow.WorkerService/CompleteInstance", options, request, response, std::move(done));
  }
  void GetStepSequence(const CallOptions& options, const tensorflow::GetStepSequenceRequest& request,
                       tensorflow::GetStepSequenceResponse* response, Done done) override {
    Call("/tensorflow.WorkerService/GetStepSequence", options, request, response, std::move(done));
  }
  void AbortCollective(const CallOptions& options, const tensorflow::AbortCollectiveRequest& request,
                       Done done) override {
    Call("/thalweg.TransferService/AbortCollective", options, request, nullptr, std::move(done));
  }

  void PauseUpdates(const CallOptions& options, const tensorflow::PauseUpdatesRequest& request, Done done) override {
    Call("/thalweg.TransferService/PauseUpdates", options, request, nullptr, std::move(done));
  }

  void Push(const CallOptions& options, int64_t step_id, std::vector<Transfer> tensors, Done done) override {
    // Over gRPC, large tensors are sent in pieces: copying one piece out of its buffers overlaps with the arrival
    // of the next. Over links, they are not copied. A tensor may also be larger than a message.
    const int64_t whole = remote_->channel->ReceivedInPlace() ? kWholeBytes : 2 * kPieceBytes;
    std::vector<std::pair<const char*, grpc::ByteBuffer>> calls;
    for (Transfer& t : tensors) {
      if (IsLarge(t, 2 * kPieceBytes) && !IsLarge(t, whole)) {
        std::vector<Transfer> alone;
        alone.push_back(t);
        absl::StatusOr<grpc::ByteBuffer> request = SerializePushRequest(step_id, alone);
        if (!request.ok()) return done(request.status());
        calls.emplace_back(kPushMethod, *std::move(request));
      }
      if (!IsLarge(t, whole)) continue;
      const int64_t size = t.value.tensor.TotalBytes();
      for (int64_t at = 0; at < size; at += kPieceBytes) {
        calls.emplace_back(kPushPieceMethod, SerializePiece(step_id, t, at, std::min(kPieceBytes, size - at)));
      }
    }
    std::erase_if(tensors, [](const Transfer& t) { return IsLarge(t, 2 * kPieceBytes); });
    if (!tensors.empty()) {
      absl::StatusOr<grpc::ByteBuffer> request = SerializePushRequest(step_id, tensors);
      if (!request.ok()) return done(request.status());
      calls.emplace_back(kPushMethod, *std::move(request));
    }
    const auto all = std::make_shared<AllCalls>(static_cast<int>(calls.size()), std::move(done));
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto& [method, request] = calls[i];
      const bool half_sent = i > 0 && method == kPushPieceMethod && calls[i - 1].first == kPushPieceMethod;
      const absl::Status fault = half_sent ? FailPoint("transfer.piece") : absl::OkStatus();
      if (!fault.ok()) {
        all->Ended(fault);
        continue;
      }
      remote_->channel->Call(method, request, options,
                             [remote = remote_, all](const absl::Status& status, grpc::ByteBuffer&) {
                               all->Ended(status.ok() ? status : remote->Explain(status));
                             });
    }
  }

 private:
  void Call(const char* method, const CallOptions& options, const google::protobuf::MessageLite& request,
            google::protobuf::MessageLite* response, Done done) {
    remote_->channel->Call(method, SerializeMessage(request), options,
                           [remote = remote_, response, done = std::move(done)](const absl::Status& status,
                                                                                grpc::ByteBuffer& bytes) mutable {
                             if (!status.ok()) return done(remote->Explain(status));
                             done(response == nullptr ? absl::OkStatus() : ParseMessage(bytes, response));
                           });
  }

  static absl::Status ReadRunGraph(const RunGraphCall& call, grpc::ByteBuffer& bytes, RunGraphResult* result) {
    tensorflow::RunGraphResponse response;
    RETURN_IF_ERROR(ParseMessage(bytes, &response));
    if (response.status_code() != 0) {
      return absl::Status(static_cast<absl::StatusCode>(response.status_code()), response.status_error_message());
    }
    int64_t allowance = kExpansionBytes;
    result->recv.resize(call.recv_keys.size());
    for (size_t i = 0; i < call.recv_keys.size(); ++i) {
      result->recv[i].first = call.recv_keys[i];
      // Usually the tensors come in the order of the request; otherwise search for the name.
      int at = static_cast<int>(i) < response.recv_size() && response.recv(i).name() == call.recv_keys[i]
                   ? static_cast<int>(i)
                   : 0;
      while (at < response.recv_size() && response.recv(at).name() != call.recv_keys[i]) ++at;
      if (at == response.recv_size()) return Internal("The answer of the task lacks ", call.recv_keys[i]);
      ASSIGN_OR_RETURN(result->recv[i].second, TensorFromProto(response.recv(at).tensor(), &allowance));
    }
    for (tensorflow::PushedTensor& pushed : *response.mutable_pushed()) {
      ASSIGN_OR_RETURN(Transfer transfer, FromPushedTensor(pushed, &allowance));
      result->pushed.push_back(std::move(transfer));
    }
    result->step_stats = std::move(*response.mutable_step_stats());
    result->cost_graph = std::move(*response.mutable_cost_graph());
    for (tensorflow::GraphDef& graph : *response.mutable_partition_graph()) {
      result->partition_graphs.push_back(std::move(graph));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const RemoteTask> remote_;
};

class GrpcWorkers : public Workers {
 public:
  void Add(const TaskId& task, Worker* worker) { by_task_[task.ToString()] = worker; }
  void Own(std::unique_ptr<Worker> worker) { owned_.push_back(std::move(worker)); }

  Worker* Find(absl::string_view task) override {
    const auto it = by_task_.find(task);
    return it == by_task_.end() ? nullptr : it->second;
  }
  std::vector<std::string> tasks() const override {
    std::vector<std::string> names;
    for (const auto& [name, worker] : by_task_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, Worker*, std::less<>> by_task_;  // constant after construction
  std::vector<std::unique_ptr<Worker>> owned_;
};

}  // namespace

std::unique_ptr<Worker> MakeGrpcWorker(std::string task, std::string address, std::shared_ptr<RpcChannel> channel) {
  return std::make_unique<GrpcWorker>(std::move(task), std::move(address), std::move(channel));
}

absl::StatusOr<std::shared_ptr<Workers>> MakeGrpcWorkers(const ClusterSpec& cluster, const TaskId& self,
                                                         Worker* self_worker, RpcClient* client) {
  auto workers = std::make_shared<GrpcWorkers>();
  for (const TaskId& task : cluster.tasks()) {
    if (task == self) continue;
    ASSIGN_OR_RETURN(const std::string address, cluster.Address(task));
    auto worker = MakeGrpcWorker(task.ToString(), address, client->Connect(address));
    workers->Add(task, worker.get());
    workers->Own(std::move(worker));
  }
  workers->Add(self, self_worker);
  return std::shared_ptr<Workers>(std::move(workers));
}

}  // namespace thalweg
