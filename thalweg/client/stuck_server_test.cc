// SPDX-License-Identifier: Apache-2.0
// A server whose step does not notice that it is cancelled.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/awaited_log_testlib.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/thread.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

// One server with a step whose kernel waits for the test.
class StuckServer {
 public:
  explicit StuckServer(ServerOptions options) {
    options.stop_timeout = absl::Milliseconds(50);
    server_ = *Server::StartLocal(options);
    SetFailPointHandler([this](absl::string_view point, absl::string_view) {
      if (point != "worker.apply") return absl::OkStatus();
      begun_.Notify();
      released_.WaitForNotification();
      return absl::OkStatus();
    });
    const Scope s = graph_.root();
    const Output v = RefVariable(s.WithOpName("v"), kFloat, {});
    init_ = Assign(s, v, Const(s, 0.f));
    update_ = AssignAdd(s, v, Const(s, 1.f));
    session_ = *Session::Create(graph_, {.target = server_->target()});
    EXPECT_THAT(session_->Run({init_}).status(), IsOk());
    step_ = std::make_unique<Thread>(
        "step", [this] { session_->Run({update_}, {}, {.client = 7, .sequence = 1}).status().IgnoreError(); });
    begun_.WaitForNotification();
  }
  ~StuckServer() {
    Release();
    step_.reset();
    SetFailPointHandler(nullptr);
  }
  void Stop() { server_->Stop(); }
  void Release() {
    if (!released_.HasBeenNotified()) released_.Notify();
  }

 private:
  std::unique_ptr<Server> server_;
  Graph graph_;
  Output init_, update_;
  std::unique_ptr<Session> session_;
  Notification begun_, released_;
  std::unique_ptr<Thread> step_;
};

TEST(StuckServerTest, SaysWhichStepsKeepItFromStopping) {
  StuckServer server({});
  AwaitedLog log({"has not stopped within 50ms; 1 steps do not end: step "});
  Thread stops("stop", [&] { server.Stop(); });
  EXPECT_TRUE(log.Wait(absl::Seconds(60)));
  server.Release();
}

TEST(StuckServerDeathTest, EndsItsProcessIfItIsToldTo) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(StuckServer({.exit_when_stuck = true}).Stop(), testing::ExitedWithCode(1), "has not stopped within 50ms");
}

}  // namespace
}  // namespace thalweg
