// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/step_rendezvous.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/fake_workers_testlib.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using testing::ElementsAre;

constexpr const char* kSelf = "/job:worker/replica:0/task:0";
constexpr const char* kPs0 = "/job:ps/replica:0/task:0";
constexpr const char* kPs1 = "/job:ps/replica:0/task:1";
constexpr const char* kForeign = "/job:tf/replica:0/task:0";  // takes no pushes
constexpr int64_t kStep = 12;

std::string Key(const char* from, const char* to, const std::string& edge) {
  return RendezvousKey{absl::StrCat(from, "/device:CPU:0"), 1, absl::StrCat(to, "/device:CPU:0"), edge}.ToString();
}

Rendezvous::Value Float(float value) { return {Tensor::Scalar(value), false}; }
Rendezvous::Value Large() { return {Tensor(kFloat, {1 << 15}), false}; }  // 128 KB

// A push that has reached its task and waits for the answer.
struct Pushed {
  std::string to;
  std::vector<std::string> keys;
  Worker::Done done;
};

// The part of a step in `kSelf`.
class StepRendezvousTest : public testing::Test {
 protected:
  StepRendezvousTest() {
    for (const char* task : {kPs0, kPs1, kForeign}) {
      workers_->at(task).push = [this, task](int64_t step_id, std::vector<Transfer> tensors, Worker::Done done) {
        EXPECT_EQ(step_id, kStep);
        Pushed pushed{.to = task, .keys = {}, .done = std::move(done)};
        for (const Transfer& t : tensors) pushed.keys.push_back(t.key);
        pushed_.push_back(std::move(pushed));
      };
    }
  }
  void Join(const std::string& hold_for = "") {
    step_->SetCluster(kSelf, workers_,
                      std::make_shared<TransferRules>(TransferRules{
                          .push_tasks = {kSelf, kPs0, kPs1}, .master_task = hold_for, .all_pushed = false}),
                      hold_for);
  }
  // The result of a receive; UNKNOWN while it waits.
  struct Received {
    absl::Status status = absl::UnknownError("it waits");
    Rendezvous::Value value;
  };
  std::shared_ptr<Received> Receive(const std::string& key) {
    auto received = std::make_shared<Received>();
    step_->RecvAsync(key, [received](const absl::Status& status, Rendezvous::Value value) {
      *received = {status, std::move(value)};
    });
    return received;
  }
  absl::Status Finish() {
    absl::Status result = absl::UnknownError("pushes are under way");
    step_->FinishPushes([&](const absl::Status& status) { result = status; });
    return result;
  }

  const std::shared_ptr<FakeWorkers> workers_ =
      std::make_shared<FakeWorkers>(std::vector<std::string>{kSelf, kPs0, kPs1, kForeign});
  const std::shared_ptr<StepRendezvous> step_ = std::make_shared<StepRendezvous>(kStep);
  std::vector<Pushed> pushed_;
};

TEST_F(StepRendezvousTest, WhatIsForATaskOfOursIsPushedAtOnce) {
  Join();
  const std::string key = Key(kSelf, kPs0, "a");
  ASSERT_OK(step_->Send(key, Float(1)));
  ASSERT_EQ(pushed_.size(), 1);
  EXPECT_EQ(pushed_[0].to, kPs0);
  EXPECT_THAT(pushed_[0].keys, ElementsAre(key));
}

TEST_F(StepRendezvousTest, SmallTensorsOfABatchGoTogether) {
  Join();
  const std::string a = Key(kSelf, kPs0, "a"), b = Key(kSelf, kPs0, "b"), c = Key(kSelf, kPs1, "c");
  {
    const StepRendezvous::Batch batch(step_);
    ASSERT_OK(step_->Send(c, Large()));
    ASSERT_EQ(pushed_.size(), 1) << "a large tensor does not wait";
    EXPECT_EQ(pushed_[0].to, kPs1);
    const size_t before = pushed_.size();
    ASSERT_OK(step_->Send(a, Float(1)));
    ASSERT_OK(step_->Send(b, Float(2)));
    EXPECT_LE(pushed_.size(), before + 1);
  }
  std::vector<std::string> keys;
  for (size_t i = 1; i < pushed_.size(); ++i) {
    EXPECT_EQ(pushed_[i].to, kPs0);
    keys.insert(keys.end(), pushed_[i].keys.begin(), pushed_[i].keys.end());
  }
  EXPECT_THAT(keys, ElementsAre(a, b));
}

TEST_F(StepRendezvousTest, AStepHasEndedWhenItsPushesHaveArrived) {
  Join();
  ASSERT_OK(step_->Send(Key(kSelf, kPs0, "a"), Float(1)));
  ASSERT_OK(step_->Send(Key(kSelf, kPs1, "b"), Float(1)));
  absl::Status result = absl::UnknownError("pushes are under way");
  step_->FinishPushes([&](const absl::Status& status) { result = status; });
  pushed_[0].done(absl::OkStatus());
  EXPECT_THAT(result, Fails(absl::StatusCode::kUnknown, "under way"));
  pushed_[1].done(absl::OkStatus());
  EXPECT_THAT(result, IsOk());
}

TEST_F(StepRendezvousTest, APushThatFailsEndsTheStep) {
  Join();
  const auto received = Receive(Key(kPs0, kSelf, "x"));
  ASSERT_OK(step_->Send(Key(kSelf, kPs0, "a"), Float(1)));
  pushed_[0].done(Unavailable("gone"));
  EXPECT_THAT(received->status, Fails(absl::StatusCode::kUnavailable, "gone"));
  EXPECT_THAT(step_->Send(Key(kSelf, kPs1, "b"), Float(1)), Fails(absl::StatusCode::kUnavailable, "gone"));
  EXPECT_THAT(Finish(), Fails(absl::StatusCode::kUnavailable, "gone"));
}

TEST_F(StepRendezvousTest, WhatIsPushedHereMeetsItsReceive) {
  const std::string early = Key(kPs0, kSelf, "early"), late = Key(kPs0, kSelf, "late");
  ASSERT_OK(step_->Deliver({{early, Float(1)}}));  // the step has not come yet
  Join();
  const auto first = Receive(early), second = Receive(late);
  ASSERT_OK(first->status);
  EXPECT_EQ(first->value.tensor.scalar<float>(), 1);
  EXPECT_FALSE(second->status.ok());
  ASSERT_OK(step_->Deliver({{late, {Tensor(), true}}}));
  ASSERT_OK(second->status);
  EXPECT_TRUE(second->value.dead);
}

TEST_F(StepRendezvousTest, FromAForeignTaskATensorIsFetched) {
  Join();
  const std::string key = Key(kForeign, kSelf, "a");
  Worker::Done answer;
  workers_->at(kForeign).recv_tensor = [&](const CallOptions& options, const tensorflow::RecvTensorRequest& request,
                                           Rendezvous::Value* value, Worker::Done done) {
    EXPECT_EQ(request.step_id(), kStep);
    EXPECT_EQ(request.rendezvous_key(), key);
    *value = Float(3);
    answer = EndedByCancellation(options, std::move(done));
  };
  const auto received = Receive(key);
  EXPECT_FALSE(received->status.ok());
  answer(absl::OkStatus());
  ASSERT_OK(received->status);
  EXPECT_EQ(received->value.tensor.scalar<float>(), 3);
}

TEST_F(StepRendezvousTest, AForeignTaskFetchesWhatIsForIt) {
  Join();
  const std::string key = Key(kSelf, kForeign, "a");
  ASSERT_OK(step_->Send(key, Float(4)));
  EXPECT_TRUE(pushed_.empty());
  float got = 0;
  step_->RecvLocalAsync(key, [&](const absl::Status& status, Rendezvous::Value value) {
    EXPECT_THAT(status, IsOk());
    got = value.tensor.scalar<float>();
  });
  EXPECT_EQ(got, 4);
}

TEST_F(StepRendezvousTest, AbortEndsEveryWait) {
  Join();
  workers_->at(kForeign).recv_tensor = [](const CallOptions& options, const tensorflow::RecvTensorRequest&,
                                          Rendezvous::Value*,
                                          Worker::Done done) { EndedByCancellation(options, std::move(done)); };
  const auto pushed = Receive(Key(kPs0, kSelf, "a")), fetched = Receive(Key(kForeign, kSelf, "b"));
  step_->Abort(Cancelled("enough"));
  EXPECT_THAT(pushed->status, Fails(absl::StatusCode::kCancelled, "enough"));
  EXPECT_THAT(fetched->status, Fails(absl::StatusCode::kCancelled, "enough"));
  EXPECT_THAT(Receive(Key(kPs0, kSelf, "c"))->status, Fails(absl::StatusCode::kCancelled, "enough"));
}

TEST_F(StepRendezvousTest, ATaskThatTheClusterDoesNotHaveIsAnError) {
  Join();
  EXPECT_THAT(Receive(Key("/job:ps/replica:0/task:9", kSelf, "a"))->status,
              Fails(absl::StatusCode::kInternal, "No worker known as /job:ps/replica:0/task:9"));
}

TEST_F(StepRendezvousTest, SmallTensorsForTheMasterGoWithTheAnswer) {
  Join(kPs0);
  const std::string key = Key(kSelf, kPs0, "a");
  ASSERT_OK(step_->Send(key, Float(1)));
  const std::vector<Transfer> held = step_->TakeHeld();
  ASSERT_EQ(held.size(), 1);
  EXPECT_EQ(held[0].key, key);
  EXPECT_THAT(Finish(), IsOk());
  EXPECT_TRUE(pushed_.empty());
}

TEST_F(StepRendezvousTest, LargeTensorsForTheMasterArePushed) {
  Join(kPs0);
  ASSERT_OK(step_->Send(Key(kSelf, kPs0, "a"), Large()));
  EXPECT_TRUE(step_->TakeHeld().empty());
  EXPECT_THAT(Finish(), Fails(absl::StatusCode::kUnknown, "under way"));
  ASSERT_EQ(pushed_.size(), 1);
  EXPECT_EQ(pushed_[0].to, kPs0);
}

}  // namespace
}  // namespace thalweg
