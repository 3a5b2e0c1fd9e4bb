// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/grpc_job_peers.h"

#include <map>
#include <string>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/rpc/message.h"

namespace thalweg {
namespace {

void Call(RpcChannel& channel, const char* method, const CallOptions& options,
          const google::protobuf::MessageLite& request, google::protobuf::MessageLite* response, Worker::Done done) {
  channel.Call(method, SerializeMessage(request), options,
               [response, done = std::move(done)](const absl::Status& status, grpc::ByteBuffer& bytes) mutable {
                 if (!status.ok()) return done(status);
                 done(response == nullptr ? absl::OkStatus() : ParseMessage(bytes, response));
               });
}

class GrpcJobPeers : public JobPeers {
 public:
  GrpcJobPeers(ClusterSpec cluster, RpcClient* client) : cluster_(std::move(cluster)), client_(client) {}

  void TaskDone(const TaskId& to, const CallOptions& options, const TaskDoneRequest& request,
                Worker::Done done) override {
    const auto channel = Connect(to);
    if (!channel.ok()) return done(channel.status());
    Call(**channel, "/thalweg.JobService/TaskDone", options, request, nullptr, std::move(done));
  }
  void GetTask(const TaskId& to, const CallOptions& options, GetTaskResponse* response, Worker::Done done) override {
    const auto channel = Connect(to);
    if (!channel.ok()) return done(channel.status());
    Call(**channel, "/thalweg.JobService/GetTask", options, GetTaskRequest(), response, std::move(done));
  }

 private:
  absl::StatusOr<std::shared_ptr<RpcChannel>> Connect(const TaskId& task) {
    ASSIGN_OR_RETURN(const std::string address, cluster_.Address(task));
    MutexLock lock(&mutex_);
    std::shared_ptr<RpcChannel>& channel = channels_[task];
    if (channel == nullptr) channel = client_->Connect(address);
    return channel;
  }

  const ClusterSpec cluster_;
  RpcClient* const client_;
  Mutex mutex_;
  std::map<TaskId, std::shared_ptr<RpcChannel>> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<JobPeers> MakeGrpcJobPeers(ClusterSpec cluster, RpcClient* client) {
  return std::make_unique<GrpcJobPeers>(std::move(cluster), client);
}

void CallAnnounceDone(RpcChannel& master, const CallOptions& options, const AnnounceDoneRequest& request,
                      AnnounceDoneResponse* response, Worker::Done done) {
  Call(master, "/thalweg.JobService/AnnounceDone", options, request, response, std::move(done));
}

}  // namespace thalweg
