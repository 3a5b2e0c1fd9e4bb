// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/faults/fault_injector.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/faults/network_faults.h"

namespace thalweg {
namespace {

const std::map<std::string, std::string> kAddresses = {{"ps:0", "a:1"}, {"ps:1", "b:1"}, {"worker:0", "c:1"}};

std::unique_ptr<FaultInjector> Inject(const std::string& text, const std::string& task = "ps:0") {
  const auto plan = FaultPlan::Parse(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  auto injector = FaultInjector::Start(*plan, {.task = task, .addresses = kAddresses});
  EXPECT_TRUE(injector.ok()) << injector.status();
  return *std::move(injector);
}

TEST(FailPoint, IsOffWithoutAHandler) {
  EXPECT_TRUE(FailPoint("restore").ok());
  int passed = 0;
  SetFailPointHandler([&](absl::string_view point, absl::string_view task) {
    ++passed;
    EXPECT_EQ(point, "restore");
    EXPECT_EQ(task, "/job:ps/replica:0/task:0");
    return absl::UnavailableError("no");
  });
  EXPECT_EQ(FailPoint("restore", "/job:ps/replica:0/task:0").message(), "no");
  PassFailPoint("restore", "/job:ps/replica:0/task:0");
  SetFailPointHandler(nullptr);
  EXPECT_TRUE(FailPoint("restore").ok());
  EXPECT_EQ(passed, 2);
}

TEST(FaultInjector, AFaultStrikesAtItsTaskItsPointAndItsNumber) {
  const auto injector = Inject("fail=ps:0@worker.apply:2,fail=ps:1@restore,fail=ps:0@worker.run_graph");
  EXPECT_TRUE(FailPoint("worker.apply").ok());
  EXPECT_EQ(FailPoint("worker.apply").code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(FailPoint("worker.apply").ok());
  EXPECT_TRUE(FailPoint("restore").ok()) << "it is another task's";
  EXPECT_TRUE(FailPoint("worker.run_graph", "/job:ps/replica:0/task:1").ok()) << "another task of this process";
  EXPECT_FALSE(FailPoint("worker.run_graph", "/job:ps/replica:0/task:0").ok());
}

TEST(FaultInjector, ADiskIsFullForAsLongAsItSays) {
  const auto injector = Inject("disk=ps:0:full@disk.write:2+50ms");
  EXPECT_TRUE(FailPoint("disk.write").ok());
  EXPECT_EQ(FailPoint("disk.write").code(), absl::StatusCode::kResourceExhausted);
  while (!FailPoint("disk.write").ok()) {
  }
}

TEST(FaultInjector, RefusesTasksThatThereAreNotAndClocks) {
  const auto start = [](const char* text) {
    return FaultInjector::Start(*FaultPlan::Parse(text), {.task = "ps:0", .addresses = kAddresses}).status();
  };
  EXPECT_THAT(start("kill=ps:2@1s").message(), testing::HasSubstr("no task ps:2; there are ps:0, ps:1, worker:0"));
  EXPECT_THAT(start("partition=ps:0|worker:1").message(), testing::HasSubstr("no task worker:1"));
  EXPECT_THAT(start("clock=+30s").message(), testing::HasSubstr("only thalweg run"));
}

// In a process of its own.
int StatusOfChild(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(3);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(FaultInjector, KillsTheProcess) {
  const int status = StatusOfChild([] {
    const auto injector = Inject("kill=ps:0@step:3");
    for (int i = 0; i < 2; ++i) PassFailPoint("worker.run_graph");
    if (!FailPoint("worker.run_graph").ok()) _exit(4);
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(FaultInjector, StopsTheProcessForAWhile) {
  const int status = StatusOfChild([] {
    const auto injector = Inject("stop=ps:0@restore+200ms");
    const int64_t start = NowNanos();
    PassFailPoint("restore");
    _exit(NowNanos() - start >= 150'000'000 ? 0 : 1);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(NetworkFaults, DrawsAsManyAsTheProbabilitySays) {
  NetworkFaults network(*FaultPlan::Parse("seed=3,drop=20%,dup=50%,delay=2ms..4ms"), kAddresses);
  int lost_requests = 0, lost_answers = 0, twice = 0;
  for (int i = 0; i < 1000; ++i) {
    const NetworkFaults::Fate fate = network.Next("a:1", "b:1");
    lost_requests += fate.lose_request;
    lost_answers += fate.lose_answer;
    twice += fate.duplicate;
    EXPECT_GE(fate.delay, absl::Milliseconds(2));
    EXPECT_LE(fate.delay, absl::Milliseconds(4));
  }
  EXPECT_NEAR(lost_requests, 100, 40);
  EXPECT_NEAR(lost_answers, 100, 40);
  EXPECT_NEAR(twice, 500, 80);
}

TEST(NetworkFaults, APartitionSeparatesItsSides) {
  NetworkFaults two(*FaultPlan::Parse("partition=ps:0|worker:0@0s+1h"), kAddresses);
  EXPECT_GT(two.CutOffFor("a:1", "c:1"), absl::Minutes(59));
  EXPECT_GT(two.CutOffFor("c:1", "a:1"), absl::Minutes(59));
  EXPECT_EQ(two.CutOffFor("a:1", "b:1"), absl::ZeroDuration());
  EXPECT_EQ(two.CutOffFor("", "a:1"), absl::ZeroDuration()) << "a client is beside its server";
  NetworkFaults one(*FaultPlan::Parse("partition=ps:0"), kAddresses);
  EXPECT_EQ(one.CutOffFor("b:1", "a:1"), absl::InfiniteDuration());
  EXPECT_EQ(one.CutOffFor("b:1", "c:1"), absl::ZeroDuration());
  NetworkFaults later(*FaultPlan::Parse("partition=ps:0@1h"), kAddresses);
  EXPECT_EQ(later.CutOffFor("b:1", "a:1"), absl::ZeroDuration());
}

}  // namespace
}  // namespace thalweg
