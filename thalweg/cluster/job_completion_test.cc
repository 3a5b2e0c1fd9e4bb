// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/job_completion.h"

#include <atomic>
#include <functional>
#include <map>
#include <set>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/clock_testlib.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

const TaskId kSelf{"ps", 0}, kChief{"worker", 0}, kLate{"worker", 1};

// Other tasks that are asked for their state. Only kLate answers.
class FakePeers : public JobPeers {
 public:
  void TaskDone(const TaskId&, const CallOptions&, const TaskDoneRequest&, Worker::Done done) override {
    done(absl::OkStatus());
  }
  void GetTask(const TaskId& to, const CallOptions&, GetTaskResponse* response, Worker::Done done) override {
    done(to == kLate ? answer(response) : Unavailable("not here"));
  }
  std::function<absl::Status(GetTaskResponse*)> answer;
};

// A worker that starts shortly before the chief is done has last been asked while it was
// absent. It must be asked again.
TEST(JobCompletionTest, ATaskThatWasAbsentIsAskedAgainWhenAnotherIsDone) {
  ClusterSpec cluster;
  ASSERT_OK(cluster.AddTask(kSelf, "localhost:1"));
  ASSERT_OK(cluster.AddTask(kChief, "localhost:2"));
  ASSERT_OK(cluster.AddTask(kLate, "localhost:3"));
  FakePeers peers;
  Membership membership;
  JobCompletion completion({.cluster = cluster,
                            .self = kSelf,
                            .peers = &peers,
                            .membership = &membership,
                            .last_used = [] { return absl::FromUnixNanos(NowNanos()); },
                            .orphan_after = absl::Milliseconds(80),  // asks every 20 ms
                            .gone_after = absl::ZeroDuration()});
  std::atomic<int> asked = 0;
  peers.answer = [&](GetTaskResponse* response) -> absl::Status {
    response->set_state(GetTaskResponse::RUNNING);
    if (++asked == 1) {
      completion.TaskDone(kChief);
      return Unavailable("not started yet");
    }
    completion.TaskDone(kLate);
    return absl::OkStatus();
  };
  EXPECT_THAT(completion.Wait(), IsOk());
  EXPECT_GE(asked, 2);
}

// A task that was killed announces nothing. Those that wait notice that it does not answer any
// more, and that it answers again.
TEST(JobCompletionTest, ATaskThatDoesNotAnswerAnyMoreHasFailed) {
  ClusterSpec cluster;
  ASSERT_OK(cluster.AddTask(kSelf, "localhost:1"));
  ASSERT_OK(cluster.AddTask(kChief, "localhost:2"));  // it never answers, so it has not failed
  ASSERT_OK(cluster.AddTask(kLate, "localhost:3"));
  FakePeers peers;
  Membership membership;
  std::atomic<bool> answers = true, is_back = false;
  std::atomic<int> reports = 0;
  peers.answer = [&](GetTaskResponse* response) -> absl::Status {
    response->set_state(is_back ? GetTaskResponse::DONE : GetTaskResponse::RUNNING);
    return answers.exchange(false) || is_back ? absl::OkStatus() : Unavailable("killed");
  };
  JobCompletion completion({.cluster = cluster,
                            .self = kSelf,
                            .peers = &peers,
                            .membership = &membership,
                            .on_tasks_failed =
                                [&](const std::map<TaskId, TaskFailure>& failed) {
                                  ++reports;
                                  ASSERT_EQ(failed.size(), 1);
                                  EXPECT_EQ(failed.begin()->first, kLate);
                                  EXPECT_TRUE(failed.begin()->second.unreachable);
                                  is_back = true;
                                },
                            .last_used = [] { return absl::FromUnixNanos(NowNanos()); },
                            .orphan_after = absl::Milliseconds(80),  // asks every 20 ms
                            .gone_after = absl::ZeroDuration(),
                            // It concerns training that waits. Join() waits on for a task that was killed.
                            .failed_after = absl::ZeroDuration()});
  EXPECT_THAT(completion.Wait(), IsOk());
  EXPECT_GE(reports, 1);
}

// A task may be killed before it is asked for the first time. Its master has used this task.
TEST(JobCompletionTest, ATaskThatWasKilledBeforeItAnsweredHasFailed) {
  ClusterSpec cluster;
  ASSERT_OK(cluster.AddTask(kSelf, "localhost:1"));
  ASSERT_OK(cluster.AddTask(kChief, "localhost:2"));
  ASSERT_OK(cluster.AddTask(kLate, "localhost:3"));
  FakePeers peers;
  peers.answer = [](GetTaskResponse*) { return Unavailable("killed"); };
  Membership membership;
  std::set<TaskId> lost;
  JobCompletion completion({.cluster = cluster,
                            .self = kSelf,
                            .peers = &peers,
                            .membership = &membership,
                            .on_tasks_failed =
                                [&](const std::map<TaskId, TaskFailure>& failed) {
                                  for (const auto& [task, how] : failed) lost.insert(task);
                                  completion.TaskDone(kChief);
                                  completion.TaskDone(kLate);
                                },
                            .last_used = [] { return absl::FromUnixNanos(NowNanos()); },
                            .orphan_after = absl::Milliseconds(80),  // asks every 20 ms
                            .gone_after = absl::ZeroDuration()});
  completion.MasterSeen(kLate.ToString());
  completion.MasterSeen("/job:other/replica:0/task:0");  // no task of this cluster
  EXPECT_THAT(completion.Wait(), IsOk());
  completion.Stop();
  EXPECT_EQ(lost, std::set<TaskId>{kLate});
}

// Anyone can send TaskDone.
TEST(JobCompletionTest, KeepsNothingOfATaskThatIsNotInTheCluster) {
  ClusterSpec cluster;
  ASSERT_OK(cluster.AddTask(kSelf, "localhost:1"));
  ASSERT_OK(cluster.AddTask(kChief, "localhost:2"));
  FakePeers peers;
  Membership membership;
  std::set<TaskId> done;
  JobCompletion completion({.cluster = cluster,
                            .self = kSelf,
                            .peers = &peers,
                            .membership = &membership,
                            .on_task_done = [&](const TaskId& task) { done.insert(task); }});
  completion.TaskDone({std::string(1000, 'x'), 0});
  completion.TaskDone({"worker", 7});
  EXPECT_THAT(membership.SeenTasks(), testing::IsEmpty());
  EXPECT_THAT(done, testing::IsEmpty());
  completion.TaskDone(kChief);
  EXPECT_THAT(membership.SeenTasks(), testing::ElementsAre(kChief.ToString()));
  EXPECT_EQ(done, std::set<TaskId>{kChief});
}

// A parameter server whose cluster names no workers leaves when they have ended, and is left alone.
TEST(JobCompletionTest, AParameterServerThatDoesNotKnowItsWorkersLeavesAfterThem) {
  ClusterSpec cluster;
  ASSERT_OK(cluster.AddTask(kSelf, "localhost:1"));
  FakePeers peers;
  Membership membership;
  JobCompletion completion({.cluster = cluster, .self = kSelf, .peers = &peers, .membership = &membership});
  completion.TaskDone(kChief);
  EXPECT_THAT(completion.Wait(), IsOk());
}

// The machine's time may jump. Durations are those of a clock that does not.
TEST(JobCompletionTest, DurationsAreMeasuredByTheMonotonicClock) {
  ClusterSpec cluster;
  ASSERT_OK(cluster.AddTask(kSelf, "localhost:1"));
  ASSERT_OK(cluster.AddTask(kChief, "localhost:2"));
  FakePeers peers;
  Membership membership;
  FakeClock clock;
  JobCompletion completion({.cluster = cluster,
                            .self = kSelf,
                            .peers = &peers,
                            .membership = &membership,
                            .clock = &clock,
                            .last_used =
                                [&] {
                                  clock.AdvanceNanos(absl::ToInt64Nanoseconds(absl::Hours(1)));
                                  return absl::InfinitePast();
                                },
                            .orphan_after = absl::Hours(10)});
  EXPECT_THAT(completion.Wait(), Fails(absl::StatusCode::kDeadlineExceeded, "10h"));
}

}  // namespace
}  // namespace thalweg
