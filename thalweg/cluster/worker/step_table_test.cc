// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/step_table.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "thalweg/base/clock_testlib.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

int64_t Nanos(absl::Duration time) { return absl::ToInt64Nanoseconds(time); }

class StepTableTest : public testing::Test {
 protected:
  FakeClock clock_;
  StepTable table_{{.max_early_bytes = 1000, .max_early_steps = 100}, clock_};
  std::shared_ptr<int> session_ = std::make_shared<int>(0);
};

TEST_F(StepTableTest, TensorsThatComeBeforeTheirStepAreKept) {
  EXPECT_THAT(table_.Admit(1, 400), IsOk());
  EXPECT_THAT(table_.Find(1)->Deliver({{"key", {Tensor::Scalar<float>(7), false}}}), IsOk());
  const auto step = table_.Begin(1, session_);
  EXPECT_THAT(step->status(), IsOk());
  float got = 0;
  step->RecvLocalAsync("key",
                       [&](const absl::Status&, Rendezvous::Value value) { got = value.tensor.scalar<float>(); });
  EXPECT_EQ(got, 7);
  EXPECT_THAT(table_.Admit(1, 10'000), IsOk()) << "it has begun";
  EXPECT_THAT(table_.Admit(2, 1000), IsOk()) << "what it held counts no more";
}

TEST_F(StepTableTest, StepsThatNeverComeHoldABoundedAmount) {
  for (int step = 0; step < 10; ++step) EXPECT_THAT(table_.Admit(step, 100), IsOk());
  EXPECT_THAT(table_.Admit(10, 1), Fails(absl::StatusCode::kResourceExhausted, "has not begun here"));
  for (int step = 10; step < 100; ++step) EXPECT_THAT(table_.Admit(step, 0), IsOk());
  EXPECT_THAT(table_.Admit(100, 0), Fails(absl::StatusCode::kResourceExhausted, "100 such steps"));
  table_.Remove(3, absl::CancelledError("over"));
  EXPECT_THAT(table_.Admit(100, 100), IsOk());
  // But not forever.
  clock_.AdvanceNanos(Nanos(absl::Minutes(2)));
  table_.Sweep();
  EXPECT_EQ(table_.size(), 0);
  EXPECT_THAT(table_.Admit(1000, 1000), IsOk());
  EXPECT_THAT(table_.Begin(5, session_)->status(), Fails(absl::StatusCode::kCancelled, "has ended"))
      << "it would wait for what was let go of";
}

TEST_F(StepTableTest, AStepWhoseTensorIsAwaitedIsNotForgotten) {
  const auto waits = table_.Find(1);
  clock_.AdvanceNanos(Nanos(absl::Hours(5)));
  table_.Sweep();
  EXPECT_EQ(table_.size(), 1);
  EXPECT_EQ(table_.Begin(1, session_), waits);
}

TEST_F(StepTableTest, StepsThatHaveEndedGoWithTheirSession) {
  for (const int64_t id : {1, 2}) {
    const auto step = table_.Begin(id, session_);
    if (id == 1) table_.End(id, *step);
  }
  table_.Sweep();
  EXPECT_EQ(table_.size(), 2) << "tasks of TensorFlow may fetch what it made";
  session_.reset();
  table_.Sweep();
  EXPECT_EQ(table_.size(), 1) << "one has not ended";
}

TEST_F(StepTableTest, AStepBeginsOnce) {
  const auto first = table_.Begin(1, session_);
  const auto second = table_.Begin(1, session_);
  EXPECT_NE(first, second);
  EXPECT_THAT(second->status(), Fails(absl::StatusCode::kAborted, "has begun here before"));
  EXPECT_THAT(first->status(), IsOk());
  table_.Forget(1, *second);
  table_.End(1, *second);
  EXPECT_EQ(table_.size(), 1) << "the first is still there";
  table_.Forget(1, *first);
  EXPECT_EQ(table_.size(), 0);
}

TEST(StepTable, AStepIsTheSameForAllUntilItIsRemoved) {
  StepTable table;
  const auto step = table.Find(1);
  EXPECT_EQ(table.Find(1), step);
  EXPECT_NE(table.Find(2), step);
  absl::Status status;
  step->RecvLocalAsync("a;1;b;edge;0:0", [&](const absl::Status& why, Rendezvous::Value) { status = why; });
  table.Remove(1, Cancelled("over"));
  EXPECT_THAT(status, Fails(absl::StatusCode::kCancelled, "over"));
  // A late request does not wait for a step that is over.
  const auto late = table.Find(1);
  EXPECT_NE(late, step);
  late->RecvLocalAsync("a;1;b;edge;0:0", [&](const absl::Status& why, Rendezvous::Value) { status = why; });
  EXPECT_THAT(status, Fails(absl::StatusCode::kCancelled, "Step 1 has ended"));
}

TEST(StepTable, AbortAllEndsEveryStep) {
  StepTable table;
  absl::Status first, second;
  table.Find(1)->RecvLocalAsync("a;1;b;e;0:0", [&](const absl::Status& s, Rendezvous::Value) { first = s; });
  table.Find(2)->RecvLocalAsync("a;1;b;e;0:0", [&](const absl::Status& s, Rendezvous::Value) { second = s; });
  table.AbortAll(Cancelled("the task ends"));
  EXPECT_THAT(first, Fails(absl::StatusCode::kCancelled, "the task ends"));
  EXPECT_THAT(second, Fails(absl::StatusCode::kCancelled, "the task ends"));
}

}  // namespace
}  // namespace thalweg
