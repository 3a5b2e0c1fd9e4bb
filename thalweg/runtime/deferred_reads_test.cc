#include "thalweg/runtime/deferred_reads.h"

#include "gtest/gtest.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

class LateReadsTest : public testing::Test {
 protected:
  // `op` changes the variable; what reads it through the Identity, before and
  // after.
  void Build(absl::string_view op) {
    const Scope s = graph_.root();
    variable_ = s.Add("VariableV2", {}, {{"dtype", kFloat}, {"shape", PartialShape({})}});
    read_ = s.Add("Identity", {variable_});
    before_ = Neg(s, read_);
    update_ = s.Add(op, {variable_, before_});
    after_ = Neg(s.WithControlDependencies({update_}), read_);
    ASSERT_TRUE(s.ok()) << s.status();
    const absl::Status status = DeferReads(graph_);
    ASSERT_TRUE(status.ok()) << status;
  }

  Graph graph_;
  Output variable_, read_, before_, update_, after_;
};

TEST_F(LateReadsTest, WhatComesAfterAnUpdateReadsTheVariable) {
  Build("AssignAdd");
  EXPECT_EQ(before_.node->input(0), read_);
  EXPECT_EQ(after_.node->input(0), variable_);
}

TEST_F(LateReadsTest, AnAssignLeavesTheOldValueToItsReaders) {
  Build("Assign");
  EXPECT_EQ(after_.node->input(0), read_);
}

TEST_F(LateReadsTest, UpdatesOfOtherVariablesDoNotMatter) {
  const Scope s = graph_.root();
  const Output other = s.Add("VariableV2", {}, {{"dtype", kFloat}, {"shape", PartialShape({})}});
  const Output update = s.Add("AssignAdd", {other, Const(s, 1.f)});
  const Output variable = s.Add("VariableV2", {}, {{"dtype", kFloat}, {"shape", PartialShape({})}});
  const Output read = s.Add("Identity", {variable});
  const Output after = Neg(s.WithControlDependencies({update}), read);
  ASSERT_TRUE(s.ok()) << s.status();
  ASSERT_TRUE(DeferReads(graph_).ok());
  EXPECT_EQ(after.node->input(0), read);
}

}  // namespace
}  // namespace thalweg
