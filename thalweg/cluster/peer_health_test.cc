// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/peer_health.h"

#include <atomic>
#include <utility>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/cluster/fake_workers_testlib.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

constexpr char kPs[] = "/job:ps/replica:0/task:0";
constexpr absl::Duration kLong = absl::Seconds(60);

class PeerHealthTest : public testing::Test {
 protected:
  // A wait for the peer, and its end.
  struct Wait {
    std::shared_ptr<Cancellation> step = std::make_shared<Cancellation>();
    std::shared_ptr<Notification> ended = std::make_shared<Notification>();
    int64_t id = 0;
  };
  Wait Begin() {
    Wait wait;
    CHECK(wait.step->Register([ended = wait.ended](const absl::Status&) { ended->Notify(); }).has_value());
    wait.id = health_.Watch(
        std::make_shared<const std::vector<Peer>>(std::vector<Peer>{{kPs, workers_->Find(kPs), workers_}}), wait.step);
    return wait;
  }

  const std::shared_ptr<FakeWorkers> workers_ = std::make_shared<FakeWorkers>(std::vector<std::string>{kPs});
  std::atomic<int> asked_{0};
  PeerHealth health_{absl::Seconds(1)};
};

TEST_F(PeerHealthTest, APeerThatDoesNotAnswerIsDead) {
  workers_->at(kPs).get_status = [](const CallOptions& options, auto*, Worker::Done done) {
    EndedByCancellation(options, std::move(done));
  };
  const Wait wait = Begin();
  ASSERT_TRUE(wait.ended->WaitForNotificationWithTimeout(kLong));
  EXPECT_THAT(wait.step->status(),
              Fails(absl::StatusCode::kUnavailable, "Task /job:ps/replica:0/task:0 has not answered for 1s"));
}

TEST_F(PeerHealthTest, APeerThatCannotBeReachedIsDeadAtOnce) {
  workers_->at(kPs).get_status = [](const CallOptions&, auto*, Worker::Done done) { done(Unavailable("refused")); };
  const Wait wait = Begin();
  ASSERT_TRUE(wait.ended->WaitForNotificationWithTimeout(kLong));
  EXPECT_THAT(wait.step->status(), Fails(absl::StatusCode::kUnavailable, "refused"));
}

// However long the wait.
TEST_F(PeerHealthTest, APeerThatAnswersIsAlive) {
  workers_->at(kPs).get_status = [&](const CallOptions& options, auto*, Worker::Done done) {
    EXPECT_TRUE(options.apart);  // not behind the tensors of other calls
    ++asked_;
    done(absl::OkStatus());
  };
  const Wait wait = Begin();
  while (asked_ < 10) absl::SleepFor(absl::Milliseconds(1));  // 2 s: twice the timeout
  EXPECT_FALSE(wait.step->cancelled());
  health_.Unwatch(wait.id);
}

// Silence before a wait does not shorten its timeout.
TEST_F(PeerHealthTest, EveryWaitGrantsTheWholeTimeout) {
  std::atomic<bool> answers{false};
  workers_->at(kPs).get_status = [&](const CallOptions& options, auto*, Worker::Done done) {
    ++asked_;
    if (answers) return done(absl::OkStatus());
    EndedByCancellation(options, std::move(done));
  };
  const Wait first = Begin();
  ASSERT_TRUE(first.ended->WaitForNotificationWithTimeout(kLong));
  health_.Unwatch(first.id);
  const Wait second = Begin();
  EXPECT_FALSE(second.ended->WaitForNotificationWithTimeout(absl::Milliseconds(500)));
  ASSERT_TRUE(second.ended->WaitForNotificationWithTimeout(kLong));
  health_.Unwatch(second.id);
}

// The session that owns the workers may end while a heartbeat is in flight.
TEST_F(PeerHealthTest, AHeartbeatKeepsItsWorkerAlive) {
  auto workers = std::make_shared<FakeWorkers>(std::vector<std::string>{kPs});
  const std::weak_ptr<FakeWorkers> owner = workers;
  Worker::Done answer;
  Notification asked;
  workers->at(kPs).get_status = [&](const CallOptions&, auto*, Worker::Done done) {
    answer = std::move(done);
    asked.Notify();
  };
  const int64_t id = health_.Watch(
      std::make_shared<const std::vector<Peer>>(std::vector<Peer>{{kPs, workers->Find(kPs), std::move(workers)}}),
      std::make_shared<Cancellation>());
  ASSERT_TRUE(asked.WaitForNotificationWithTimeout(kLong));
  health_.Unwatch(id);
  EXPECT_FALSE(owner.expired()) << "its answer is still to come";
  std::exchange(answer, nullptr)(absl::OkStatus());
  const absl::Time deadline = absl::Now() + kLong;  // the thread that asked may still be at it
  while (!owner.expired() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(owner.expired());
}

TEST_F(PeerHealthTest, CallsAreEndedFromOutsideToo) {
  Cancellation outside;
  const WatchedCalls calls(&health_, {{kPs, workers_->Find(kPs), workers_}}, &outside);
  EXPECT_EQ(calls.Explain(absl::OkStatus()), absl::OkStatus());
  EXPECT_EQ(calls.Explain(NotFound("x")), NotFound("x"));
  outside.Cancel(DeadlineExceeded("the time is over"));
  EXPECT_TRUE(calls.cancellation()->cancelled());
  EXPECT_EQ(calls.Explain(Cancelled("the call")), DeadlineExceeded("the time is over"));
  const WatchedCalls late(nullptr, {}, &outside);
  EXPECT_TRUE(late.cancellation()->cancelled());
}

}  // namespace
}  // namespace thalweg
