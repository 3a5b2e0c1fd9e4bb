// SPDX-License-Identifier: Apache-2.0
// A master session with fake workers.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/cluster/fake_workers_testlib.h"
#include "thalweg/cluster/master/master_session.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/runtime/local_devices.h"

namespace thalweg {

// One call of a client.
struct ClientCall {
  RunStepResult result;
  absl::Status status;
  Notification ended;
  Cancellation cancellation;

  const absl::Status& Wait() {
    EXPECT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(30))) << "the step has not ended";
    return status;
  }
};

// A session with a master and two parameter servers. Each has a node ("own", "near" and
// "far"). Each parameter server also computes a function of a placeholder: "near_y" of
// "near_x", and "far_y" of "far_x".
class MasterSessionTest : public testing::Test {
 protected:
  static constexpr const char* kMaster = "/job:worker/replica:0/task:0";
  static constexpr const char* kPs0 = "/job:ps/replica:0/task:0";
  static constexpr const char* kPs1 = "/job:ps/replica:0/task:1";

  MasterSessionTest() {
    for (const char* task : {kMaster, kPs0, kPs1}) {
      workers_->at(task).register_graph = [task](const CallOptions&, const tensorflow::RegisterGraphRequest&,
                                                 tensorflow::RegisterGraphResponse* response, Worker::Done done) {
        response->set_graph_handle(absl::StrCat("graph of ", task));
        done(absl::OkStatus());
      };
    }
  }

  void Open(bool takes_pushes = true) {
    MasterSessionOptions options{.handle = "it",
                                 .self = kMaster,
                                 .workers = workers_,
                                 .folding_device = devices_.devices()[0],
                                 .timer = &timer_,
                                 .health = &health_,
                                 .gate = &gate_,
                                 .sequences = &sequences_};
    for (const char* task : {kMaster, kPs0, kPs1}) {
      tensorflow::DeviceAttributes device;
      device.set_name(absl::StrCat(task, "/device:CPU:0"));
      device.set_incarnation(7);
      options.devices.tasks.push_back({task, {device}, takes_pushes});
    }
    session_ = std::make_shared<MasterSession>(std::move(options));
    Graph graph;
    const Scope s = graph.root();
    NoOp(s.WithDevice(kMaster).WithOpName("own"));
    NoOp(s.WithDevice(kPs0).WithOpName("near"));
    NoOp(s.WithDevice(kPs1).WithOpName("far"));
    for (const auto& [task, name] : {std::pair(kPs0, "near_save"), std::pair(kPs1, "far_save")}) {
      const Scope own = s.WithDevice(task);
      const Output variable = RefVariable(own.WithOpName(absl::StrCat(name, "/v")), kFloat, {});
      Save(own.WithOpName(name), Const(own, "file"), Const(own, std::vector<std::string>{"v"}),
           Const(own, std::vector<std::string>{""}), {variable});
    }
    Neg(s.WithDevice(kPs0).WithOpName("near_y"), Placeholder(s.WithOpName("near_x"), kFloat, {}));
    Neg(s.WithDevice(kPs1).WithOpName("far_y"), Placeholder(s.WithOpName("far_x"), kFloat, {}));
    ASSERT_OK(session_->Create(graph.Export()));
    session_->Open({}, nullptr, [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  }
  void Run(std::vector<std::string> targets, ClientCall& call) {
    RunStep({.session_handle = "it", .targets = std::move(targets)}, call);
  }
  void RunStep(RunStepCall step, ClientCall& call) {
    session_->RunStep({.cancellation = &call.cancellation}, std::move(step), &call.result,
                      [&call](const absl::Status& status) {
                        call.status = status;
                        call.ended.Notify();
                      });
  }

  LocalDevices devices_{{}};
  Timer timer_;
  PeerHealth health_{absl::Seconds(10)};
  UpdateGate gate_;
  CollectiveStepIds sequences_;
  std::shared_ptr<FakeWorkers> workers_ = std::make_shared<FakeWorkers>(std::vector<std::string>{kMaster, kPs0, kPs1});
  std::shared_ptr<MasterSession> session_;
};

}  // namespace thalweg
