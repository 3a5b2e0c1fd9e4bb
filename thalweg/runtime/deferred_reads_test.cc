// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/deferred_reads.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/graph/while.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/runtime/direct_session.h"

namespace thalweg {
namespace {

class DeferredReadsTest : public testing::Test {
 protected:
  DeferredReadsTest() : s_(graph_.root()), v_(RefVariable(s_, kFloat, {})), read_(Identity(s_.WithOpName("read"), v_)) {
    Assign(s_.WithOpName("init"), v_, Const(s_, 2.f));
  }

  // The fetches of a step; the variable is 2 when it begins.
  std::vector<float> Run(const std::vector<std::string>& fetches) {
    DirectSession session({});
    std::vector<Tensor> results;
    std::vector<float> values;
    absl::Status status = s_.status();
    if (status.ok()) status = session.Extend(graph_.Export());
    if (status.ok()) status = session.Run(Signature{.targets = {"init"}}, {}, {}, &results, nullptr);
    if (status.ok()) status = session.Run(Signature{.fetches = fetches}, {}, {}, &results, nullptr);
    EXPECT_TRUE(status.ok()) << status;
    for (const Tensor& t : results) values.push_back(t.scalar<float>());
    return values;
  }
  Scope After(const Output& node, absl::string_view name) {
    return s_.WithOpName(name).WithControlDependencies({node});
  }

  Graph graph_;
  const Scope s_;
  const Output v_, read_;
};

TEST_F(DeferredReadsTest, AReaderSeesTheUpdatesThatComeBeforeIt) {
  const Output before = Neg(s_.WithOpName("before"), read_);
  const Output update = AssignAdd(After(before, "update"), v_, Const(s_, 1.f));
  Neg(After(update, "after"), read_);
  EXPECT_EQ(Run({"before:0", "after:0"}), std::vector<float>({-2, -3}));
}

TEST_F(DeferredReadsTest, AnAssignWritesToTheSameMemory) {
  Neg(After(Assign(s_, v_, Const(s_, 5.f)), "after"), read_);
  EXPECT_EQ(Run({"after:0"}), std::vector<float>({-5}));
}

TEST_F(DeferredReadsTest, AnAssignThatMayChangeTheShapeLeavesTheOldValueToItsReaders) {
  const Output before = Neg(s_.WithOpName("before"), read_);
  Neg(After(Assign(After(before, "set"), v_, Const(s_, 5.f), {.validate_shape = false}), "after"), read_);
  EXPECT_EQ(Run({"after:0"}), std::vector<float>({-2}));
}

TEST_F(DeferredReadsTest, UpdatesOfOtherVariablesDoNotMatter) {
  const Output other = RefVariable(s_.WithOpName("other"), kFloat, {});
  const Output set = Assign(s_, other, Const(s_, 1.f));
  const Output after = Neg(After(set, "after"), read_);
  ASSERT_TRUE(s_.ok()) << s_.status();
  DeferReads(graph_);
  EXPECT_EQ(after.node->input(0), read_);
}

TEST_F(DeferredReadsTest, AFetchSeesAllUpdates) {
  AssignAdd(After(read_, "update"), v_, Const(s_, 1.f));
  EXPECT_EQ(Run({"read:0", "update:0"}), std::vector<float>({3, 3}));
}

// if (true) { v = 7; y = -read }, where the branch gets the value by a Switch.
TEST_F(DeferredReadsTest, ABranchPassesTheVariableOn) {
  const Output yes = Const(s_, true);
  Node* const value = s_.Add("Switch", {read_, yes});
  Node* const ref = s_.Add("RefSwitch", {v_, yes});
  ASSERT_TRUE(s_.ok()) << s_.status();
  const Output update = Assign(s_, Output(ref, 1), Const(s_, 7.f));
  Neg(After(update, "after"), Output(value, 1));
  EXPECT_EQ(Run({"after:0"}), std::vector<float>({-7}));
}

// for (i = 0; i < 4; ++i) v = read * read
TEST_F(DeferredReadsTest, AnIterationSeesTheUpdatesOfThoseBefore) {
  const auto less = [](const Scope& s, const std::vector<Output>& i) { return Less(s, i[0], Const(s, 4)); };
  const std::vector<Output> end =
      While(s_, {Const(s_, 0)}, less, [&](const Scope& s, const std::vector<Output>& i) -> std::vector<Output> {
        const Output goes_on = Identity(s, i[0]);
        const Output update = Assign(s, v_, Square(s.WithControlDependencies({goes_on}), read_));
        return {Add(s.WithControlDependencies({update}), i[0], Const(s, 1))};
      });
  Neg(After(end[0], "after"), v_);
  EXPECT_EQ(Run({"after:0"}), std::vector<float>({-65536}));
}

TEST_F(DeferredReadsTest, ReadersOfRowsTakeTheVariableItself) {
  const Output table = RefVariable(s_.WithOpName("table"), kFloat, {3});
  const Output rows = Identity(s_.WithOpName("rows"), StopGradient(s_.WithOpName("stopped"), table));
  const Output waits = Identity(After(read_, "waits"), table);
  const Output gather = Gather(s_.WithOpName("gather"), rows, Const(s_, {0, 2}));
  const Output shape = ShapeOf(s_.WithOpName("shape"), rows);
  const Output late = Gather(s_.WithOpName("late"), waits, Const(s_, {1}));
  const Output whole = Identity(s_.WithOpName("whole"), table);
  const Output of_whole = Gather(s_.WithOpName("of_whole"), whole, Const(s_, {1}));
  const Output reader = Neg(s_.WithOpName("reader"), whole);
  ASSERT_TRUE(s_.ok()) << s_.status();
  ReadInPlace(graph_);
  EXPECT_EQ(gather.node->input(0), table);
  EXPECT_EQ(shape.node->input(0), table);
  EXPECT_EQ(late.node->input(0), waits) << "it must not read before what it waits for";
  EXPECT_EQ(of_whole.node->input(0), table);
  EXPECT_EQ(reader.node->input(0), whole);
  EXPECT_EQ(graph_.FindNode("rows"), nullptr) << "it would read all of the table for nobody";
  EXPECT_EQ(graph_.FindNode("stopped"), nullptr);
  EXPECT_NE(graph_.FindNode("whole"), nullptr);
}

TEST_F(DeferredReadsTest, RowsAndShapesOfVariables) {
  const Output table = RefVariable(s_.WithOpName("table"), kFloat, {3});
  const Output rows = Identity(s_.WithOpName("rows"), table);
  ReduceSum(s_.WithOpName("sum"), Gather(s_, rows, Const(s_, {0, 2})));
  ReduceSum(s_.WithOpName("nd"), GatherNd(s_, rows, Const(s_, {{1}, {1}})));
  const Output shape = ShapeOf(s_, s_.Add("Identity", {table}));
  Cast(s_.WithOpName("size"), ReduceSum(s_, shape), kFloat);
  DirectSession session({});
  Assign(s_.WithOpName("fill"), table, Const(s_, {1.f, 10.f, 100.f}));
  ASSERT_TRUE(s_.ok()) << s_.status();
  ASSERT_TRUE(session.Extend(graph_.Export()).ok());
  const Signature signature{.fetches = {"sum:0", "nd:0", "size:0"}};
  std::vector<Tensor> results;
  const absl::Status early = session.Run(signature, {}, {}, &results, nullptr);
  EXPECT_TRUE(absl::StrContains(early.message(), "Attempting to use uninitialized value table")) << early;
  ASSERT_TRUE(session.Run(Signature{.targets = {"fill"}}, {}, {}, &results, nullptr).ok());
  const absl::Status status = session.Run(signature, {}, {}, &results, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(results[0].scalar<float>(), 101);
  EXPECT_EQ(results[1].scalar<float>(), 20);
  EXPECT_EQ(results[2].scalar<float>(), 3);
}

// Another task may go on when it has got what comes after the update.
TEST_F(DeferredReadsTest, WhatAnotherTaskSendsMayComeAfterTheUpdate) {
  const Output update = AssignAdd(s_, v_, Const(s_, 1.f));
  const std::vector<AttrArg> ends = {{"tensor_name", std::string("t")},
                                     {"send_device", std::string("/job:a/task:0/device:CPU:0")},
                                     {"send_device_incarnation", int64_t{1}},
                                     {"recv_device", std::string("/job:b/task:0/device:CPU:0")}};
  s_.Add("_Send", {Neg(s_, update)}, ends);
  std::vector<AttrArg> back = ends;
  back.push_back({"tensor_type", kFloat});
  const Output received = s_.Add("_Recv", {}, back);
  const Output after = Neg(After(received, "after"), read_);
  const Output before = Neg(s_, read_);
  ASSERT_TRUE(s_.ok()) << s_.status();
  DeferReads(graph_);
  EXPECT_EQ(after.node->input(0), v_);
  EXPECT_EQ(before.node->input(0), read_);
}

}  // namespace
}  // namespace thalweg
