// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/token_queue.h"

#include <limits>
#include <map>

#include "absl/time/clock.h"
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kChief[] = "/job:worker/replica:0/task:0";
constexpr char kWorker[] = "/job:worker/replica:0/task:1";
constexpr char kPs[] = "/job:ps/replica:0/task:0";

class TokenQueueTest : public testing::Test {
 protected:
  TokenQueueTest() {
    auto made = TokenQueue::Make({.kind = "FIFOQueue", .name = "sync_token_q", .types = {kInt64}});
    EXPECT_TRUE(made.ok()) << made.status();
    queue_ = std::static_pointer_cast<TokenQueue>(*made);
  }
  void Put(int64_t step, int count, const std::string& task = kChief) {
    queue_->EnqueueMany({Tensor::Vector<int64_t>(std::vector<int64_t>(count, step))}, {.task = task},
                        [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  }
  // The token, or the error, goes to `got_` when it is there.
  void Take(const std::string& task) {
    queue_->Dequeue({.task = task}, [this](const absl::Status& status, Tuple token) {
      got_.push_back(status.ok() ? absl::StrCat(token[0].scalar<int64_t>()) : std::string(status.ToString()));
    });
  }

  std::shared_ptr<TokenQueue> queue_;
  std::vector<std::string> got_;
};

TEST_F(TokenQueueTest, IsTheQueueOfSyncReplicas) {
  EXPECT_TRUE(TokenQueue::Is({.name = "sync_token_q", .types = {kInt64}}));
  EXPECT_TRUE(TokenQueue::Is({.name = "sync_token_q", .types = {kInt32}}));
  EXPECT_FALSE(TokenQueue::Is({.name = "sync_token_q", .types = {kFloat}}));
  EXPECT_FALSE(TokenQueue::Is({.name = "sync_token_q", .types = {kInt64, kInt64}}));
  EXPECT_FALSE(TokenQueue::Is({.name = "queue", .types = {kInt64}}));
}

TEST_F(TokenQueueTest, TheTokenOfAWorkerThatLeftGoesToAnother) {
  Put(7, 2);
  Take(kWorker);
  Take(kChief);
  Take(kChief);
  EXPECT_THAT(got_, ElementsAre("7", "7"));
  queue_->TaskLeft(kWorker);
  EXPECT_THAT(got_, ElementsAre("7", "7", "7"));
  // It had but one.
  Take(kChief);
  queue_->TaskLeft(kWorker);
  EXPECT_EQ(got_.size(), 3);
}

TEST_F(TokenQueueTest, AWorkerThatNeverCameLeavesATokenForItsFirstGradient) {
  Take(kChief);
  queue_->TaskLeft(kPs);
  EXPECT_THAT(got_, IsEmpty());
  queue_->TaskLeft(kWorker);
  EXPECT_THAT(got_, ElementsAre(absl::StrCat(std::numeric_limits<int64_t>::max())));
}

TEST_F(TokenQueueTest, WithoutAChiefThereAreNoMoreTokens) {
  Put(7, 2);
  Take(kChief);
  queue_->TaskLeft(kChief);
  for (int i = 0; i < 2; ++i) Take(kWorker);  // one is left
  EXPECT_THAT(got_, ElementsAre("7", "7", HasSubstr("task:0, which enqueues them, is done")));
  EXPECT_THAT(got_.back(), HasSubstr("OUT_OF_RANGE"));
  // The chief is started again.
  Take(kWorker);
  EXPECT_EQ(got_.size(), 4);
  Put(8, 1);
  Take(kWorker);
  EXPECT_EQ(got_.back(), "8");
}

TEST_F(TokenQueueTest, AWaitEndsWithTheChief) {
  Put(7, 1);
  Take(kWorker);
  Take(kWorker);
  EXPECT_EQ(got_.size(), 1);
  queue_->TaskLeft(kChief);
  ASSERT_EQ(got_.size(), 2);
  EXPECT_THAT(got_.back(), HasSubstr("OUT_OF_RANGE"));
}

TEST_F(TokenQueueTest, WithoutAChiefNoTokenGoesBack) {
  Put(7, 2);
  Take(kChief);
  Take(kWorker);
  queue_->TaskLeft(kChief);
  queue_->TaskLeft(kWorker);
  EXPECT_EQ(queue_->size(), 0);
  Take("/job:worker/replica:0/task:2");
  EXPECT_THAT(got_, ElementsAre("7", "7", HasSubstr("OUT_OF_RANGE")));
}

TEST_F(TokenQueueTest, AnotherTaskMayTakeOver) {
  Put(7, 1);
  Put(7, 1, kWorker);
  Take(kWorker);
  Take(kWorker);
  Take(kWorker);
  queue_->TaskLeft(kChief);
  EXPECT_EQ(got_.size(), 2);
  Put(8, 1, kWorker);
  EXPECT_THAT(got_, ElementsAre("7", "7", "8"));
}

// Times of waits are real, so a limit of zero stands for one that has passed.
constexpr absl::Duration kPassed = absl::ZeroDuration();

TEST_F(TokenQueueTest, AWaitForAWorkerThatFailedEnds) {
  Put(7, 2);
  Take(kWorker);
  Take(kChief);
  const std::map<std::string, TaskFailure> failed = {{kWorker, {.when = absl::Now() - absl::Seconds(90)}}};
  queue_->TasksFailed(failed, kPassed);  // nobody waits
  Take(kChief);
  queue_->TasksFailed(failed, absl::Hours(1));
  EXPECT_EQ(got_.size(), 2);
  queue_->TasksFailed(failed, kPassed);
  ASSERT_EQ(got_.size(), 3);
  EXPECT_THAT(got_.back(), HasSubstr("DEADLINE_EXCEEDED"));
  EXPECT_THAT(got_.back(),
              HasSubstr("waits for gradients of /job:worker/replica:0/task:1, which ended with an error 1m30s ago"));
  // If the worker is restarted after all, training goes on.
  Take(kChief);
  Put(8, 1);
  EXPECT_EQ(got_.back(), "8");
}

TEST_F(TokenQueueTest, AWaitForAWorkerThatIsUnreachableEnds) {
  Put(7, 2);
  for (const char* const task : {kWorker, kChief, kChief}) Take(task);
  queue_->TasksFailed({{kWorker, {.when = absl::Now() - absl::Seconds(90), .unreachable = true}}}, kPassed);
  ASSERT_EQ(got_.size(), 3);
  EXPECT_THAT(got_.back(),
              HasSubstr("waits for gradients of /job:worker/replica:0/task:1, which has not answered for 1m30s"));
}

TEST_F(TokenQueueTest, AWorkerThatComputesMayStillEndTheWait) {
  constexpr char kOther[] = "/job:worker/replica:0/task:2";
  Put(7, 3);
  for (const char* const task : {kWorker, kOther, kChief, kChief}) Take(task);
  const std::map<std::string, TaskFailure> failed = {{kWorker, {.when = absl::Now() - absl::Seconds(90)}}};
  queue_->TasksFailed(failed, kPassed);
  EXPECT_EQ(got_.size(), 3);
  Take(kOther);
  queue_->TasksFailed(failed, kPassed);
  EXPECT_EQ(got_.size(), 5);
}

TEST_F(TokenQueueTest, AWaitForAChiefThatFailedEnds) {
  Put(7, 2);
  for (const char* const task : {kChief, kWorker, kWorker}) Take(task);
  queue_->TasksFailed({{kChief, {.when = absl::Now()}}}, kPassed);
  ASSERT_EQ(got_.size(), 3);
  EXPECT_THAT(got_.back(), HasSubstr("waits for tokens of /job:worker/replica:0/task:0"));
}

}  // namespace
}  // namespace thalweg
