// SPDX-License-Identifier: Apache-2.0
// Collectives by themselves, between members that share memory, have TCP connections of their own, do both, or
// make gRPC calls.
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/client/collective_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/collective_ops.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int kMembers = 3;

class CollectiveKindsTest : public testing::TestWithParam<MembersUse> {
 protected:
  std::vector<std::unique_ptr<Member>> Make(const Member::Build& build) { return Members(cluster_, kMembers, build); }
  // A member whose collective differs from that of the two others. Returns the errors of all.
  std::string Disagree(const Member::Build& build, const Member::Build& other,
                       const std::function<Tensor(int)>& value) {
    std::vector<std::unique_ptr<Member>> members;
    for (int i = 0; i < kMembers; ++i) {
      members.push_back(std::make_unique<Member>(cluster_, i, i == 1 ? other : build));
    }
    std::string errors;
    for (const auto& result : RunAll(members, value)) {
      EXPECT_FALSE(result.ok());
      absl::StrAppend(&errors, result.status().ToString(), "\n");
    }
    return errors;
  }

  TestCluster cluster_{
      {{"worker", kMembers}}, {}, TasksIn::kThisProcess, OptionsFor(GetParam()), TasksPerHost(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Members, CollectiveKindsTest,
                         testing::Values(MembersUse::kSharedMemory, MembersUse::kTcp, MembersUse::kTwoLevels,
                                         MembersUse::kGrpc),
                         NameOfMembersUse);

// The first step copies values, the next ones are computed in memory that the members share.
TEST_P(CollectiveKindsTest, AReduceScatterGivesEachMemberItsRows) {
  for (const int64_t columns : {1, 7, 30'000}) {
    const auto members = Make([](const Scope& s, Output x) {
      return CollectiveReduceScatter(s, x, {.group_size = kMembers}, {.mean = true});
    });
    for (int step = 0; step < 3; ++step) {
      const auto results = RunAll(members, [&](int i) {
        Tensor value(kFloat, {2 * kMembers, columns});
        for (int64_t k = 0; k < value.num_elements(); ++k) {
          value.flat<float>()[k] = static_cast<float>(3 * i + step + k % 1000);
        }
        return value;
      });
      for (int i = 0; i < kMembers; ++i) {
        ASSERT_OK(results[i].status());
        ASSERT_EQ(results[i]->shape(), Shape({2, columns}));
        for (int64_t k = 0; k < results[i]->num_elements(); ++k) {
          ASSERT_EQ(results[i]->flat<float>()[k], static_cast<float>(3 + step + (2 * i * columns + k) % 1000)) << k;
        }
      }
    }
  }
}

TEST_P(CollectiveKindsTest, AnAllToAllExchangesRows) {
  const auto members =
      Make([](const Scope& s, Output x) { return CollectiveAllToAll(s, x, {.group_size = kMembers}); });
  for (const int64_t columns : {1, 5000}) {
    const auto results = RunAll(members, [&](int i) {
      Tensor value(kFloat, {kMembers, columns});
      for (int64_t k = 0; k < value.num_elements(); ++k) {
        const int64_t row = k / columns;
        value.flat<float>()[k] = static_cast<float>(10 * i + row);
      }
      return value;
    });
    for (int i = 0; i < kMembers; ++i) {
      ASSERT_OK(results[i].status());
      for (int64_t k = 0; k < results[i]->num_elements(); ++k) {
        const int64_t row = k / columns;
        ASSERT_EQ(results[i]->flat<float>()[k], static_cast<float>(10 * row + i));
      }
    }
  }
}

TEST_P(CollectiveKindsTest, ABarrierEndsOnlyWhenAllHaveCome) {
  const auto build = [](absl::Duration timeout) -> Member::Build {
    return [=](const Scope& s, Output x) {
      const Output barrier = CollectiveBarrier(s, {.group_size = kMembers, .timeout = timeout});
      return Identity(s.WithControlDependencies({barrier}), x);
    };
  };
  const auto one = [](int) { return Tensor::Scalar<float>(1); };
  const auto members = Make(build(absl::InfiniteDuration()));
  for (int step = 0; step < 5; ++step) {
    for (const auto& result : RunAll(members, one)) EXPECT_THAT(result, IsOk());
  }
  std::vector<std::unique_ptr<Member>> two;
  for (int i = 0; i < 2; ++i) two.push_back(std::make_unique<Member>(cluster_, i, build(absl::Milliseconds(300))));
  for (const auto& result : RunAll(two, one)) {
    EXPECT_THAT(result, Fails(absl::StatusCode::kDeadlineExceeded, "has timed out"));
  }
}

// Sessions of the same graph, one after the other, with different members.
TEST_P(CollectiveKindsTest, TheGroupMayBeAnInput) {
  const auto run = [&](int count, int key) {
    std::vector<Output> groups;
    const auto members = Members(cluster_, count, [&](const Scope& s, Output x) {
      const Output group = groups.emplace_back(Placeholder(s, kInt32, {2}));
      const Output barrier = CollectiveBarrier(s, {.instance_key = 1, .group = group});
      const Output sum = CollectiveReduce(s.WithControlDependencies({barrier}), x, {.instance_key = 2, .group = group});
      const std::vector<Output> means =
          CollectiveReduceBucket(s, {sum, x}, {.instance_key = 3, .group = group}, {.mean = true});
      return means.size() == 2 ? Add(s, means[0], means[1]) : Output();
    });
    std::vector<float> values(count);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        for (int step = 0; step < 2; ++step) {
          const auto out =
              members[i]->session->Run({members[i]->y}, {{members[i]->x, Tensor::Scalar<float>(static_cast<float>(i))},
                                                         {groups[i], Tensor::Vector<int32_t>({count, key})}});
          EXPECT_THAT(out, IsOk());
          values[i] = out.ok() ? (*out)[0].scalar<float>() : -1;
        }
      });
    }
    for (std::thread& t : threads) t.join();
    return values;
  };
  EXPECT_THAT(run(3, 100), Each(3 + 1.f));
  EXPECT_THAT(run(2, 101), Each(1 + 0.5f));
  EXPECT_THAT(run(1, 102), Each(0));
  EXPECT_THAT(run(3, 103), Each(3 + 1.f));
}

// Numbers of such different sizes that their sum depends on the order.
Tensor Numbers(int member, int64_t elements) {
  std::mt19937 random(static_cast<uint32_t>(member + 1));
  Tensor value(kFloat, {elements});
  for (float& v : value.flat<float>()) {
    v = static_cast<float>(std::ldexp(static_cast<double>(random()) - 2e9, static_cast<int>(random() % 8) - 4));
  }
  return value;
}
std::vector<float> SumInOrder(const std::vector<int>& order, int64_t elements) {
  std::vector<float> sum(elements);
  for (const int member : order) {
    const Tensor value = Numbers(member, elements);
    for (int64_t k = 0; k < elements; ++k) sum[k] += value.flat<float>()[k];
  }
  return sum;
}

TEST_P(CollectiveKindsTest, ValuesAreAddedInTheOrderOfRanks) {
  const CollectiveReduceOptions in_order{.rank_order = true};
  for (const int64_t elements : {9, 3'000, 60'000}) {
    const std::vector<float> expected = SumInOrder({0, 1, 2}, elements);
    if (elements > 1000) {
      ASSERT_NE(expected, SumInOrder({1, 2, 0}, elements));
      ASSERT_NE(expected, SumInOrder({2, 0, 1}, elements));
    }
    const auto members = Make([&](const Scope& s, Output x) {
      const Output sum = CollectiveReduce(s, x, {.group_size = kMembers, .instance_key = 1}, in_order);
      const Output bucket = CollectiveReduceBucket(s, {x}, {.group_size = kMembers, .instance_key = 2}, in_order).at(0);
      const Output part = CollectiveReduceScatter(s, x, {.group_size = kMembers, .instance_key = 3}, in_order);
      return Concat(s, {sum, bucket, part}, 0);
    });
    for (int step = 0; step < 2; ++step) {
      const auto results = RunAll(members, [&](int i) { return Numbers(i, elements); });
      for (int i = 0; i < kMembers; ++i) {
        ASSERT_OK(results[i].status());
        std::vector<float> all = expected;
        all.insert(all.end(), expected.begin(), expected.end());
        const auto part = expected.begin() + i * elements / kMembers;
        all.insert(all.end(), part, part + elements / kMembers);
        const absl::Span<const float> got = results[i]->flat<float>();
        ASSERT_EQ(std::vector<float>(got.begin(), got.end()), all) << "member " << i << " of " << elements;
      }
    }
  }
}

TEST_P(CollectiveKindsTest, MembersThatBringSomethingElseAreNamed) {
  const auto value = [](int) { return Tensor::Zeros(kFloat, {kMembers}); };
  const auto reduce = [](const CollectiveReduceOptions& options) -> Member::Build {
    return [=](const Scope& s, Output x) { return CollectiveReduce(s, x, {.group_size = kMembers}, options); };
  };
  const Member::Build scatter = [](const Scope& s, Output x) {
    return CollectiveReduceScatter(s, x, {.group_size = kMembers});
  };
  const Member::Build barrier = [](const Scope& s, Output x) {
    return Identity(s.WithControlDependencies({CollectiveBarrier(s, {.group_size = kMembers})}), x);
  };
  // The members' tasks notice it, or the group does, which knows the kinds only.
  EXPECT_THAT(Disagree(reduce({}), scatter, value),
              AllOf(HasSubstr("reduce-scatter of"), HasSubstr("all-reduce of"), HasSubstr("task:1")));
  EXPECT_THAT(Disagree(scatter, barrier, value), AllOf(HasSubstr("reduce-scatter of"), HasSubstr("barrier of")));
  EXPECT_THAT(Disagree(reduce({}), reduce({.rank_order = true}), value),
              AllOf(HasSubstr("an all-reduce in the order of ranks of float"), HasSubstr("an all-reduce of float")));
  EXPECT_THAT(Disagree(scatter, scatter, [](int i) { return Tensor::Zeros(kFloat, {i == 1 ? 6 : 3}); }),
              AllOf(HasSubstr("Shape mismatch"), HasSubstr("[6]"), HasSubstr("[3]")));
  EXPECT_THAT(Disagree(scatter, scatter, [](int i) { return Tensor::Zeros(kFloat, {i == 1 ? 4 : 3}); }),
              HasSubstr("must be a multiple of the group size 3, got shape [4]"));
}

TEST(CollectiveShapes, AreKnownIfTheGroupIs) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {6, 2});
  EXPECT_EQ(CollectiveReduceScatter(s, x, {.group_size = 3}).shape().ToString(), "[2,2]");
  EXPECT_EQ(CollectiveReduceScatter(s, x, {.group = Placeholder(s, kInt32, {2})}).shape().ToString(), "[?,2]");
  ASSERT_OK(s.status());
  CollectiveReduceScatter(s, Const(s, 1.f), {.group_size = 3});
  EXPECT_THAT(s.status(), Fails(absl::StatusCode::kInvalidArgument, "at least rank 1"));
}

}  // namespace
}  // namespace thalweg
