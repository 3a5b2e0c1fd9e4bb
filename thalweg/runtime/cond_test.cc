// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/cond.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/while.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/operators.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/runtime/session_testlib.h"

namespace thalweg {
namespace {

class CondTest : public testing::Test {
 protected:
  // The value of a float scalar with x fed.
  float Value(Output y, float x) {
    if (!s_.ok()) {
      ADD_FAILURE() << s_.status();
      return 0;
    }
    if (session_ == nullptr) session_ = *TestSession::Create(graph_);
    const auto out = session_->Run({y}, {{x_, Tensor::Scalar<float>(x)}});
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? out->at(0).scalar<float>() : 0;
  }

  Graph graph_;
  const Scope s_ = graph_.root();
  const Output x_ = Placeholder(s_.WithOpName("x"), kFloat, {});
  std::unique_ptr<TestSession> session_;
};

TEST_F(CondTest, OneBranchGivesTheResult) {
  const auto r = Cond(
      s_, x_ > 0, [&](const Scope& s) { return std::vector{Sqrt(s, x_)}; },
      [&](const Scope& s) { return std::vector{Const(s, -1.f)}; });
  EXPECT_EQ(Value(r[0], 9), 3);
  EXPECT_EQ(Value(r[0], -9), -1);
}

TEST_F(CondTest, OnlyOneBranchRuns) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {});
  const Output init = Assign(s_, v, Const(s_, 0.f));
  const auto add = [&](float amount) {
    return [&, amount](const Scope& s) { return std::vector<Output>{AssignAdd(s, v, Const(s, amount))}; };
  };
  const auto r = Cond(s_, x_ > 0, add(1), add(100));
  const Output read = Identity(s_.WithControlDependencies({r[0]}), v);
  ASSERT_OK(s_.status());
  session_ = *TestSession::Create(graph_);
  ASSERT_OK(session_->Run({init}, {{x_, Tensor::Scalar<float>(1)}}).status());
  EXPECT_EQ(Value(read, 1), 1);
  EXPECT_EQ(Value(read, 1), 2);
  EXPECT_EQ(Value(read, -1), 102);
}

TEST_F(CondTest, ExpressionsBelongToTheBranchOfTheirOperands) {
  // Division by zero would show: integers fail.
  const Output n = Cast(s_, x_, kInt32);
  const auto r = Cond(
      s_, x_ > 0, [&](const Scope& s) { return std::vector{10 / Identity(s, n) + 1}; },
      [&](const Scope& s) { return std::vector{Identity(s, n)}; });
  const Output y = Cast(s_, r[0], kFloat);
  EXPECT_EQ(Value(y, 5), 3);
  EXPECT_EQ(Value(y, 0), 0) << "10 / 0 is not computed";
}

TEST_F(CondTest, ResultsFromOutsideAndSeveralOfThem) {
  const auto r = Cond(
      s_, x_ > 0,
      [&](const Scope& s) {
        return std::vector{x_, x_ * 2};
      },
      [&](const Scope& s) {
        return std::vector{-x_, Const(s, 7.f)};
      });
  ASSERT_EQ(r.size(), 2u);
  EXPECT_EQ(Value(r[0] + r[1], 3), 9);
  EXPECT_EQ(Value(r[0] + r[1], -3), 10);
}

TEST_F(CondTest, Nests) {
  const auto sign = Cond(
      s_, x_ > 0, [&](const Scope& s) { return std::vector{Const(s, 1.f)}; },
      [&](const Scope& outer) {
        return Cond(
            outer, x_ < 0, [&](const Scope& s) { return std::vector{Const(s, -1.f)}; },
            [&](const Scope& s) { return std::vector{Identity(s, x_)}; });
      });
  EXPECT_EQ(Value(sign[0], 4), 1);
  EXPECT_EQ(Value(sign[0], -4), -1);
  EXPECT_EQ(Value(sign[0], 0), 0);
}

TEST_F(CondTest, LoopsInBranches) {
  const auto r = Cond(
      s_, x_ > 0,
      [&](const Scope& s) {
        return While(
            s, {Identity(s, x_)}, [](const Scope&, const std::vector<Output>& v) { return v[0] < 100; },
            [](const Scope&, const std::vector<Output>& v) { return std::vector{v[0] * 2}; });
      },
      [&](const Scope& s) { return std::vector{Identity(s, x_)}; });
  EXPECT_EQ(Value(r[0], 3), 192);
  EXPECT_EQ(Value(r[0], -3), -3);
}

TEST_F(CondTest, GradientsGoThrough) {
  const auto r = Cond(
      s_, x_ > 0, [&](const Scope& s) { return std::vector{Square(s, x_)}; },
      [&](const Scope& s) { return std::vector{Mul(s, x_, Const(s, 5.f))}; });
  const Output dx = ToDense(s_, Gradients(s_, {r[0]}, {x_})[0]);
  EXPECT_EQ(Value(dx, 3), 6);
  EXPECT_EQ(Value(dx, -3), 5);
}

TEST_F(CondTest, CaseChoosesByNumber) {
  std::vector<Branch> branches;
  for (const float value : {10.f, 20.f, 30.f}) {
    branches.push_back([value](const Scope& s) { return std::vector{Const(s, value)}; });
  }
  const auto r = Case(s_, Cast(s_, x_, kInt32), branches);
  EXPECT_EQ(Value(r[0], 0), 10);
  EXPECT_EQ(Value(r[0], 1), 20);
  EXPECT_EQ(Value(r[0], 2), 30);
  EXPECT_EQ(Value(r[0], 7), 30) << "the last, if there is no such branch";
  EXPECT_EQ(Value(r[0], -1), 30);
}

TEST_F(CondTest, Mistakes) {
  const auto error = [](Output (*predicate)(const Scope&), const Branch& then, const Branch& otherwise) {
    Graph graph;
    EXPECT_TRUE(Cond(graph.root(), predicate(graph.root()), then, otherwise).empty());
    return std::string(graph.build_status().message());
  };
  const auto yes = [](const Scope& s) { return Const(s, true); };
  const Branch one = [](const Scope& s) { return std::vector{Const(s, 1.f)}; };
  const Branch two = [](const Scope& s) { return std::vector{Const(s, 1.f), Const(s, 1.f)}; };
  const Branch text = [](const Scope& s) { return std::vector{Const(s, "x")}; };
  const Branch none = [](const Scope&) { return std::vector<Output>(); };
  EXPECT_THAT(error([](const Scope& s) { return Const(s, 1.f); }, one, one),
              testing::HasSubstr("must be a bool scalar"));
  EXPECT_THAT(error([](const Scope&) { return Output(); }, one, one), testing::HasSubstr("predicate is missing"));
  EXPECT_THAT(error(yes, one, two), testing::HasSubstr("one branch gives 1 results, the other 2"));
  EXPECT_THAT(error(yes, one, text), testing::HasSubstr("result 0 is float in one branch and string in the other"));
  EXPECT_THAT(error(yes, none, none), testing::HasSubstr("at least one result"));
}

}  // namespace
}  // namespace thalweg
