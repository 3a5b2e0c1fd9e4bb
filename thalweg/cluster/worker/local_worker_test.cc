// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/local_worker.h"

#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/awaited_log_testlib.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/fake_workers_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow_ops.h"

namespace thalweg {
namespace {

using testing::HasSubstr;
using testing::Not;

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

  void StartWorker(absl::Duration log_wait_after, std::shared_ptr<Workers> workers = nullptr) {
    worker_.emplace(LocalWorkerOptions{.task = {"w", 0},
                                       .devices = &devices_,
                                       .membership = &membership_,
                                       .make_workers = [](const ClusterSpec&, const TaskId&) { return nullptr; },
                                       .sequences = &sequences_,
                                       .log_wait_after = log_wait_after});
    worker_->SetWorkers(std::move(workers));
  }

  // Registers the graph that Run() runs from now on.
  void Register(const Graph& graph) {
    tensorflow::RegisterGraphRequest request;
    tensorflow::RegisterGraphResponse response;
    *request.mutable_graph_def() = graph.Export();
    worker_->RegisterGraph({}, request, &response, [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
    graph_handle_ = response.graph_handle();
  }

  void Run(Call& call, int64_t step_id = 1) {
    worker_->RunGraph({.cancellation = &call.cancellation},
                      {.has_session = false, .graph_handle = graph_handle_, .step_id = step_id}, &call.result,
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

// Feeds and fetches become arguments of the partition; arguments in the graph itself would take
// their indices.
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

// The master's constant folding may have found that the shapes cannot fit.
TEST_F(LocalWorkerTest, ANodeWhoseShapesDoNotFitFailsIfItsBranchIsTaken) {
  for (const bool taken : {true, false}) {
    Graph graph;
    const Scope s = graph.root().WithDevice(kDevice);
    const Output x = Constant(s.WithOpName("x"), Tensor::Vector<float>({1}));
    const Output both = s.Add("Switch", {x, Constant(s, Tensor::Scalar(taken))});
    const Output zero = Constant(s, Tensor::Vector<int32_t>({0})), one = Constant(s, Tensor::Vector<int32_t>({1}));
    const Output first = s.Add("StridedSlice", {Output(both.node, 1), zero, one, one}, {{"shrink_axis_mask", 1}});
    s.Add("Neg", {first});
    ASSERT_OK(s.status());
    tensorflow::RegisterGraphRequest request;
    tensorflow::RegisterGraphResponse response;
    *request.mutable_graph_def() = graph.Export();
    for (auto& node : *request.mutable_graph_def()->mutable_node()) {
      if (node.name() == "x") SetAttr(node, "value", Tensor(kFloat, {0}));
    }
    worker_->RegisterGraph({}, request, &response, [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
    graph_handle_ = response.graph_handle();
    Call call;
    Run(call);
    ASSERT_TRUE(call.ended.WaitForNotificationWithTimeout(kTooLong));
    if (taken) {
      EXPECT_THAT(call.status, Fails(absl::StatusCode::kInvalidArgument, "slice index 0 of dimension 0 out of bounds"));
    } else {
      EXPECT_THAT(call.status, IsOk());
    }
  }
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

// Computes until the test lets it go on.
Notification *computing_entered = nullptr, *computing_goes_on = nullptr;
absl::Status ComputeLong(KernelContext&) {
  computing_entered->Notify();
  computing_goes_on->WaitForNotification();
  return absl::OkStatus();
}
const OpRegistration kComputes = Op("TestComputes").Stateful().Compute(ComputeLong);

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

// Producers are expected to wait for room in a queue.
TEST_F(LocalWorkerTest, AWaitForRoomInAQueueIsNotLogged) {
  worker_.reset();
  StartWorker(absl::Milliseconds(20));
  Graph full, empty;
  const Scope f = full.root().WithDevice(kDevice), e = empty.root().WithDevice(kDevice);
  const Output zeros = Constant(f, Tensor(kFloat, Shape({2})));
  QueueEnqueueMany(f.WithOpName("enqueue"), FIFOQueue(f.WithOpName("full"), {kFloat}, {}, {.capacity = 1}), {zeros});
  QueueDequeue(e.WithOpName("dequeue"), FIFOQueue(e.WithOpName("empty"), {kFloat}), {kFloat});
  ASSERT_THAT(f.status(), IsOk());
  ASSERT_THAT(e.status(), IsOk());
  Call producer, consumer;
  Register(full);
  Run(producer, 1);
  Register(empty);
  // The second time that the younger wait is logged, the older one is long due.
  for (int i = 0; i < 2; ++i) {
    const AwaitedLog log({"'dequeue' (QueueDequeueV2) on /job:w/"});
    if (i == 0) Run(consumer, 2);
    EXPECT_TRUE(log.Wait(kTooLong)) << log.text();
    EXPECT_THAT(log.text(), Not(HasSubstr("'enqueue'")));
  }
  for (Call* call : {&producer, &consumer}) {
    EXPECT_FALSE(call->ended.HasBeenNotified());
    call->cancellation.Cancel(Cancelled("enough"));
    ASSERT_TRUE(call->ended.WaitForNotificationWithTimeout(kTooLong));
  }
}

TEST_F(LocalWorkerTest, AStepThatComputesIsNotReportedAsWaiting) {
  worker_.reset();
  StartWorker(absl::Milliseconds(20));
  Notification entered, go_on;
  computing_entered = &entered;
  computing_goes_on = &go_on;
  Graph computes, waits;
  const Scope c = computes.root().WithDevice(kDevice), w = waits.root().WithDevice(kDevice);
  const Scope then = c.WithControlDependencies({Output(c.Add("TestComputes"), 0)});
  QueueDequeue(then, FIFOQueue(then, {kFloat}), {kFloat});
  QueueDequeue(w.WithOpName("dequeue"), FIFOQueue(w, {kFloat}), {kFloat});
  ASSERT_THAT(c.status(), IsOk());
  ASSERT_THAT(w.status(), IsOk());
  Call computing, waiting;
  Register(computes);
  std::thread runs([&] { Run(computing, 1); });
  entered.WaitForNotification();
  Register(waits);
  // The second time that the younger step is logged, the older one is long due.
  for (int i = 0; i < 2; ++i) {
    const AwaitedLog log({"'dequeue' (QueueDequeueV2) on /job:w/"});
    if (i == 0) Run(waiting, 2);
    EXPECT_TRUE(log.Wait(kTooLong)) << log.text();
    EXPECT_THAT(log.text(), Not(HasSubstr("step 1 ")));
  }
  go_on.Notify();
  runs.join();
  for (Call* call : {&computing, &waiting}) {
    call->cancellation.Cancel(Cancelled("enough"));
    ASSERT_TRUE(call->ended.WaitForNotificationWithTimeout(kTooLong));
  }
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
  const AwaitedLog log({"is shutting down and waits for 1 steps to end", "'deaf' (TestDeaf) on /job:w/"});
  std::thread end([&] { worker_->Shutdown(Cancelled("the end")); });
  EXPECT_TRUE(log.Wait(kTooLong)) << log.text();
  done(absl::OkStatus());
  end.join();
}

// The ends of one edge within this task, as a master of TensorFlow splits a graph.
std::vector<AttrArg> Edge(int number) {
  return {{"tensor_name", absl::StrCat("edge", number)},
          {"send_device", kDevice},
          {"recv_device", kDevice},
          {"send_device_incarnation", 1},
          {"client_terminated", false}};
}

Output Receive(const Scope& s, int number) {
  std::vector<AttrArg> attrs = Edge(number);
  attrs.emplace_back("tensor_type", kFloat);
  return s.Add("_Recv", {}, attrs);
}

void Send(const Scope& s, const Output& value, int number) {
  std::vector<AttrArg> attrs = Edge(number);
  attrs.emplace_back("T", kFloat);
  s.Add("_Send", {value}, attrs);
}

// Each hop continues the next one. The stack must not grow with their number.
TEST_F(LocalWorkerTest, AVeryLongChainOfHops) {
  constexpr int kHops = 100'000;
  Graph graph;
  const Scope s = graph.root().WithDevice(kDevice);
  for (int i = 0; i < kHops; ++i) Send(s, Receive(s, i), i + 1);
  Send(s, Constant(s, Tensor::Scalar<float>(1)), 0);
  ASSERT_OK(s.status());
  Register(graph);
  Call call;
  Run(call);
  ASSERT_TRUE(call.ended.WaitForNotificationWithTimeout(4 * kTooLong));
  EXPECT_THAT(call.status, IsOk());
}

// A repeated call must not share the rendezvous of the step that runs.
TEST_F(LocalWorkerTest, AStepBeginsOnce) {
  Graph graph;
  const Scope s = graph.root().WithDevice(kDevice);
  const Output in = Receive(s, 0);
  Send(s, in, 1);
  ASSERT_OK(s.status());
  Register(graph);
  Call first, second;
  Run(first);
  Run(second);
  ASSERT_TRUE(second.ended.WaitForNotificationWithTimeout(kTooLong));
  EXPECT_THAT(second.status, Fails(absl::StatusCode::kAborted, "has begun here before"));
  EXPECT_FALSE(first.ended.HasBeenNotified());
  const std::string key = absl::StrCat(kDevice, ";0000000000000001;", kDevice, ";edge0;0:0");
  worker_->Push({}, 1, {{key, {Tensor::Scalar<float>(1), false}}},
                [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  ASSERT_TRUE(first.ended.WaitForNotificationWithTimeout(kTooLong));
  EXPECT_THAT(first.status, IsOk());
}

// A network may deliver a call twice. The master hears of the answer that comes first.
TEST_F(LocalWorkerTest, ACallThatCreatesASessionMayArriveTwice) {
  tensorflow::CreateWorkerSessionRequest request;
  request.set_session_handle("s");
  request.set_master_task("/job:m/replica:0/task:0");
  request.set_master_incarnation(1);
  absl::Status status;
  const auto create = [&] {
    status = absl::UnknownError("no answer");
    worker_->CreateWorkerSession({}, request, [&](const absl::Status& answer) { status = answer; });
    return status;
  };
  EXPECT_THAT(create(), IsOk());
  EXPECT_THAT(create(), IsOk());
  request.set_isolate_session_state(true);
  EXPECT_THAT(create(), Fails(absl::StatusCode::kAlreadyExists, "exists already"));
  EXPECT_THAT(worker_->CheckSession("s", true), IsOk());
}

// The same cluster may come in many orders: maps have none.
class LocalWorkerOrderTest : public LocalWorkerTest {
 protected:
  static constexpr int kTasks = 20;
  // A request from master 0. The tasks are added from `first` on.
  static tensorflow::CreateWorkerSessionRequest Request(const std::string& handle, int64_t incarnation, int first) {
    tensorflow::CreateWorkerSessionRequest request;
    request.set_session_handle(handle);
    request.set_master_task("/job:w/replica:0/task:0");
    request.set_master_incarnation(incarnation);
    request.mutable_server_def()->set_job_name("w");
    auto* const job = request.mutable_server_def()->mutable_cluster()->add_job();
    job->set_name("w");
    for (int i = 0; i < kTasks; ++i) {
      const int task = (first + i) % kTasks;
      (*job->mutable_tasks())[task] = "localhost:" + std::to_string(2000 + task);
    }
    return request;
  }
};

TEST_F(LocalWorkerOrderTest, ACallThatCreatesASessionMayArriveTwice) {
  for (int first = 0; first < kTasks; ++first) {
    worker_->CreateWorkerSession({}, Request("s", 1, first),
                                 [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  }
}

TEST_F(LocalWorkerOrderTest, SessionsOfAnEarlierIncarnationOfTheirMasterGo) {
  for (int first = 0; first < kTasks; ++first) {
    worker_->CreateWorkerSession({}, Request("s" + std::to_string(first), first + 1, first),
                                 [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  }
  EXPECT_EQ(worker_->num_sessions(), 1);
}

// A group of two tasks, one of which cannot be reached for a moment when the other one joins again. The first may be in
// a step with the group already, and wait.
class LocalWorkerGroupTest : public LocalWorkerTest {
 protected:
  struct Join {
    tensorflow::CompleteGroupRequest request;
    tensorflow::CompleteGroupResponse response;
    absl::Status status = absl::UnknownError("no answer");
  };

  LocalWorkerGroupTest() {
    for (const int task : {0, 1}) {
      workers_->at(TaskName(task)).get_status =
          [this, task](const CallOptions&, tensorflow::GetStatusResponse* response, Worker::Done done) {
            if (!reachable_[task]) return done(absl::UnavailableError("Connection reset by peer"));
            response->add_device_attributes()->set_incarnation(incarnations_[task]);
            done(absl::OkStatus());
          };
    }
    StartWorker(kLogWaitAfter, workers_);
  }
  static std::string TaskName(int task) { return absl::StrCat("/job:w/replica:0/task:", task); }
  void JoinGroup(int task, Join& join, int size = 2) {
    join.request.set_group_key(1);
    join.request.set_group_size(size);
    join.request.set_device_type("CPU");
    join.request.mutable_device_attributes()->set_name(TaskName(task) + "/device:CPU:0");
    join.request.mutable_device_attributes()->set_incarnation(incarnations_[task]);
    worker_->CompleteGroup({}, join.request, &join.response,
                           [&join](const absl::Status& status) { join.status = status; });
  }
  // After it, groups may have other members.
  void BeginSession() {
    tensorflow::CreateWorkerSessionRequest request;
    request.set_session_handle(absl::StrCat("s", worker_->num_sessions()));
    worker_->CreateWorkerSession({}, request, [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  }

  const std::shared_ptr<FakeWorkers> workers_ =
      std::make_shared<FakeWorkers>(std::vector<std::string>{TaskName(0), TaskName(1)});
  bool reachable_[2] = {true, true};
  uint64_t incarnations_[2] = {1, 2};
};

TEST_F(LocalWorkerGroupTest, AMemberLearnsThatAnotherOneCannotBeReached) {
  Join first[2], again, other, anew[2];
  for (const int task : {0, 1}) JoinGroup(task, first[task]);
  for (const Join& join : first) EXPECT_THAT(join.status, IsOk());
  BeginSession();
  reachable_[0] = false;
  JoinGroup(1, again);
  EXPECT_THAT(again.status, Fails(absl::StatusCode::kAborted,
                                  "Task /job:w/replica:0/task:0, a member of the collective group, cannot be reached"));
  // The group is formed anew.
  reachable_[0] = true;
  JoinGroup(0, anew[0]);
  EXPECT_THAT(anew[0].status, Fails(absl::StatusCode::kUnknown, "no answer"));
  JoinGroup(1, anew[1]);
  for (const Join& join : anew) EXPECT_THAT(join.status, IsOk());
  // Another program does not need the member.
  BeginSession();
  reachable_[0] = false;
  JoinGroup(1, other, 1);
  EXPECT_THAT(other.status, IsOk());
}

TEST_F(LocalWorkerGroupTest, AMemberWaitsForOneThatHasRestarted) {
  Join first[2], again, other;
  for (const int task : {0, 1}) JoinGroup(task, first[task]);
  BeginSession();
  incarnations_[0] = 3;
  JoinGroup(1, again);
  EXPECT_THAT(again.status, Fails(absl::StatusCode::kUnknown, "no answer"));
  JoinGroup(0, other);
  EXPECT_THAT(again.status, IsOk());
  EXPECT_THAT(other.status, IsOk());
}

// A master that restarts does not close what it had: its new incarnation takes the place
// of the old one.
TEST_F(LocalWorkerTest, SessionsOfAnEarlierIncarnationOfTheirMasterGo) {
  const auto create = [&](const std::string& handle, const std::string& master, int64_t incarnation) {
    tensorflow::CreateWorkerSessionRequest request;
    request.set_session_handle(handle);
    request.set_master_task(master);
    request.set_master_incarnation(incarnation);
    worker_->CreateWorkerSession({}, request, [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  };
  create("a", "/job:m/replica:0/task:0", 1);
  create("b", "/job:m/replica:0/task:0", 1);
  create("other", "/job:m/replica:0/task:1", 7);
  create("unknown", "", 0);
  EXPECT_THAT(worker_->CheckSession("a", true), IsOk()) << "a master may have several";
  create("c", "/job:m/replica:0/task:0", 2);
  for (const char* handle : {"a", "b"}) {
    EXPECT_THAT(worker_->CheckSession(handle, true), Fails(absl::StatusCode::kAborted, "not found"));
  }
  for (const char* handle : {"c", "other", "unknown"}) EXPECT_THAT(worker_->CheckSession(handle, true), IsOk());
}

}  // namespace
}  // namespace thalweg
