// SPDX-License-Identifier: Apache-2.0
// A member of a collective fails: before it, in it or after it. The others must learn of it, and the
// next step must work. Members share memory, have TCP connections of their own, do both, or make gRPC calls.
#include <signal.h>

#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/status.h"
#include "thalweg/client/collective_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

constexpr int kWorkers = 3;
constexpr float kBad = std::numeric_limits<float>::infinity();

class CollectiveFailureTest : public testing::TestWithParam<MembersUse> {
 protected:
  static ServerOptions Options() { return OptionsFor(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Members, CollectiveFailureTest,
                         testing::Values(MembersUse::kSharedMemory, MembersUse::kTcp, MembersUse::kTwoLevels,
                                         MembersUse::kGrpc),
                         NameOfMembersUse);

// Element 0 of the input fails a member before its first sum if it is not finite, element 1 between the two
// sums, and element 2 after them.
Member::Build TwoSums(int instance_key = 1) {
  return [=](const Scope& s, Output x) {
    const auto element = [&](int i) {
      const Output e = Slice(s, x, Const(s, Tensor::Vector<int32_t>({i})), Const(s, Tensor::Vector<int32_t>({1})));
      return Output(s.Add("CheckNumerics", {e}, {{"message", "bad value"}}));
    };
    const Output zero = Const(s, 0.f);
    // Infinities do not reach the sums.
    const Output finite = Slice(s, x, Const(s, Tensor::Vector<int32_t>({3})), Const(s, Tensor::Vector<int32_t>({-1})));
    const CollectiveOptions options{.group_size = kWorkers, .instance_key = instance_key};
    const Output first = CollectiveReduce(s, Add(s, finite, Mul(s, element(0), zero)), options);
    CollectiveOptions again = options;
    ++again.instance_key;
    const Output second = CollectiveReduce(s, Add(s, first, Mul(s, element(1), zero)), again);
    return Add(s, second, Mul(s, element(2), zero));
  };
}

// The input of a member; bad in one place if `phase` >= 0.
Tensor Input(int64_t elements, float value, int phase) {
  Tensor x(kFloat, {elements + 3});
  for (float& v : x.flat<float>()) v = value;
  if (phase >= 0) x.mutable_data<float>()[phase] = kBad;
  return x;
}

// Good steps and bad ones, in every phase, of values in the control block and of larger ones.
TEST_P(CollectiveFailureTest, EveryMemberLearnsOfAFailureAndTheNextStepWorks) {
  TestCluster cluster({{"worker", kWorkers}}, {}, TasksIn::kThisProcess, Options(), TasksPerHost(GetParam()));
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto members = Members(cluster, kWorkers, TwoSums());
    const int64_t elements = seed % 4 < 2 ? 10 : 5000;
    bool fails = false;
    for (int step = 0; step < 8; ++step, fails = random() % 2 == 0) {
      const int bad = static_cast<int>(random() % kWorkers), phase = static_cast<int>(random() % 3);
      const auto results =
          RunAll(members, [&](int i) { return Input(elements, i + 1.f, fails && i == bad ? phase : -1); });
      for (int i = 0; i < kWorkers; ++i) {
        if (results[i].ok()) {
          EXPECT_TRUE(!fails || (phase == 2 && i != bad)) << "member " << i << " of step " << step;
          for (const float v : results[i]->flat<float>()) ASSERT_EQ(v, 18);
          continue;
        }
        const std::string error = results[i].status().ToString();
        ASSERT_TRUE(fails) << error;
        EXPECT_THAT(error, HasSubstr("bad value"));
        if (i != bad) {
          EXPECT_THAT(error, HasSubstr(absl::StrCat("Task /job:worker/replica:0/task:", bad)));
        }
      }
    }
  }
}

// Members that fail in the first step of their session do not know the group yet, so that they cannot tell it.
// One that begins later than the failure joins the second step of the others.
TEST_P(CollectiveFailureTest, TheFirstStepMayFail) {
  TestCluster cluster({{"worker", kWorkers}}, {}, TasksIn::kThisProcess, Options(), TasksPerHost(GetParam()));
  for (int bad = 0; bad < kWorkers; ++bad) {
    const auto members = Members(cluster, kWorkers, TwoSums());
    std::vector<std::thread> clients;
    for (int i = 0; i < kWorkers; ++i) {
      clients.emplace_back([&, i] {
        absl::StatusOr<Tensor> result = members[i]->Run(Input(2000, i + 1.f, i == bad ? 0 : -1));
        EXPECT_TRUE(i != bad || !result.ok());
        for (int attempt = 0; attempt < 3 && !result.ok(); ++attempt) {
          EXPECT_THAT(result.status().ToString(), HasSubstr("bad value"));
          result = members[i]->Run(Input(2000, i + 1.f, -1));
        }
        ASSERT_OK(result.status());
        EXPECT_EQ(result->flat<float>()[0], 18);
      });
    }
    for (std::thread& client : clients) client.join();
  }
}

// Two programs with the same group run steps at the same time. The failures of one are not the other's.
TEST_P(CollectiveFailureTest, StepsOfAnotherProgramDoNotFail) {
  TestCluster cluster({{"worker", kWorkers}}, {}, TasksIn::kThisProcess, Options(), TasksPerHost(GetParam()));
  const auto failing = Members(cluster, kWorkers, TwoSums(1)), good = Members(cluster, kWorkers, TwoSums(11));
  for (const auto& result : RunAll(failing, [&](int i) { return Input(2000, 1, -1); })) ASSERT_OK(result.status());
  std::thread other([&] {
    for (int step = 0; step < 30; ++step) {
      const int bad = (step + 1) % kWorkers, phase = step / kWorkers % 3;
      const auto results = RunAll(failing, [&](int i) { return Input(2000, 1, i == bad ? phase : -1); });
      EXPECT_FALSE(results[bad].ok());
    }
  });
  for (int step = 0; step < 60; ++step) {
    for (const auto& result : RunAll(good, [&](int i) { return Input(2000, i + 1.f, -1); })) {
      ASSERT_OK(result.status());
      for (const float v : result->flat<float>()) ASSERT_EQ(v, 18);
    }
  }
  other.join();
}

// Faults inside of the task: when it is asked to run its part, and on the way to the exchange.
TEST_P(CollectiveFailureTest, AFaultInOneTaskReachesTheOthers) {
  TestCluster cluster({{"worker", kWorkers}}, {}, TasksIn::kThisProcess, Options(), TasksPerHost(GetParam()));
  for (const char* point : {"worker.run_graph", "collective.instance", "collective.execute"}) {
    for (int bad = 0; bad < kWorkers; ++bad) {
      SCOPED_TRACE(absl::StrCat(point, " at ", bad));
      const auto members = Members(cluster, kWorkers, TwoSums());
      for (const auto& result : RunAll(members, [&](int i) { return Input(2000, 1, -1); })) ASSERT_OK(result.status());
      const std::string task = absl::StrCat("/job:worker/replica:0/task:", bad);
      SetFailPointHandler([&](absl::string_view at, absl::string_view where) {
        return at == point && where == task ? absl::InternalError("injected") : absl::OkStatus();
      });
      const auto failed = RunAll(members, [&](int i) { return Input(2000, 1, -1); });
      SetFailPointHandler(nullptr);
      for (const auto& result : failed) EXPECT_THAT(result.status().ToString(), HasSubstr("injected"));
      for (const auto& result : RunAll(members, [&](int i) { return Input(2000, i + 1.f, -1); })) {
        ASSERT_OK(result.status());
        EXPECT_EQ(result->flat<float>()[0], 18);
      }
    }
  }
}

// Members meet in a first collective, and train with the others. One that begins again tells the others, which must
// meet it again. That holds for collectives that they register later, too: they would wait for the one that is gone.
TEST_P(CollectiveFailureTest, AMemberThatBeginsAgainIsMetAgain) {
  TestCluster cluster({{"worker", 2}}, {}, TasksIn::kThisProcess, Options(), TasksPerHost(GetParam()));
  std::vector<Output> training;
  const Member::Build build = [&](const Scope& s, Output x) {
    training.push_back(CollectiveReduce(s, x, {.group_size = 2, .instance_key = 11}));
    return CollectiveReduce(s, x, {.group_size = 2, .instance_key = 1});
  };
  const auto value = [](int i) { return Tensor::Vector<float>({1, 1}); };
  auto members = Members(cluster, 2, build);
  for (const auto& result : RunAll(members, value)) ASSERT_OK(result.status());

  Graph graph;
  const Output end = CollectiveEnd(graph.root().WithDevice(kLeader),
                                   {.first_instance = 11, .last_instance = 11, .why = "member 1 is new"});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(WorkerTask(1))}));
  ASSERT_OK(session->Run({Fetch::Target(end)}).status());
  members[0]->y = training[0];
  EXPECT_THAT(members[0]->Run(value(0)),
              Fails(absl::StatusCode::kAborted, "A member of collective group 1 begins again: member 1 is new"));

  training.clear();
  members = Members(cluster, 2, build);
  for (const auto& result : RunAll(members, value)) ASSERT_OK(result.status());
  for (int i = 0; i < 2; ++i) members[i]->y = training[i];
  for (const auto& result : RunAll(members, value)) EXPECT_THAT(result.status(), IsOk());
}

// Members that make no calls of the worker service.
class DirectCollectivesTest : public CollectiveFailureTest {};
INSTANTIATE_TEST_SUITE_P(Members, DirectCollectivesTest,
                         testing::Values(MembersUse::kSharedMemory, MembersUse::kTcp, MembersUse::kTwoLevels),
                         NameOfMembersUse);
class StoppedMemberTest : public CollectiveFailureTest {};
INSTANTIATE_TEST_SUITE_P(Members, StoppedMemberTest, testing::Values(MembersUse::kSharedMemory, MembersUse::kTcp),
                         NameOfMembersUse);

TEST_P(DirectCollectivesTest, MembersMakeNoCalls) {
  TestCluster cluster({{"worker", kWorkers}}, {}, TasksIn::kThisProcess, Options(), TasksPerHost(GetParam()));
  SetFailPointHandler([](absl::string_view at, absl::string_view) {
    return at == "collective.receive" ? absl::InternalError("a call") : absl::OkStatus();
  });
  const auto members = Members(cluster, kWorkers, TwoSums());
  for (const int64_t elements : {10, 5000, 100000}) {
    for (const auto& result : RunAll(members, [&](int i) { return Input(elements, i + 1.f, -1); })) {
      ASSERT_OK(result.status());
      EXPECT_EQ(result->flat<float>()[elements - 1], 18);
    }
  }
  SetFailPointHandler(nullptr);
}

TEST_P(DirectCollectivesTest, MembersThatDoNotAgreeAllLearnIt) {
  TestCluster cluster({{"worker", 2}}, {}, TasksIn::kThisProcess, Options(), TasksPerHost(GetParam()));
  for (const int64_t elements : {10, 5000}) {
    // The leader has seen the first step, and is not asked again.
    const auto members = Members(cluster, 2, Sum(2));
    for (const bool agree : {true, false, true}) {
      const auto results = RunAll(members, [&](int i) { return Tensor::Zeros(kFloat, {elements + (agree ? 0 : i)}); });
      for (const auto& result : results) {
        if (agree) {
          EXPECT_THAT(result, IsOk());
          continue;
        }
        EXPECT_THAT(result, Fails(absl::StatusCode::kInvalidArgument,
                                  absl::StrCat("(/job:worker/replica:0/task:1) brings ", elements + 1, " elements")));
      }
    }
  }
  std::vector<std::unique_ptr<Member>> differ;
  differ.push_back(std::make_unique<Member>(cluster, 0, Sum(2)));
  differ.push_back(std::make_unique<Member>(cluster, 1, Sum(2, {ReduceKind::kMax})));
  for (const auto& result : RunAll(differ, [](int i) { return Tensor::Scalar<float>(1); })) {
    EXPECT_THAT(result, Fails(absl::StatusCode::kInvalidArgument, "reduction 3"));
  }
}

// A process that is stopped neither answers nor closes its sockets.
TEST_P(StoppedMemberTest, AStoppedMemberIsNamed) {
  ServerOptions options = Options();
  options.peer_timeout = absl::Seconds(1);
  TestCluster cluster({{"worker", kWorkers}}, {}, TasksIn::kProcesses, options);
  auto members = Members(cluster, kWorkers, Sum(kWorkers));
  const auto value = [](int i) { return Tensor::Vector<float>({1, 1}); };
  for (const auto& result : RunAll(members, value)) ASSERT_OK(result.status());
  cluster.Signal(WorkerTask(2), SIGSTOP);
  std::unique_ptr<Member> stopped = std::move(members.back());
  members.pop_back();
  for (const auto& result : RunAll(members, value)) {
    EXPECT_THAT(result, Fails(absl::StatusCode::kUnavailable, "/job:worker/replica:0/task:2"));
  }
  cluster.Signal(WorkerTask(2), SIGCONT);
  // Its next step has the number of the one that the others have given up.
  members.push_back(std::move(stopped));
  EXPECT_FALSE(members.back()->Run(value(2)).ok());
  for (const auto& result : RunAll(members, value)) {
    ASSERT_OK(result.status());
    EXPECT_EQ(result->flat<float>()[0], 3);
  }
}

}  // namespace
}  // namespace thalweg
