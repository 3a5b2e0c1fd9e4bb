// SPDX-License-Identifier: Apache-2.0
// Fake workers for tests of code that calls workers. The test decides their answers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/worker/worker.h"

namespace thalweg {

// Answers every call immediately with success and an empty response, unless the test has
// set a function for it. Set the functions before the calls.
class FakeWorker : public Worker {
 public:
  std::function<void(const CallOptions&, tensorflow::GetStatusResponse*, Done)> get_status;
  std::function<void(const CallOptions&, const tensorflow::CreateWorkerSessionRequest&, Done)> create_session;
  std::function<void(const CallOptions&, const tensorflow::RegisterGraphRequest&, tensorflow::RegisterGraphResponse*,
                     Done)>
      register_graph;
  std::function<void(const CallOptions&, RunGraphCall, RunGraphResult*, Done)> run_graph;
  std::function<void(int64_t step_id)> cleanup_graph;
  std::function<void(const CallOptions&, const tensorflow::RecvTensorRequest&, Rendezvous::Value*, Done)> recv_tensor;
  std::function<void(int64_t step_id, std::vector<Transfer>, Done)> push;
  std::function<void(const tensorflow::PauseUpdatesRequest&, Done)> pause_updates;

  void GetStatus(const CallOptions& options, tensorflow::GetStatusResponse* response, Done done) override {
    if (get_status) return get_status(options, response, std::move(done));
    done(absl::OkStatus());
  }
  void CreateWorkerSession(const CallOptions& options, const tensorflow::CreateWorkerSessionRequest& request,
                           Done done) override {
    if (create_session) return create_session(options, request, std::move(done));
    done(absl::OkStatus());
  }
  void DeleteWorkerSession(const CallOptions&, const tensorflow::DeleteWorkerSessionRequest&, Done done) override {
    done(absl::OkStatus());
  }
  void RegisterGraph(const CallOptions& options, const tensorflow::RegisterGraphRequest& request,
                     tensorflow::RegisterGraphResponse* response, Done done) override {
    if (register_graph) return register_graph(options, request, response, std::move(done));
    done(absl::OkStatus());
  }
  void DeregisterGraph(const CallOptions&, const tensorflow::DeregisterGraphRequest&, Done done) override {
    done(absl::OkStatus());
  }
  void RunGraph(const CallOptions& options, RunGraphCall call, RunGraphResult* result, Done done) override {
    if (run_graph) return run_graph(options, std::move(call), result, std::move(done));
    done(absl::OkStatus());
  }
  void CleanupGraph(const CallOptions&, int64_t step_id, Done done) override {
    if (cleanup_graph) cleanup_graph(step_id);
    done(absl::OkStatus());
  }
  void CleanupAll(const CallOptions&, const tensorflow::CleanupAllRequest&, Done done) override {
    done(absl::OkStatus());
  }
  void RecvTensor(const CallOptions& options, const tensorflow::RecvTensorRequest& request, Rendezvous::Value* value,
                  Done done) override {
    if (recv_tensor) return recv_tensor(options, request, value, std::move(done));
    done(absl::OkStatus());
  }
  void Push(const CallOptions&, int64_t step_id, std::vector<Transfer> tensors, Done done) override {
    if (push) return push(step_id, std::move(tensors), std::move(done));
    done(absl::OkStatus());
  }
  void RecvBuf(const CallOptions&, const tensorflow::RecvBufRequest&, Tensor*, Done done) override {
    done(absl::OkStatus());
  }
  void CompleteGroup(const CallOptions&, const tensorflow::CompleteGroupRequest&, tensorflow::CompleteGroupResponse*,
                     Done done) override {
    done(absl::OkStatus());
  }
  void CompleteInstance(const CallOptions&, const tensorflow::CompleteInstanceRequest&,
                        tensorflow::CompleteInstanceResponse*, Done done) override {
    done(absl::OkStatus());
  }
  void GetStepSequence(const CallOptions&, const tensorflow::GetStepSequenceRequest&,
                       tensorflow::GetStepSequenceResponse*, Done done) override {
    done(absl::OkStatus());
  }
  void AbortCollective(const CallOptions&, const tensorflow::AbortCollectiveRequest&, Done done) override {
    done(absl::OkStatus());
  }
  void PauseUpdates(const CallOptions&, const tensorflow::PauseUpdatesRequest& request, Done done) override {
    if (pause_updates) return pause_updates(request, std::move(done));
    done(absl::OkStatus());
  }
};

// Makes a call that only its cancellation ends, like a call to a task that hangs. The
// test may also call the result; only the first of the two counts.
inline Worker::Done EndedByCancellation(const CallOptions& options, Worker::Done done) {
  struct Call {
    Worker::Done done;
    std::atomic<bool> ended{false};
    void End(const absl::Status& status) {
      if (ended.exchange(true)) return;
      // The step's cancellation keeps this call, and `done` keeps the step: let go of it.
      Worker::Done last = std::move(done);
      last(status);
    }
  };
  auto call = std::make_shared<Call>();
  call->done = std::move(done);
  if (options.cancellation != nullptr &&
      !options.cancellation->Register([call](const absl::Status& why) { call->End(why); }).has_value()) {
    call->End(options.cancellation->status());
  }
  return [call](const absl::Status& status) { call->End(status); };
}

// A cluster of fake workers, by task name.
class FakeWorkers : public Workers {
 public:
  explicit FakeWorkers(const std::vector<std::string>& tasks) {
    for (const std::string& task : tasks) workers_[task];
  }
  FakeWorker& at(const std::string& task) { return workers_.at(task); }
  Worker* Find(absl::string_view task) override {
    const auto it = workers_.find(std::string(task));
    return it == workers_.end() ? nullptr : &it->second;
  }
  std::vector<std::string> tasks() const override {
    std::vector<std::string> tasks;
    for (const auto& [task, worker] : workers_) tasks.push_back(task);
    return tasks;
  }

 private:
  std::map<std::string, FakeWorker> workers_;
};

}  // namespace thalweg
