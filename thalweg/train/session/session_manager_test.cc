// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/session_manager.h"

#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/thread.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/train/layers/variable.h"

namespace thalweg {
namespace {

struct Program {
  Program(TestCluster& cluster, int worker) {
    const Scope s = graph.root();
    MakeVariable(s.WithDevice("/job:ps/task:0"), "a", {2});
    MakeVariable(s.WithDevice("/job:ps/task:1"), "b", {2});
    const Scaffold scaffold = CompleteScaffold(s, {}, /*with_saver=*/false);
    keeper.emplace(s, scaffold,
                   SessionManagerOptions{.session = {.target = cluster.target({"worker", worker})},
                                         .is_chief = worker == 0,
                                         .max_wait = absl::Minutes(1),
                                         .ask_every = absl::Hours(1)});
  }
  Graph graph;
  std::optional<SessionManager> keeper;
};

TEST(SessionManager, AWorkerIsToldThatVariablesHaveValues) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  Program chief(cluster, 0), worker(cluster, 1);
  Notification waits;
  Thread other("worker", [&] {
    waits.Notify();
    const auto session = worker.keeper->Open(/*again=*/false);
    EXPECT_TRUE(session.ok()) << session.status();
  });
  waits.WaitForNotification();
  ASSERT_OK(chief.keeper->Open(/*again=*/false).status());
  // A closed queue gives no second signal: a late worker, and one whose variables were lost on another
  // task, must poll.
  Program late(cluster, 1);
  ASSERT_OK(late.keeper->Open(/*again=*/false).status());
}

}  // namespace
}  // namespace thalweg
