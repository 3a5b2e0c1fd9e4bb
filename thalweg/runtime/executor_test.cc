// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/executor.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "thalweg/base/awaited_log_testlib.h"
#include "thalweg/base/notification.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/runtime/direct_session.h"

namespace thalweg {
namespace {

constexpr absl::Duration kStepTimeout = absl::Seconds(30);

Output Enter(const Scope& s, const char* frame, Output x) {
  return s.Add("Enter", {x}, {{"frame_name", frame}, {"is_constant", true}});
}

TEST(Executor, ALongWaitIsTold) {
  Graph graph;
  const Scope s = graph.root();
  const Output queue = FIFOQueue(s.WithOpName("queue"), {kFloat});
  const Output loop = Enter(s, "loop", queue);
  QueueDequeue(s.WithOpName("outside"), queue, {kFloat});
  QueueDequeue(s.WithOpName("inside"), loop, {kFloat});
  QueueDequeue(s.WithOpName("deep"), Enter(s, "loop in loop", loop), {kFloat});
  ASSERT_OK(s.status());
  DirectSession session({.log_wait_after = absl::Milliseconds(20)});
  ASSERT_OK(session.Extend(graph.Export()));
  ASSERT_OK_AND_ASSIGN(const auto step, session.Prepare({.targets = {"outside", "inside", "deep"}}));
  const AwaitedLog log({"still waits for", "'outside' (QueueDequeueV2) on /job:localhost",
                        "'inside' (QueueDequeueV2) on /job:localhost", "'deep' (QueueDequeueV2) on /job:localhost"});
  Cancellation cancellation;
  std::thread runner([&] {
    std::vector<Tensor> results;
    EXPECT_THAT(session.Run(step, {.cancellation = &cancellation}, {}, &results, nullptr),
                Fails(absl::StatusCode::kCancelled, "enough"));
  });
  EXPECT_TRUE(log.Wait(kStepTimeout)) << log.text();
  cancellation.Cancel(absl::CancelledError("enough"));
  runner.join();
}

// Does not care about cancellation; the test ends it.
Notification* deaf_entered = nullptr;
AsyncKernel::Done* deaf_done = nullptr;
class DeafKernel : public AsyncKernel {
  void ComputeAsync(KernelContext&, Done done) override {
    *deaf_done = std::move(done);
    deaf_entered->Notify();
  }
};
const OpRegistration kDeaf = Op("TestDeaf").Stateful().Kernel<DeafKernel>();

TEST(Executor, CloseTellsWhatItWaitsFor) {
  Notification entered;
  AsyncKernel::Done done;
  deaf_entered = &entered;
  deaf_done = &done;
  Graph graph;
  const Scope s = graph.root();
  s.WithOpName("deaf").Add("TestDeaf");
  ASSERT_OK(s.status());
  DirectSession session({.log_wait_after = absl::Milliseconds(20)});
  ASSERT_OK(session.Extend(graph.Export()));
  ASSERT_OK_AND_ASSIGN(const auto step, session.Prepare({.targets = {"deaf"}}));
  std::thread runner([&] {
    std::vector<Tensor> results;
    EXPECT_THAT(session.Run(step, {}, {}, &results, nullptr), IsOk());
  });
  entered.WaitForNotification();
  {
    const AwaitedLog log(
        {"Session::Close has waited for ", " for 1 steps to end: 'deaf' (TestDeaf) on /job:localhost"});
    std::thread closer([&] { EXPECT_THAT(session.Close(), IsOk()); });
    EXPECT_TRUE(log.Wait(kStepTimeout)) << log.text();
    done(absl::OkStatus());
    closer.join();
  }
  runner.join();
}

}  // namespace
}  // namespace thalweg
