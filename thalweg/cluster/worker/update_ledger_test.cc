// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/update_ledger.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "thalweg/cluster/worker/sender_clock.h"
#include "thalweg/graph/scope.h"
#include "thalweg/graph/sync_role.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/roster_ops.h"

namespace thalweg {
namespace {

TEST(UpdateLedger, AnUpdateCountsOncePerStep) {
  UpdateLedger ledger;
  const StepIdentity first{.client = 1, .sequence = 1}, second{.client = 1, .sequence = 2}, other{.client = 2};
  EXPECT_TRUE(ledger.Claim(first, 10));
  EXPECT_FALSE(ledger.Claim(first, 10));
  EXPECT_TRUE(ledger.Claim(first, 11));
  ledger.Unclaim(first, 11);  // it has failed
  EXPECT_TRUE(ledger.Claim(first, 11));
  EXPECT_TRUE(ledger.Claim(other, 10));
  EXPECT_TRUE(ledger.Claim(second, 10));
  EXPECT_FALSE(ledger.Claim(first, 12)) << "the client is at a later step";
  ledger.Unclaim(first, 10);
  EXPECT_FALSE(ledger.Claim(second, 10));
  ledger.Forget();
  EXPECT_TRUE(ledger.Claim(second, 10));
  EXPECT_FALSE(ledger.Claim(first, 10));
}

TEST(UpdateLedger, ClientsThatAreGoneDoNotStay) {
  UpdateLedger ledger;
  EXPECT_TRUE(ledger.Claim({.client = 1, .sequence = 1}, 10));
  for (uint64_t client = 2; client < 10'000; ++client) {
    EXPECT_TRUE(ledger.Claim({.client = client, .sequence = 1}, 10));
    EXPECT_FALSE(ledger.Claim({.client = 1, .sequence = 1}, 10)) << "it was heard lately";
  }
  EXPECT_TRUE(ledger.Claim({.client = 2, .sequence = 1}, 10));
}

// Ops of which only the role says that they take part in training, not the name.
const OpRegistration kLedgerRoleOps[] = {
    Op("LedgerTestSubmit"),
    Op("LedgerTestTake"),
    Op("LedgerTestFinish"),
    Op("LedgerTestAccumulatorApplyGradient"),
};
const SyncRoleRegistration kLedgerRoles[] = {
    {"LedgerTestSubmit", SyncRole::kSubmitGradient},
    {"LedgerTestTake", SyncRole::kTakeGradients},
    {"LedgerTestFinish", SyncRole::kFinishStep},
};

TEST(IsTraining, TheRolesOfOpsCount) {
  const auto trains = [](const std::vector<const char*>& ops) {
    Graph graph;
    for (const char* op : ops) graph.root().Add(op, {});
    return IsTraining(graph);
  };
  EXPECT_TRUE(trains({"LedgerTestSubmit", "LedgerTestFinish"}));
  EXPECT_FALSE(trains({"LedgerTestAccumulatorApplyGradient"}));
  EXPECT_FALSE(trains({"LedgerTestSubmit", "LedgerTestTake"})) << "an aggregation is not a step of its own";
}

TEST(IsTraining, GradientsThatAreSubmittedChangeNoVariable) {
  Graph graph;
  const Scope s = graph.root();
  const Output accumulator = ConditionalAccumulator(s, kFloat, Shape());
  const Output apply = AccumulatorApplyGradient(s, accumulator, Const(s, int64_t{0}), Const(s, 1.0f));
  EXPECT_FALSE(ChangesVariable(*apply.node));
  EXPECT_TRUE(IsTraining(graph));
  AccumulatorTakeRound(s, accumulator, Const(s, int64_t{0}), kFloat);
  EXPECT_FALSE(IsTraining(graph));
}

TEST(OncePerStep, WrapsOpsThatCountAStep) {
  class Nothing final : public Kernel {
    absl::Status Compute(KernelContext&) override { return absl::OkStatus(); }
  };
  UpdateLedger ledger;
  Graph graph;
  const Scope s = graph.root();
  const auto is_wrapped = [&](const char* op) {
    const auto kernel = std::make_shared<Nothing>();
    return OncePerStep(kernel, *s.Add(op, {}), &ledger) != kernel;
  };
  EXPECT_TRUE(is_wrapped("LedgerTestSubmit"));
  EXPECT_TRUE(is_wrapped("LedgerTestFinish"));
  EXPECT_FALSE(is_wrapped("LedgerTestAccumulatorApplyGradient"));
  EXPECT_FALSE(is_wrapped("LedgerTestTake"));
}

TEST(OncePerStep, GradientsThatWereDroppedAreSentAgain) {
  static constexpr StepIdentity kStep{.client = 1, .sequence = 1};
  class Drop final : public Kernel {
   public:
    explicit Drop(UpdateLedger& ledger) : ledger_(ledger) {}
    absl::Status Compute(KernelContext&) override {
      EXPECT_TRUE(ledger_.Claim(kStep, 10));
      return absl::OkStatus();
    }

   private:
    UpdateLedger& ledger_;
  };
  UpdateLedger ledger;
  Graph graph;
  const Scope s = graph.root();
  const Output accumulator = ConditionalAccumulator(s, kFloat, Shape());
  const Output reset = AccumulatorReset(s, accumulator, Const(s, int64_t{0}), Const(s, int64_t{0}));
  ASSERT_TRUE(s.ok()) << s.status();
  const auto kernel = OncePerStep(std::make_shared<Drop>(ledger), *reset.node, &ledger);
  TrackedStep step;
  KernelContext context(&step, nullptr);
  ASSERT_TRUE(kernel->Compute(context).ok());
  EXPECT_TRUE(ledger.Claim(kStep, 10)) << "it came just before the reset, and was dropped";
}

TEST(SenderClock, TellsTheAgeOfMessages) {
  constexpr int64_t kMilli = 1'000'000, kSecond = 1000 * kMilli;
  SenderClock clock;
  const int64_t offset = -77 * kSecond;  // offset of the other machine's clock
  const auto age = [&](int64_t sent, int64_t came) { return clock.Age(sent + offset, came); };
  EXPECT_EQ(age(0, 5 * kMilli), absl::ZeroDuration());
  EXPECT_EQ(age(kSecond, kSecond + kMilli), absl::ZeroDuration()) << "a shorter way than the first";
  EXPECT_NEAR(absl::ToDoubleSeconds(age(2 * kSecond, 5 * kSecond)), 3, 0.01);
  EXPECT_NEAR(absl::ToDoubleSeconds(age(6 * kSecond, 6 * kSecond + kMilli)), 0, 0.01);
  // Clocks that drift apart, by 100 parts in a million.
  for (int64_t t = 10; t < 100'000; t += 10) {
    EXPECT_LT(age(t * kSecond - t * kSecond / 10'000, t * kSecond), absl::Milliseconds(20));
  }
}

}  // namespace
}  // namespace thalweg
