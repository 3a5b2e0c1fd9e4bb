// SPDX-License-Identifier: Apache-2.0
// Workers that wait for each other.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/cluster/fake_workers_testlib.h"
#include "thalweg/cluster/worker/step_rendezvous.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

constexpr char kHere[] = "/job:worker/replica:0/task:0";
constexpr char kThere[] = "/job:worker/replica:0/task:1";

// The other worker hangs, which only this one notices.
TEST(WorkerLiveness, AWorkerThatHangsEndsTheStepOfAnother) {
  const auto workers = std::make_shared<FakeWorkers>(std::vector<std::string>{kHere, kThere});
  FakeWorker& there = workers->at(kThere);
  there.get_status = [](const CallOptions& options, auto*, Worker::Done done) {
    EndedByCancellation(options, std::move(done));
  };
  there.recv_tensor = [](const CallOptions& options, const auto&, auto*, Worker::Done done) {
    EndedByCancellation(options, std::move(done));
  };
  PeerHealth health(absl::Seconds(1));
  const auto step = std::make_shared<StepRendezvous>(7, &health);
  step->SetCluster(kHere, workers);
  Notification ended;
  step->RecvAsync(absl::StrCat(kThere, "/device:CPU:0;1;", kHere, "/device:CPU:0;edge;0:0"),
                  [&](const absl::Status& status, Rendezvous::Value) {
                    EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, absl::StrCat("Task ", kThere)));
                    ended.Notify();
                  });
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(60)));
  health.Stop();
}

}  // namespace
}  // namespace thalweg
