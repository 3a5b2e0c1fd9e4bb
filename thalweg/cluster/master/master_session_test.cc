// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/master_session.h"

#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/master/master_session_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

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
    ClientCall call;
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
  ClientCall stuck, waiter, other;
  std::thread first([&] { Run({"far"}, stuck); });
  asked.WaitForNotification();
  Run({"near"}, other);
  EXPECT_THAT(other.Wait(), IsOk());
  Graph more;
  NoOp(more.root().WithDevice(kPs0).WithOpName("later"));
  EXPECT_THAT(session_->Extend(more.Export(), 0).status(), IsOk());
  ClientCall later;
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
  ClientCall call;
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
  ClientCall stuck, late;
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
  ClientCall near, far;
  Run({"near"}, near);
  EXPECT_THAT(near.Wait(), IsOk());
  Run({"far"}, far);
  EXPECT_THAT(far.Wait(), Fails(absl::StatusCode::kUnavailable, absl::StrCat(kPs1, " has left the cluster")));
}

}  // namespace
}  // namespace thalweg
