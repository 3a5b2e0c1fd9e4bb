// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/client/collective_testlib.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/collective_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Collectives, OneGraphSpansTheMembers) {
  TestCluster cluster({{"worker", 3}});
  Graph graph;
  std::vector<Output> xs;
  std::vector<Fetch> results;
  const CollectiveReduceOptions reduces[] = {
      {}, {.mean = true}, {ReduceKind::kProduct}, {ReduceKind::kMax}, {ReduceKind::kMin}};
  for (int i = 0; i < 3; ++i) {
    const Scope s = graph.root().WithDevice(absl::StrCat("/job:worker/task:", i));
    xs.push_back(Placeholder(s, kFloat, {2}));
    for (int k = 0; k < 5; ++k) {
      results.emplace_back(CollectiveReduce(s, xs[i], {.group_size = 3, .instance_key = k}, reduces[k]));
      const Output whole = Cast(s, xs[i], k % 2 == 0 ? kInt32 : kInt64);
      results.emplace_back(
          Cast(s, CollectiveReduce(s, whole, {.group_size = 3, .instance_key = 10 + k}, reduces[k]), kFloat));
    }
  }
  // Without a configured leader, the master leads; it is the same for all members.
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(WorkerTask(1))}));
  for (int step = 0; step < 3; ++step) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run(results, {{xs[0], Tensor::Vector<float>({1, 2})},
                                                                {xs[1], Tensor::Vector<float>({3, -4})},
                                                                {xs[2], Tensor::Vector<float>({2, 5})}}));
    for (int i = 0; i < 30; i += 10) {
      for (int k = 0; k < 2; ++k) {
        EXPECT_THAT(out[i + k].flat<float>(), ElementsAre(6, 3));
        EXPECT_THAT(out[i + 2 + k].flat<float>(), ElementsAre(2, 1));
        EXPECT_THAT(out[i + 4 + k].flat<float>(), ElementsAre(6, -40));
        EXPECT_THAT(out[i + 6 + k].flat<float>(), ElementsAre(3, 5));
        EXPECT_THAT(out[i + 8 + k].flat<float>(), ElementsAre(1, -4));
      }
    }
  }
}

TEST(Collectives, EveryWorkerHasAGraphOfItsOwn) {
  TestCluster cluster({{"worker", 4}});
  // A reduce, then a broadcast of the second member's values, then a gather.
  int next = 0;
  const auto members = Members(cluster, 4, [&](const Scope& s, Output x) {
    const int i = next++;
    const Output sum = CollectiveReduce(s, x, {.group_size = 4, .instance_key = 1});
    const CollectiveOptions bcast{.group_size = 4, .instance_key = 2};
    const Output second =
        i == 1 ? CollectiveBcastSend(s, x, {300'000}, bcast) : CollectiveBcastRecv(s, kFloat, {300'000}, bcast);
    const Output first = Slice(s, Add(s, sum, second), Const(s, Tensor::Vector<int32_t>({299'999})),
                               Const(s, Tensor::Vector<int32_t>({1})));
    return CollectiveGather(s, Add(s, first, Const(s, 1000.f * static_cast<float>(i))),
                            {.group_size = 4, .instance_key = 3});
  });
  for (int step = 0; step < 5; ++step) {
    const auto results = RunAll(members, [&](int i) {
      Tensor value(kFloat, {300'000});
      for (float& v : value.flat<float>()) v = static_cast<float>(i + step);
      return value;
    });
    // The sum of 0..3 and four times the step; and the second member's.
    const float all = static_cast<float>(6 + 4 * step + 1 + step);
    for (const auto& result : results) {
      ASSERT_OK(result.status());
      EXPECT_THAT(result->flat<float>(), ElementsAre(all, all + 1000, all + 2000, all + 3000));
    }
  }
}

// Inputs of several shapes, as they are and with fewer bits. The first step copies values, the next ones are computed
// in memory that the members share.
TEST(Collectives, ABucketIsReducedAsOne) {
  constexpr int kMembers = 4, kElements = 6000;
  TestCluster cluster({{"worker", kMembers}});
  int key = 0;
  for (const DType wire : {kInvalid, kHalf, kBfloat16}) {
    ++key;
    const auto members = Members(cluster, kMembers, [&](const Scope& s, Output x) {
      const std::vector<Output> parts =
          Split(s, x, Const(s, Tensor::Vector<int64_t>({4999, 1, 0, 1000})), Const(s, 0), 4);
      const std::vector<Output> shaped = {parts[0], Reshape(s, parts[1], Const(s, Tensor(kInt32, {0}))), parts[2],
                                          Reshape(s, parts[3], {10, 100})};
      const std::vector<Output> means =
          CollectiveReduceBucket(s, shaped, {.group_size = kMembers, .instance_key = key}, {.mean = true}, wire);
      EXPECT_EQ(means.size(), 4);
      EXPECT_EQ(means[1].shape().ToString(), "[]");
      EXPECT_EQ(means[3].shape().ToString(), "[10,100]");
      std::vector<Output> flat;
      for (const Output& mean : means) flat.push_back(Reshape(s, mean, {-1}));
      return Concat(s, flat, 0);
    });
    for (int step = 0; step < 4; ++step) {
      const auto results = RunAll(members, [&](int i) {
        Tensor value(kFloat, {kElements});
        for (int k = 0; k < kElements; ++k) value.flat<float>()[k] = static_cast<float>(i + k % 7 + step);
        return value;
      });
      for (const auto& result : results) {
        ASSERT_OK(result.status());
        ASSERT_EQ(result->num_elements(), kElements);
        // Sums of quarters, which all types hold exactly.
        for (int k = 0; k < kElements; ++k) {
          ASSERT_EQ(result->flat<float>()[k], 1.5f + static_cast<float>(k % 7 + step)) << k;
        }
      }
    }
  }
}

TEST(Collectives, ABucketOfWhatCannotBeIsAnError) {
  Graph graph;
  const Scope s = graph.root();
  CollectiveReduceBucket(s, {}, {.group_size = 2});
  EXPECT_THAT(s.status().ToString(), HasSubstr("there are no inputs"));

  TestCluster cluster({{"worker", 1}});
  const auto members = Members(cluster, 1, [](const Scope& s, Output x) {
    return CollectiveReduceBucket(s, {Cast(s, x, kInt32)}, {.group_size = 1}, {}, kHalf)[0];
  });
  EXPECT_THAT(RunAll(members, [](int) { return Tensor::Vector<float>({1}); })[0],
              Fails(absl::StatusCode::kInvalidArgument, "int32 cannot travel as half"));
}

TEST(Collectives, ATaskMayHaveSeveralMembers) {
  TestCluster cluster({{"worker", 2}}, {}, TasksIn::kThisProcess, {.cpu_devices = 2});
  Graph graph;
  std::vector<Fetch> results;
  for (int i = 0; i < 4; ++i) {
    const Scope s = graph.root().WithDevice(absl::StrCat("/job:worker/task:", i / 2, "/device:CPU:", i % 2));
    const Output x = Const(s, Tensor::Vector<float>({static_cast<float>(i), 1}));
    Node* reduced = CollectiveReduce(s, x, {.group_size = 4, .instance_key = 1}).node;
    SetAttr(reduced->mutable_def(), "subdiv_offsets", std::vector<int64_t>{0, -1});
    results.emplace_back(Output(reduced));
    results.emplace_back(CollectiveGather(s, x, {.group_size = 4, .instance_key = 2}));
    const CollectiveOptions bcast{.group_size = 4, .instance_key = 3};
    results.emplace_back(i == 3 ? CollectiveBcastSend(s, x, {2}, bcast) : CollectiveBcastRecv(s, kFloat, {2}, bcast));
  }
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(WorkerTask(0))}));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run(results));
  for (int i = 0; i < 12; i += 3) {
    EXPECT_THAT(out[i].flat<float>(), ElementsAre(6, 4));
    EXPECT_THAT(out[i + 1].flat<float>(), ElementsAre(0, 1, 1, 1, 2, 1, 3, 1));
    EXPECT_THAT(out[i + 2].flat<float>(), ElementsAre(3, 1));
  }
}

TEST(Collectives, TheKeysMayBeInputs) {
  TestCluster cluster({{"worker", 2}});
  int next = 0;
  const auto members = Members(cluster, 2, [&](const Scope& s, Output x) {
    const int i = next++;
    const auto key = [&](int k) { return Const(s, Tensor::Scalar<int32_t>(k)); };
    const std::vector<AttrArg> attrs{{"merge_op", "Add"}, {"final_op", "Id"}, {"max_subdivs_per_device", 0}};
    const Output sum = s.Add("CollectiveReduceV2", {x, key(2), key(5), key(1), std::vector<Output>()}, attrs);
    const Output sums = s.Add("CollectiveGatherV2", {sum, key(2), key(5), key(2), std::vector<Output>()});
    if (i == 0) return Output(s.Add("CollectiveBcastSendV2", {sums, key(2), key(5), key(3)}));
    const Output shape = Const(s, Tensor::Vector<int32_t>({4}));
    return Output(s.WithControlDependencies({sums}).Add("CollectiveBcastRecvV2", {key(2), key(5), key(3), shape},
                                                        {{"T", kFloat}}));
  });
  for (const auto& result : RunAll(members, [](int i) { return Tensor::Vector<float>({1, 2.f * i}); })) {
    ASSERT_OK(result.status());
    EXPECT_THAT(result->flat<float>(), ElementsAre(2, 2, 2, 2));
  }
}

TEST(Collectives, PartsAreExchanged) {
  TestCluster cluster({{"worker", 2}});
  int next = 0;
  const auto members = Members(cluster, 2, [&](const Scope& s, Output x) {
    const int i = next++;
    const auto key = [&](int k) { return Const(s, Tensor::Scalar<int32_t>(k)); };
    // The first row of each to the first member, the second to the second.
    const Output parts = s.Add("CollectiveAllToAllV2", {x, key(2), key(5), key(1), std::vector<Output>()});
    const Output communicator = s.Add("CollectiveInitializeCommunicator", {key(6), key(i), key(2)});
    const Output nobody = Const(s, Tensor(kInt32, Shape({0, 0})));
    const Output back = s.Add("CollectiveAllToAllV3", {parts, communicator, nobody});
    const Output sum =
        s.WithControlDependencies({back}).Add("CollectiveReduceV3", {x, communicator, nobody}, {{"reduction", "Add"}});
    const Output half = s.Add("CollectiveReduceScatterV2", {x, key(2), key(5), key(2), std::vector<Output>()},
                              {{"merge_op", "Add"}, {"final_op", "Div"}});
    return Concat(s, {parts, back, sum, half}, 0);
  });
  const auto results = RunAll(members, [](int i) { return Tensor::Of<float>({2, 1}, {1.f + 10 * i, 2.f + 10 * i}); });
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(results[i].status());
    EXPECT_THAT(results[i]->flat<float>(), ElementsAre(1 + i, 11 + i, 1 + 10 * i, 2 + 10 * i, 12, 14, 6 + i));
  }
}

TEST(Collectives, PartsMustFitTheGroup) {
  TestCluster cluster({{"worker", 1}});
  const auto run = [&](const Member::Build& build) {
    Member member(cluster, 0, build);
    return member.Run(Tensor::Of<float>({2, 1}, {1, 2})).status().ToString();
  };
  const auto key = [](const Scope& s, int k) { return Const(s, Tensor::Scalar<int32_t>(k)); };
  EXPECT_THAT(
      run([&](const Scope& s, Output x) {
        return Output(s.Add("CollectiveAllToAllV2", {x, key(s, 1), key(s, 5), key(s, 1), std::vector<Output>()}));
      }),
      HasSubstr("first dimension size (2) must be the same as the group size (1)"));
  EXPECT_THAT(
      run([&](const Scope& s, Output x) {
        return Output(s.Add("CollectiveReduceScatterV2", {x, key(s, 3), key(s, 5), key(s, 1), std::vector<Output>()},
                            {{"merge_op", "Add"}, {"final_op", "Id"}}));
      }),
      HasSubstr("must be a multiple of the group size 3"));
  for (const int rank : {-1, 1}) {
    EXPECT_THAT(
        run([&](const Scope& s, Output x) {
          const Output communicator = s.Add("CollectiveInitializeCommunicator", {key(s, 6), key(s, rank), key(s, 1)});
          return Output(s.Add("CollectiveReduceV3", {x, communicator, Const(s, Tensor(kInt32, Shape({0, 0})))},
                              {{"reduction", "Add"}}));
        }),
        HasSubstr("rank must be"));
  }
}

TEST(Collectives, MembersMustAgree) {
  TestCluster cluster({{"worker", 2}});
  const auto run = [&](const Member::Build& first, const Member::Build& second) {
    std::vector<std::unique_ptr<Member>> members;
    members.push_back(std::make_unique<Member>(cluster, 0, first));
    members.push_back(std::make_unique<Member>(cluster, 1, second));
    auto results = RunAll(members, [](int i) { return Tensor::Vector<float>({1}); });
    // Both members get the error.
    EXPECT_FALSE(results[0].ok());
    EXPECT_FALSE(results[1].ok());
    return absl::StrCat(results[0].status().ToString(), "\n", results[1].status().ToString());
  };
  int key = 100;
  const auto sum = [&](int size, int group) -> Member::Build {
    return [=](const Scope& s, Output x) { return CollectiveReduce(s, x, {.group_size = size, .group_key = group}); };
  };
  ++key;
  EXPECT_THAT(run(sum(2, key), sum(3, key)), HasSubstr("but that group has size"));
  ++key;
  EXPECT_THAT(run(sum(2, key),
                  [&](const Scope& s, Output x) {
                    return Cast(s, CollectiveReduce(s, Cast(s, x, kInt32), {.group_size = 2, .group_key = key}),
                                kFloat);
                  }),
              HasSubstr("and data_type 3"));
  ++key;
  EXPECT_THAT(run(sum(2, key),
                  [&](const Scope& s, Output x) {
                    return CollectiveReduce(s, Const(s, Tensor::Zeros(kFloat, {7})),
                                            {.group_size = 2, .group_key = key});
                  }),
              testing::AllOf(HasSubstr("Shape mismatch in the collective instance 1"), HasSubstr("[7]"),
                             HasSubstr("INVALID_ARGUMENT")));
  ++key;
  const auto bcast = [&](bool send) -> Member::Build {
    return [=](const Scope& s, Output x) {
      const CollectiveOptions options{.group_size = 2, .group_key = key};
      return send ? CollectiveBcastSend(s, x, {1}, options) : CollectiveBcastRecv(s, kFloat, {1}, options);
    };
  };
  EXPECT_THAT(run(bcast(true), bcast(true)), HasSubstr("already has source"));
  ++key;
  EXPECT_THAT(run(bcast(false), bcast(false)), HasSubstr("found no source for broadcast"));

  // Then they do.
  ++key;
  const auto good = Members(cluster, 2, sum(2, key));
  for (const auto& result : RunAll(good, [](int i) { return Tensor::Vector<float>({1}); })) {
    ASSERT_OK(result.status());
    EXPECT_EQ(result->scalar<float>(), 2);
  }
  // A third is too many while the program runs; another program may use the key
  // for another group.
  Member alone(cluster, 0, sum(1, key));
  ASSERT_OK_AND_ASSIGN(const Tensor one, alone.Run(Tensor::Vector<float>({5})));
  EXPECT_EQ(one.scalar<float>(), 5);
}

TEST(Collectives, WhatCannotBeIsAnError) {
  TestCluster cluster({{"worker", 1}});
  Member lost(cluster, 0, Sum(1), "/job:nobody/replica:0/task:0");
  EXPECT_THAT(lost.Run(Tensor::Vector<float>({1})), Fails(absl::StatusCode::kInvalidArgument, "/job:nobody"));
  Member scalar(cluster, 0, [](const Scope& s, Output x) { return CollectiveGather(s, x, {.group_size = 1}); });
  EXPECT_THAT(scalar.Run(Tensor::Scalar<float>(1)), Fails(absl::StatusCode::kInvalidArgument, "rank > 0"));
  Member none(cluster, 0, Sum(0));
  EXPECT_THAT(none.Run(Tensor::Scalar<float>(1)), Fails(absl::StatusCode::kInvalidArgument, "group_size"));
  Graph graph;
  const Output y = CollectiveReduce(graph.root(), Const(graph.root(), 1.f), {.group_size = 1});
  ASSERT_OK_AND_ASSIGN(auto local, Session::Create(graph));
  EXPECT_THAT(local->Run({y}), Fails(absl::StatusCode::kFailedPrecondition, "needs a session on a server"));
}

TEST(Collectives, OneMemberMayComeTooLate) {
  TestCluster cluster({{"worker", 2}});
  Member waits(cluster, 0, [](const Scope& s, Output x) {
    return CollectiveReduce(s, x, {.group_size = 2, .timeout = absl::Milliseconds(200)});
  });
  EXPECT_THAT(waits.Run(Tensor::Scalar<float>(1)),
              Fails(absl::StatusCode::kDeadlineExceeded, "timed out waiting for other workers"));
  // The failed member left no trace: the next collective succeeds.
  const auto members = Members(cluster, 2, Sum(2));
  for (int step = 0; step < 2; ++step) {
    for (const auto& result : RunAll(members, [](int i) { return Tensor::Scalar<float>(i); })) {
      ASSERT_OK(result.status());
      EXPECT_EQ(result->scalar<float>(), 1);
    }
  }
}

TEST(Collectives, ClosingASessionEndsItsWait) {
  TestCluster cluster({{"worker", 2}});
  Graph graph;
  const Scope s = graph.root().WithDevice("/job:worker/task:1");
  const Output v = RefVariable(s.WithOpName("v"), kFloat, {});
  const Output init = Assign(s, v, Const(s, 0.f));
  const Output count = AssignAdd(s, v, Const(s, 1.f));
  const Output sum = CollectiveReduce(s, Const(s, 1.f), {.group_size = 2});
  const SessionOptions options{.target = cluster.target(WorkerTask(1)), .collective_leader = kLeader};
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, options));
  ASSERT_OK_AND_ASSIGN(auto other, Session::Create(graph, options));
  ASSERT_OK(session->Run({init}).status());
  std::thread client([&] {
    EXPECT_THAT(session->Run({sum, count}), Fails(absl::StatusCode::kCancelled, "Session::Close()"));
  });
  for (float begun = 0; begun == 0;) {
    ASSERT_OK_AND_ASSIGN(const auto out, other->Run({v}));
    begun = out[0].scalar<float>();
  }
  ASSERT_OK(session->Close());
  client.join();
}

// The step's own deadline and the end of its session reach the question to the
// leader.
TEST(Collectives, AStepThatWaitsForAnAbsentLeaderEnds) {
  TestCluster cluster({{"worker", 2}}, {WorkerTask(0)});
  Member member(cluster, 1, Sum(2));
  const Tensor one = Tensor::Vector<float>({1, 1});
  EXPECT_THAT(member.session->Run({member.y}, {{member.x, one}}, {.timeout = absl::Milliseconds(200)}),
              Fails(absl::StatusCode::kDeadlineExceeded, "Timed out waiting for the step"));
  std::thread client([&] {
    const absl::Status status = member.session->Run({member.y}, {{member.x, one}}).status();
    EXPECT_TRUE(absl::IsCancelled(status) || absl::IsFailedPrecondition(status)) << status;
  });
  EXPECT_THAT(member.session->Close(), IsOk());
  client.join();
}

TEST(Collectives, AServerStopsWhileAStepWaitsForAnAbsentLeader) {
  TestCluster cluster({{"worker", 2}}, {WorkerTask(0)});
  Member member(cluster, 1, Sum(2));
  std::thread client([&] { EXPECT_FALSE(member.Run(Tensor::Vector<float>({1, 1})).ok()); });
  cluster.Stop(WorkerTask(1));
  client.join();
}

// The leader is there, and hangs.
TEST(Collectives, AStoppedLeaderIsNamed) {
  TestCluster cluster({{"worker", 3}}, {}, TasksIn::kProcesses, {.peer_timeout = absl::Seconds(1)});
  auto members = Members(cluster, 3, Sum(3));
  const auto value = [](int i) { return Tensor::Vector<float>({1, 1}); };
  for (const auto& result : RunAll(members, value)) ASSERT_OK(result.status());
  // New sessions ask the leader again.
  members.erase(members.begin());
  cluster.Signal(WorkerTask(0), SIGSTOP);
  for (const auto& result : RunAll(members, value)) {
    EXPECT_THAT(result, Fails(absl::StatusCode::kUnavailable, kLeader));
  }
  // A session that is made now sees only its own task, and asks the leader for the number of its first step.
  const Member fresh(cluster, 1, Sum(3));
  EXPECT_THAT(fresh.session->Run({fresh.y}, {{fresh.x, Tensor::Vector<float>({1, 1})}}, {.timeout = absl::Minutes(1)}),
              Fails(absl::StatusCode::kUnavailable, kLeader));
  cluster.Signal(WorkerTask(0), SIGCONT);
}

TEST(Collectives, AFailureReachesTheOthersAndTheNextStepWorks) {
  TestCluster cluster({{"worker", 3}});
  const auto members = Members(cluster, 3, [](const Scope& s, Output x) {
    // Fails where the value is not finite, before the collective is reached.
    const Output checked = s.Add("CheckNumerics", {x}, {{"message", "bad"}});
    const Output sum = CollectiveReduce(s, checked, {.group_size = 3, .instance_key = 1});
    return CollectiveReduce(s, sum, {.group_size = 3, .instance_key = 2});
  });
  const auto good = [](int i) { return Tensor::Vector<float>({1, 2}); };
  for (int round = 0; round < 3; ++round) {
    for (const auto& result : RunAll(members, good)) {
      ASSERT_OK(result.status());
      EXPECT_THAT(result->flat<float>(), ElementsAre(9, 18));
    }
    // The leader, or another.
    const auto results = RunAll(members, [&](int i) {
      return i == round ? Tensor::Vector<float>({1, std::numeric_limits<float>::infinity()}) : good(i);
    });
    for (const auto& result : results) {
      EXPECT_FALSE(result.ok() || absl::IsDeadlineExceeded(result.status())) << result.status();
    }
    EXPECT_THAT(results[round].status().message(), HasSubstr("bad"));
  }
}

class CollectiveKillTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CollectiveKillTest, testing::Bool());

TEST_P(CollectiveKillTest, ALostMemberIsNamed) {
  TestCluster cluster({{"worker", 3}}, {}, TasksIn::kProcesses);
  const bool broadcast = GetParam();
  int next = 0;
  const Member::Build build = [&](const Scope& s, Output x) {
    const int i = next++;
    if (!broadcast) return CollectiveReduce(s, x, {.group_size = 3});
    return i == 0 ? CollectiveBcastSend(s, x, {2}, {.group_size = 3})
                  : CollectiveBcastRecv(s, kFloat, {2}, {.group_size = 3});
  };
  auto members = Members(cluster, 3, build);
  const auto value = [](int i) { return Tensor::Vector<float>({1, 1}); };
  for (const auto& result : RunAll(members, value)) {
    ASSERT_OK(result.status());
    EXPECT_EQ(result->flat<float>()[0], broadcast ? 1 : 3);
  }
  // The last does not come to the next step: it is killed while others wait.
  members.pop_back();
  std::vector<absl::StatusOr<Tensor>> results;
  std::thread others([&] { results = RunAll(members, value); });
  cluster.Stop(WorkerTask(2));
  others.join();
  for (size_t i = 0; i < results.size(); ++i) {
    if (broadcast && i == 1 && results[i].ok()) continue;  // it has got its value
    EXPECT_THAT(results[i], Fails(absl::StatusCode::kUnavailable, "/job:worker/replica:0/task:2"));
  }
  // Started again, it is a member of a new group.
  cluster.Start(WorkerTask(2));
  members.clear();
  next = 0;
  for (int attempt = 0;; ++attempt) {
    members = Members(cluster, 3, build);
    next = 0;
    bool all = true;
    for (const auto& result : RunAll(members, value)) {
      all = all && result.ok();
      ASSERT_TRUE(result.ok() || attempt < 5) << result.status();
    }
    if (all) break;
  }
}

}  // namespace
}  // namespace thalweg
