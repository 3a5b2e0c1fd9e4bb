#include "thalweg/cluster/master/master_session.h"

#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/fake_workers_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/runtime/local_devices.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kTooLong = absl::Seconds(30);
constexpr const char* kMaster = "/job:worker/replica:0/task:0";
constexpr const char* kPs0 = "/job:ps/replica:0/task:0";
constexpr const char* kPs1 = "/job:ps/replica:0/task:1";

// One call of a client.
struct Call {
  RunStepResult result;
  absl::Status status;
  Notification ended;
  Cancellation cancellation;

  const absl::Status& Wait() {
    EXPECT_TRUE(ended.WaitForNotificationWithTimeout(kTooLong)) << "the step has not ended";
    return status;
  }
};

// A session of a master and two parameter servers with a node each: "own", "near"
// and "far".
class MasterSessionTest : public testing::Test {
 protected:
  MasterSessionTest() {
    MasterSessionOptions options{.handle = "it",
                                 .self = kMaster,
                                 .workers = workers_,
                                 .folding_device = devices_.devices()[0],
                                 .timer = &timer_,
                                 .health = &health_,
                                 .sequences = &sequences_};
    for (const char* task : {kMaster, kPs0, kPs1}) {
      tensorflow::DeviceAttributes device;
      device.set_name(absl::StrCat(task, "/device:CPU:0"));
      device.set_incarnation(7);
      options.devices.tasks.push_back({task, {device}, /*takes_pushes=*/true});
      workers_->at(task).register_graph = [task](const CallOptions&, const tensorflow::RegisterGraphRequest&,
                                                 tensorflow::RegisterGraphResponse* response, Worker::Done done) {
        response->set_graph_handle(absl::StrCat("graph of ", task));
        done(absl::OkStatus());
      };
    }
    session_ = std::make_shared<MasterSession>(std::move(options));
  }

  void Open() {
    Graph graph;
    const Scope s = graph.root();
    NoOp(s.WithDevice(kMaster).WithOpName("own"));
    NoOp(s.WithDevice(kPs0).WithOpName("near"));
    NoOp(s.WithDevice(kPs1).WithOpName("far"));
    ASSERT_OK(session_->Create(graph.Export()));
    ASSERT_OK(session_->Open({}, nullptr));
  }
  void Run(std::vector<std::string> targets, Call& call) {
    session_->RunStep({.cancellation = &call.cancellation}, {.session_handle = "it", .targets = std::move(targets)},
                      &call.result, [&call](const absl::Status& status) {
                        call.status = status;
                        call.ended.Notify();
                      });
  }

  LocalDevices devices_{{}};
  Timer timer_;
  PeerHealth health_{absl::Seconds(10)};
  CollectiveStepIds sequences_;
  std::shared_ptr<FakeWorkers> workers_ = std::make_shared<FakeWorkers>(std::vector<std::string>{kMaster, kPs0, kPs1});
  std::shared_ptr<MasterSession> session_;
};

TEST_F(MasterSessionTest, ASignatureIsRegisteredOnceAndRunsWhereItsNodesAre) {
  int registered = 0;
  std::vector<std::string> ran;
  for (const char* task : {kMaster, kPs0, kPs1}) {
    workers_->at(task).register_graph = [&registered, task](
                                            const CallOptions&, const tensorflow::RegisterGraphRequest& request,
                                            tensorflow::RegisterGraphResponse* response, Worker::Done done) {
      ++registered;
      EXPECT_EQ(request.session_handle(), "it");
      response->set_graph_handle(task);
      done(absl::OkStatus());
    };
    workers_->at(task).run_graph = [&ran](const CallOptions&, RunGraphCall call, RunGraphResult*, Worker::Done done) {
      ran.push_back(call.graph_handle);
      done(absl::OkStatus());
    };
  }
  Open();
  for (int step = 0; step < 2; ++step) {
    Call call;
    Run({"own", "far"}, call);
    EXPECT_THAT(call.Wait(), IsOk());
  }
  EXPECT_EQ(registered, 2);
  // The master's own part runs last, on the thread that has started the others.
  EXPECT_THAT(ran, testing::ElementsAre(kPs1, kMaster, kPs1, kMaster));
}

// A parameter server that does not answer when a graph is registered holds up the
// steps that need it, and no others.
TEST_F(MasterSessionTest, ATaskThatHangsHoldsUpOnlyThoseThatNeedIt) {
  Notification asked;
  Worker::Done answer;
  workers_->at(kPs1).register_graph = [&](const CallOptions& options, const tensorflow::RegisterGraphRequest&,
                                          tensorflow::RegisterGraphResponse*, Worker::Done done) {
    answer = EndedByCancellation(options, std::move(done));
    asked.Notify();
  };
  Open();
  Call stuck, waiter, other;
  std::thread first([&] { Run({"far"}, stuck); });
  asked.WaitForNotification();
  Run({"near"}, other);
  EXPECT_THAT(other.Wait(), IsOk());
  Graph more;
  NoOp(more.root().WithDevice(kPs0).WithOpName("later"));
  EXPECT_THAT(session_->Extend(more.Export(), 0).status(), IsOk());
  Call later;
  Run({"later"}, later);
  EXPECT_THAT(later.Wait(), IsOk());
  // One that waits for the same preparation can give up on its own.
  std::thread second([&] { Run({"far"}, waiter); });
  waiter.cancellation.Cancel(Cancelled("enough"));
  EXPECT_THAT(waiter.Wait(), Fails(absl::StatusCode::kCancelled, "enough"));
  second.join();
  answer(absl::OkStatus());
  first.join();
  EXPECT_THAT(stuck.Wait(), IsOk());
}

TEST_F(MasterSessionTest, AnErrorOfRegistrationNamesTheTask) {
  workers_->at(kPs1).register_graph = [&](const CallOptions&, const tensorflow::RegisterGraphRequest&,
                                          tensorflow::RegisterGraphResponse*,
                                          Worker::Done done) { done(InvalidArgument("no such op")); };
  Open();
  Call call;
  Run({"far"}, call);
  EXPECT_THAT(call.Wait(), Fails(absl::StatusCode::kInvalidArgument, absl::StrCat("From ", kPs1, ":\nno such op")));
}

TEST_F(MasterSessionTest, CloseEndsAPreparation) {
  Notification asked;
  Worker::Done answer;
  workers_->at(kPs1).register_graph = [&](const CallOptions& options, const tensorflow::RegisterGraphRequest&,
                                          tensorflow::RegisterGraphResponse*, Worker::Done done) {
    answer = EndedByCancellation(options, std::move(done));
    asked.Notify();
  };
  Open();
  Call stuck, late;
  std::thread runner([&] { Run({"far"}, stuck); });
  asked.WaitForNotification();
  EXPECT_THAT(session_->Close(), IsOk());
  EXPECT_THAT(stuck.Wait(), Fails(absl::StatusCode::kCancelled, "Session::Close()"));
  runner.join();
  Run({"near"}, late);
  EXPECT_THAT(late.Wait(), Fails(absl::StatusCode::kFailedPrecondition, "Session has been closed."));
}

TEST_F(MasterSessionTest, ATaskThatLeavesBetweenDiscoveryAndOpeningIsAbsent) {
  workers_->at(kPs1).create_session = [](const CallOptions&, const tensorflow::CreateWorkerSessionRequest&,
                                         Worker::Done done) { done(Unavailable("gone")); };
  Open();
  Call near, far;
  Run({"near"}, near);
  EXPECT_THAT(near.Wait(), IsOk());
  Run({"far"}, far);
  EXPECT_THAT(far.Wait(), Fails(absl::StatusCode::kUnavailable, absl::StrCat(kPs1, " has left the cluster")));
}

}  // namespace
}  // namespace thalweg
