// SPDX-License-Identifier: Apache-2.0
// How jobs end: waiting tasks leave when the others are done.
#include <cstdlib>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/awaited_log_testlib.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/session.h"
#include "thalweg/client/task_completion.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/runtime/session_testlib.h"

namespace thalweg {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

// A task that waits in Join(), on a thread of its own.
class Joined {
 public:
  explicit Joined(Server& server)
      : thread_(std::make_unique<Thread>("join", [this, &server] {
          status_ = server.Join();
          left_.Notify();
        })) {}
  bool left() const { return left_.HasBeenNotified(); }
  absl::Status status() {
    if (!left_.WaitForNotificationWithTimeout(kLong)) return DeadlineExceeded("Join() does not return");
    return status_;
  }

 private:
  Notification left_;
  absl::Status status_;
  std::unique_ptr<Thread> thread_;
};

TEST(JobEndTest, ParameterServersLeaveWhenAllWorkersAreDone) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  Joined ps0(cluster.server(kPs0)), ps1(cluster.server(kPs1));
  ASSERT_OK(AnnounceDone(cluster.target(kWorker1)));
  cluster.Stop(kWorker1);
  // The other worker still works with them.
  Graph graph;
  const Output x = Const(graph.root().WithDevice("/job:ps/task:1"), Tensor::Scalar<float>(3));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(session->Run({x}).status());
  EXPECT_FALSE(ps0.left() || ps1.left());
  ASSERT_OK(session->Close());
  ASSERT_OK(AnnounceDone(cluster.target(kWorker0)));
  EXPECT_THAT(ps0.status(), IsOk());
  EXPECT_THAT(ps1.status(), IsOk());
}

TEST(JobEndTest, AnAnnouncementBeforeJoinCounts) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  ASSERT_OK(AnnounceDone(cluster.target(kWorker0)));
  EXPECT_THAT(Joined(cluster.server(kPs0)).status(), IsOk());
  // From a parameter server, or without a server, there is nothing to say.
  EXPECT_THAT(AnnounceDone(cluster.target(kPs0)), IsOk());
  EXPECT_THAT(AnnounceDone(""), IsOk());
  EXPECT_THAT(AnnounceDone("somewhere"), Fails(absl::StatusCode::kInvalidArgument, ""));
  cluster.Stop(kWorker0);
}

// In-graph replication: one client, and workers that only serve it.
TEST(JobEndTest, WorkersThatWaitLeaveToo) {
  TestCluster cluster({{"ps", 1}, {"worker", 3}});
  Joined ps(cluster.server(kPs0)), worker1(cluster.server(kWorker1)), worker2(cluster.server({"worker", 2}));
  ASSERT_OK(AnnounceDone(cluster.target(kWorker0)));
  EXPECT_THAT(ps.status(), IsOk());
  EXPECT_THAT(worker1.status(), IsOk());
  EXPECT_THAT(worker2.status(), IsOk());
}

TEST(JobEndTest, AWorkerThatIsGoneIsNotWaitedForForever) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, {}, TasksIn::kThisProcess, {.gone_after = absl::Milliseconds(50)});
  Joined ps(cluster.server(kPs0));
  cluster.Stop(kWorker1);  // as if it was killed
  EXPECT_FALSE(ps.left());
  ASSERT_OK(AnnounceDone(cluster.target(kWorker0)));
  EXPECT_THAT(ps.status(), IsOk());
}

TEST(JobEndTest, AWorkerThatOnlyWaitedSaysThatItLeaves) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, {}, TasksIn::kThisProcess, {.gone_after = absl::Hours(1)});
  Joined worker1(cluster.server(kWorker1));
  ASSERT_OK(AnnounceDone(cluster.target(kWorker0)));
  EXPECT_THAT(worker1.status(), IsOk());
  cluster.Stop(kWorker1);
  Joined ps(cluster.server(kPs0));  // nobody is there to be asked any more
  EXPECT_THAT(ps.status(), IsOk());
}

// Two workers that announce their end one after the other and then wait for each
// other, as clients that share one program do.
TEST(JobEndTest, AWorkerThatIsDoneAndWaitsHearsOfTheOthers) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, {}, TasksIn::kThisProcess, {.gone_after = absl::Hours(1)});
  ASSERT_OK(AnnounceDone(cluster.target(kWorker0)));
  Joined worker0(cluster.server(kWorker0));
  ASSERT_OK(AnnounceDone(cluster.target(kWorker1)));
  cluster.Stop(kWorker1);
  EXPECT_THAT(worker0.status(), IsOk());
}

// The queue that SyncReplicasOptimizer makes on a parameter server. A token that a
// worker took goes back when the worker says that it is done.
TEST(JobEndTest, SynchronousTrainingGoesOnWithoutWorkersThatLeft) {
  for (const bool keep_semantics : {false, true}) {
    TestCluster cluster({{"ps", 1}, {"worker", 2}}, {}, TasksIn::kThisProcess,
                        {.release_tokens_of_tasks_that_left = !keep_semantics});
    Graph graph;
    const Scope s = graph.root().WithDevice("/job:ps/task:0");
    const Output queue = FIFOQueue(s, {kInt64}, {PartialShape(Shape())}, {.shared_name = "sync_token_q"});
    const Output put = QueueEnqueueMany(s, queue, {Const(s, Tensor::Vector<int64_t>({5, 5}))});
    const Output token = QueueDequeue(s, queue, {kInt64})[0], size = QueueSize(s, queue);
    ASSERT_OK_AND_ASSIGN(auto chief, Session::Create(graph, {.target = cluster.target(kWorker0)}));
    ASSERT_OK_AND_ASSIGN(auto worker, Session::Create(graph, {.target = cluster.target(kWorker1)}));
    ASSERT_OK(chief->Run({put}).status());
    ASSERT_OK(chief->Run({token}).status());
    ASSERT_OK(worker->Run({token}).status());
    ASSERT_OK(worker->Close());
    ASSERT_OK(AnnounceDone(cluster.target(kWorker1)));
    ASSERT_OK_AND_ASSIGN(const auto out, chief->Run({size}));
    EXPECT_EQ(out[0].scalar<int32_t>(), keep_semantics ? 0 : 1);
  }
}

TEST(JobEndTest, AJobWhoseWorkersFailedEndsWithAnError) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, {}, TasksIn::kThisProcess,
                      {.gone_after = absl::Hours(1), .failed_after = absl::Milliseconds(200)});
  Joined ps(cluster.server(kPs0)), worker1(cluster.server(kWorker1));  // worker 1 only serves
  ASSERT_OK(AnnounceFailed(cluster.target(kWorker0)));
  cluster.Stop(kWorker0);
  for (Joined* const task : {&ps, &worker1}) {
    EXPECT_THAT(task->status(), Fails(absl::StatusCode::kDeadlineExceeded,
                                      "no worker is left: /job:worker/replica:0/task:0 ended with an error"));
  }
}

TEST(JobEndTest, AWorkerThatFailedAndWasRestartedEndsTheJob) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, {}, TasksIn::kThisProcess, {.failed_after = absl::Minutes(10)});
  Joined ps(cluster.server(kPs0));
  AwaitedLog log({"/job:worker/replica:0/task:0 has been restarted"});
  ASSERT_OK(AnnounceFailed(cluster.target(kWorker0)));
  cluster.Stop(kWorker0);
  cluster.Start(kWorker0);
  EXPECT_TRUE(log.Wait(kLong));
  EXPECT_FALSE(ps.left());
  ASSERT_OK(AnnounceDone(cluster.target(kWorker0)));
  EXPECT_THAT(ps.status(), IsOk());
}

TEST(JobEndTest, AnOrphanLeavesWithAnError) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, {}, TasksIn::kThisProcess, {.orphan_after = absl::Milliseconds(200)});
  Joined ps(cluster.server(kPs0));
  cluster.Stop(kWorker0);
  EXPECT_THAT(ps.status(),
              Fails(absl::StatusCode::kDeadlineExceeded, "/job:ps/replica:0/task:0: there was no worker for 200ms"));
}

// How a parameter server leaves after its worker has gone.
absl::Status LeaveAsOrphan(const std::string& checkpoint, bool has_variables) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, {}, TasksIn::kThisProcess,
                      {.orphan_after = absl::Milliseconds(200), .orphan_checkpoint = checkpoint});
  if (has_variables) {
    Graph graph;
    const Scope s = graph.root().WithDevice("/job:ps/task:0");
    const Output w = RefVariable(s.WithOpName("w"), kFloat, {2}), none = RefVariable(s, kFloat, {2});
    const Output assign = Assign(s, w, Const(s, Tensor::Vector<float>({3, 4})));
    ASSIGN_OR_RETURN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
    RETURN_IF_ERROR(session->Run({assign, IsVariableInitialized(s, none)}).status());
  }
  Joined ps(cluster.server(kPs0));
  cluster.Stop(kWorker0);
  const absl::Status status = ps.status();
  // No step can run after the save.
  Graph graph;
  EXPECT_FALSE(Session::Create(graph, {.target = cluster.target(kPs0)}).ok());
  return status;
}

TEST(JobEndTest, AnOrphanSavesItsVariables) {
  const TempFolder folder;
  const std::string prefix = folder.path() + "/a/orphan", saved = prefix + "-ps-0";
  constexpr absl::StatusCode kCode = absl::StatusCode::kDeadlineExceeded;
  EXPECT_THAT(LeaveAsOrphan(prefix, /*has_variables=*/false), Fails(kCode, "; it had no variables"));
  EXPECT_THAT(LeaveAsOrphan(prefix, /*has_variables=*/true), Fails(kCode, "; its 1 variables are in " + saved));
  ASSERT_OK_AND_ASSIGN(const auto reader, BundleReader::Open(PosixFileSystem(), saved));
  EXPECT_THAT(reader->Names(), testing::ElementsAre("w"));
  EXPECT_EQ(reader->Read("w")->data<float>()[1], 4);
  const std::string no_folder = saved + ".index/x";
  EXPECT_THAT(LeaveAsOrphan(no_folder, true),
              Fails(kCode, "; its variables are lost: saving " + no_folder + "-ps-0: "));
}

// A parameter server of an elastic job knows only itself.
TEST(JobEndTest, AParameterServerThatKnowsNoWorkersLeavesWhenLeftAlone) {
  ClusterSpec alone;
  ASSERT_OK(alone.AddTask(kPs0, "localhost:0"));
  ASSERT_OK_AND_ASSIGN(auto ps, Server::Start(alone, kPs0, {.gone_after = absl::Milliseconds(50)}));
  ClusterSpec both;
  ASSERT_OK(both.AddTask(kPs0, absl::StrCat("localhost:", ps->port())));
  ASSERT_OK(both.AddTask(kWorker1, "localhost:0"));
  ASSERT_OK_AND_ASSIGN(auto worker, Server::Start(both, kWorker1));
  Joined joined(*ps);
  ASSERT_OK(AnnounceDone(worker->target()));
  EXPECT_THAT(joined.status(), IsOk());
}

TEST(JobEndTest, StopEndsTheWait) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  Joined ps(cluster.server(kPs0));
  cluster.server(kPs0).Stop();
  EXPECT_THAT(ps.status(), IsOk());
}

TEST(JobEndTest, DrainFinishesTheStepsThatRun) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  Joined ps(cluster.server(kPs0));
  Graph graph;
  const Scope s = graph.root().WithDevice("/job:ps/task:0");
  const Output x = Const(s, Tensor::Scalar<float>(3));
  const Output gated = s.Add("TestGate", {x});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(session->Run({x}).status());
  Gate gate;
  the_gate = &gate;
  absl::Status slow = Internal("never ended");
  auto step = std::make_unique<Thread>("step", [&] { slow = session->Run({gated}).status(); });
  gate.entered.WaitForNotification();
  std::unique_ptr<Thread> drain =
      std::make_unique<Thread>("drain", [&] { cluster.server(kPs0).Drain(absl::Seconds(6)); });
  absl::Status refused;
  while (refused.ok()) refused = session->Run({x}).status();
  EXPECT_THAT(refused, Fails(absl::StatusCode::kUnavailable, "/job:ps/replica:0/task:0 is leaving"));
  EXPECT_FALSE(ps.left());
  gate.done(absl::OkStatus());
  step.reset();
  EXPECT_THAT(slow, IsOk());
  drain.reset();
  EXPECT_THAT(ps.status(), IsOk());
  EXPECT_THAT(session->Close(), IsOk());
}

}  // namespace
}  // namespace thalweg
