// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/faults/fault_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

TEST(FaultPlan, EveryKindOfFault) {
  const auto plan = FaultPlan::Parse(
      "seed=7,kill=ps:0@step:120,terminate=worker:0@1m,stop=worker:1@worker.apply:50+3s,hang=ps:1@restore+1s,"
      "fail=ps:0@save.before_rename:2,drop=2%,dup=1.5%@5s+2s,delay=1ms..20ms,partition=ps:0&ps:1|worker:0@10s+4s,"
      "partition=worker:1@3s,disk=full@20s+5s,disk=ps:0:slow:20ms@0s,clock=-30s@10s");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->seed, 7);
  ASSERT_EQ(plan->faults.size(), 13);
  const Fault& kill = plan->faults[0];
  EXPECT_EQ(kill.kind, Fault::Kind::kKill);
  EXPECT_EQ(kill.task, "ps:0");
  EXPECT_EQ(kill.point, "worker.run_graph");
  EXPECT_EQ(kill.nth, 120);
  EXPECT_FALSE(kill.is_of_launcher());
  EXPECT_EQ(plan->faults[1].time, absl::Minutes(1));
  EXPECT_TRUE(plan->faults[1].is_of_launcher());
  EXPECT_EQ(plan->faults[2].lasts, absl::Seconds(3));
  EXPECT_EQ(plan->faults[5].probability, 0.02);
  EXPECT_EQ(plan->faults[5].lasts, absl::InfiniteDuration());
  EXPECT_EQ(plan->faults[7].max_delay, absl::Milliseconds(20));
  EXPECT_THAT(plan->faults[8].sides[0], testing::ElementsAre("ps:0", "ps:1"));
  EXPECT_THAT(plan->faults[8].sides[1], testing::ElementsAre("worker:0"));
  EXPECT_THAT(plan->faults[9].sides[1], testing::IsEmpty());
  EXPECT_EQ(plan->faults[11].task, "ps:0");
  EXPECT_EQ(plan->faults[11].delay, absl::Milliseconds(20));
  EXPECT_EQ(plan->faults[12].delay, -absl::Seconds(30));

  const auto again = FaultPlan::Parse(plan->ToString());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToString(), plan->ToString());
}

TEST(FaultPlan, RandomTimesComeFromTheSeed) {
  const std::string text = "kill=ps:0@1s..9s,stop=ps:1@step:10..90+1s..2s";
  const auto a = FaultPlan::Parse("seed=1," + text), b = FaultPlan::Parse(text + ",seed=1");
  const auto c = FaultPlan::Parse("seed=2," + text);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->ToString(), b->ToString());
  EXPECT_NE(a->ToString(), c->ToString());
  EXPECT_GE(a->faults[0].time, absl::Seconds(1));
  EXPECT_LE(a->faults[0].time, absl::Seconds(9));
  EXPECT_GE(a->faults[1].nth, 10);
  EXPECT_LE(a->faults[1].nth, 90);
  // Without a seed it has one that repeats it.
  const auto any = FaultPlan::Parse(text);
  EXPECT_EQ(FaultPlan::Parse(absl::StrCat("seed=", any->seed, ",", text))->ToString(), any->ToString());
}

struct BadPlan {
  const char* text;
  const char* why;
};

TEST(FaultPlan, SaysWhatIsWrong) {
  const BadPlan bad[] = {
      {"kill", "\"kill\": expected name=value"},
      {"seed=x", "\"seed=x\": expected a number"},
      {"burn=ps:0@1s", "\"burn=ps:0@1s\": expected seed, clock, delay, disk,"},
      {"kill=ps@1s", "\"ps\" is not a task: expected job:index, as in ps:0"},
      {"kill=ps:0", "expected @ and a time"},
      {"kill=ps:0@soon", "expected a time (10s, 5s..9s), step:N, or a fail point: master.create_session"},
      {"kill=ps:0@step:0", "expected a number from 1 after the colon"},
      {"kill=ps:0@9s..1s", "expected a time"},
      {"stop=ps:0@1s+ever", "\"+ever\": expected how long it lasts"},
      {"hang=ps:0@worker.apply", "expected how long it lasts"},
      {"fail=ps:0@1s", "expected a fail point after @"},
      {"fail=ps:0@worker.applied", "worker.applied cannot fail"},
      {"drop=2", "expected 0% to 100%"},
      {"dup=101%", "expected 0% to 100%"},
      {"delay=fast", "expected a duration"},
      {"drop=1%@worker.apply", "expected a time after @"},
      {"partition=ps:0|ps:1|ps:2", "expected two sides"},
      {"disk=empty", "expected full or slow:20ms"},
      {"clock=noon", "expected +30s or -30s"},
  };
  for (const BadPlan& plan : bad) {
    const auto parsed = FaultPlan::Parse(plan.text);
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << plan.text;
    EXPECT_THAT(parsed.status().message(), HasSubstr(plan.why));
  }
}

}  // namespace
}  // namespace thalweg
