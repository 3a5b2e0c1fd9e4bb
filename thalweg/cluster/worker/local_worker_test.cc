#include "thalweg/cluster/worker/local_worker.h"

#include <optional>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/awaited_log_testlib.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow_ops.h"

namespace thalweg {
namespace {

constexpr absl::Duration kTooLong = absl::Seconds(30);
constexpr const char* kDevice = "/job:w/replica:0/task:0/device:CPU:0";

struct Call {
  Cancellation cancellation;
  RunGraphResult result;
  absl::Status status;
  bool was_cancelled = false;
  Notification ended;
};

// A worker without others, and a graph that waits for a queue.
class LocalWorkerTest : public testing::Test {
 protected:
  LocalWorkerTest() {
    StartWorker(kLogWaitAfter);
    Graph graph;
    const Scope s = graph.root().WithDevice(kDevice);
    QueueDequeue(s, FIFOQueue(s, {kFloat}), {kFloat});
    Register(graph);
  }

  void StartWorker(absl::Duration report_after) {
    worker_.emplace(LocalWorkerOptions{.task = {"w", 0},
                                       .devices = &devices_,
                                       .membership = &membership_,
                                       .sequences = &sequences_,
                                       .report_after = report_after});
    worker_->SetWorkers(nullptr);
  }

  // What Run() runs from now on.
  void Register(const Graph& graph) {
    tensorflow::RegisterGraphRequest request;
    tensorflow::RegisterGraphResponse response;
    *request.mutable_graph_def() = graph.Export();
    worker_->RegisterGraph({}, request, &response, [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
    graph_handle_ = response.graph_handle();
  }

  void Run(Call& call) {
    worker_->RunGraph({.cancellation = &call.cancellation},
                      {.has_session = false, .graph_handle = graph_handle_, .step_id = 1}, &call.result,
                      [&call](const absl::Status& status) {
                        call.status = status;
                        call.was_cancelled = call.cancellation.cancelled();
                        call.ended.Notify();
                      });
  }

  LocalDevices devices_{{.job = "w", .task = 0}};
  Membership membership_;
  CollectiveStepIds sequences_;
  std::optional<LocalWorker> worker_;
  std::string graph_handle_;
};

TEST_F(LocalWorkerTest, AStepEndsWithItsCall) {
  Call call;
  Run(call);
  EXPECT_FALSE(call.ended.HasBeenNotified());
  call.cancellation.Cancel(Cancelled("enough"));
  ASSERT_TRUE(call.ended.WaitForNotificationWithTimeout(kTooLong));
  EXPECT_THAT(call.status, Fails(absl::StatusCode::kCancelled, "enough"));
  Call late;
  late.cancellation.Cancel(Cancelled("came too late"));
  Run(late);
  ASSERT_TRUE(late.ended.WaitForNotificationWithTimeout(kTooLong));
  EXPECT_THAT(late.status, Fails(absl::StatusCode::kCancelled, "came too late"));
}

// Ends of edges to the client become arguments here; those of others would take
// their numbers.
TEST_F(LocalWorkerTest, APartHasNoArgumentsOfItsOwn) {
  Graph graph;
  const Scope s = graph.root().WithDevice("/job:w/replica:0/task:0/device:CPU:0");
  s.WithOpName("mine").Add("_Arg", {}, {{"T", kFloat}, {"index", 0}});
  ASSERT_OK(s.status());
  tensorflow::RegisterGraphRequest request;
  tensorflow::RegisterGraphResponse response;
  *request.mutable_graph_def() = graph.Export();
  absl::Status result;
  worker_->RegisterGraph({}, request, &response, [&](const absl::Status& status) { result = status; });
  EXPECT_THAT(result, Fails(absl::StatusCode::kInvalidArgument, "'mine'"));
}

// Arguments are there when the step begins, and results when it has ended: a loop
// has neither.
TEST_F(LocalWorkerTest, ALoopHasNoArgumentsAndNoResults) {
  for (const bool is_arg : {true, false}) {
    Graph graph;
    const Scope s = graph.root().WithDevice(kDevice);
    const Output one = Constant(s, Tensor::Scalar<float>(1));
    const Output inside = s.Add("Enter", {one}, {{"frame_name", "loop"}});
    std::vector<AttrArg> ends = {{"tensor_name", "x"},
                                 {"send_device", kDevice},
                                 {"recv_device", kDevice},
                                 {"send_device_incarnation", 1},
                                 {"client_terminated", true}};
    if (is_arg) {
      ends.emplace_back("tensor_type", kFloat);
      const Output x = s.WithOpName("end").WithControlDependencies({inside}).Add("_Recv", {}, ends);
      s.Add("Neg", {x});
    } else {
      s.WithOpName("end").Add("_Send", {inside}, ends);
    }
    ASSERT_OK(s.status());
    tensorflow::RegisterGraphRequest request;
    tensorflow::RegisterGraphResponse response;
    *request.mutable_graph_def() = graph.Export();
    absl::Status result;
    worker_->RegisterGraph({}, request, &response, [&](const absl::Status& status) { result = status; });
    EXPECT_THAT(result, Fails(absl::StatusCode::kInvalidArgument, "inside of loop 'loop'"));
    EXPECT_THAT(result, Fails(absl::StatusCode::kInvalidArgument, is_arg ? "{{node end}}" : "'Enter:0'"));
  }
}

// The call is gone as soon as it is answered, which is in the middle of this.
TEST_F(LocalWorkerTest, AStepEndsWithItsTaskAndNotThroughItsCall) {
  Call call;
  Run(call);
  EXPECT_FALSE(call.ended.HasBeenNotified());
  worker_->Shutdown(Unavailable("the task ends"));
  ASSERT_TRUE(call.ended.HasBeenNotified());
  EXPECT_FALSE(call.was_cancelled);
  EXPECT_THAT(call.status, Fails(absl::StatusCode::kUnavailable, "the task ends"));
  Call late;
  Run(late);
  ASSERT_TRUE(late.ended.HasBeenNotified());
  EXPECT_THAT(late.status, Fails(absl::StatusCode::kUnavailable, "the task ends"));
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

TEST_F(LocalWorkerTest, ALongWaitIsTold) {
  worker_.reset();
  StartWorker(absl::Milliseconds(20));
  Graph graph;
  const Scope s = graph.root().WithDevice(kDevice);
  const Output queue = FIFOQueue(s.WithOpName("queue"), {kFloat});
  const Output inside = s.Add("Enter", {queue}, {{"frame_name", "loop"}, {"is_constant", true}});
  QueueDequeue(s.WithOpName("dequeue"), queue, {kFloat});
  QueueDequeue(s.WithOpName("dequeue_in_loop"), inside, {kFloat});
  ASSERT_THAT(s.status(), IsOk());
  Register(graph);
  const AwaitedLog log({"/job:w/replica:0/task:0: step 1 of session", "'dequeue' (QueueDequeueV2) on /job:w/",
                        "'dequeue_in_loop' (QueueDequeueV2) on /job:w/"});
  Call call;
  Run(call);
  EXPECT_TRUE(log.Wait(kTooLong)) << log.text();
  call.cancellation.Cancel(Cancelled("enough"));
  ASSERT_TRUE(call.ended.WaitForNotificationWithTimeout(kTooLong));
}

TEST_F(LocalWorkerTest, TheEndTellsWhatItWaitsFor) {
  worker_.reset();
  StartWorker(absl::Milliseconds(20));
  Notification entered;
  AsyncKernel::Done done;
  deaf_entered = &entered;
  deaf_done = &done;
  Graph graph;
  const Scope s = graph.root().WithDevice(kDevice);
  s.WithOpName("deaf").Add("TestDeaf");
  ASSERT_THAT(s.status(), IsOk());
  Register(graph);
  Call call;
  Run(call);
  entered.WaitForNotification();
  const AwaitedLog log({"still waits for the end of 1 steps", "'deaf' (TestDeaf) on /job:w/"});
  std::thread end([&] { worker_->Shutdown(Cancelled("the end")); });
  EXPECT_TRUE(log.Wait(kTooLong)) << log.text();
  done(absl::OkStatus());
  end.join();
}

}  // namespace
}  // namespace thalweg
