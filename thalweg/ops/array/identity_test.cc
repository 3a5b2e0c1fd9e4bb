// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(IdentityTest, SharesMemory) {
  const Tensor x = Counting({2, 3});
  for (const char* op : {"Identity", "Snapshot", "StopGradient", "PreventGradient", "GuaranteeConst"}) {
    const Tensor y = Result(op, {x});
    ExpectTensor(y, x);
    EXPECT_TRUE(y.SharesBufferWith(x)) << op;
  }
  const Tensor copy = Result("DeepCopy", {x});
  ExpectTensor(copy, x);
  EXPECT_FALSE(copy.SharesBufferWith(x));
  ExpectTensor(Result("Identity", {Strings({"a", ""})}), Strings({"a", ""}));
}

TEST(IdentityTest, Several) {
  const auto y = RunOp("IdentityN", {std::vector<Tensor>{FloatVector({1}), Ints({2, 3})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], FloatVector({1}));
  ExpectTensor((*y)[1], Ints({2, 3}));
}

TEST(IdentityTest, EnsureShape) {
  ExpectTensor(Result("EnsureShape", {Counting({2, 3})}, {{"shape", PartialShape({-1, 3})}}), Counting({2, 3}));
  ExpectInvalid(KernelError("EnsureShape", {Counting({2, 3})}, {{"shape", PartialShape({-1, 4})}}),
                "Shape of tensor _Arg [2,3] is not compatible with expected shape [?,4].");
  EXPECT_EQ(*InferShape("EnsureShape", {{kFloat, PartialShape({-1, 3})}}, {{"shape", PartialShape({2, -1})}}), "[2,3]");
  EXPECT_FALSE(InferShape("EnsureShape", {{kFloat, PartialShape({2, 3})}}, {{"shape", PartialShape({2, 4})}}).ok());
}

TEST(IdentityTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 2});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Identity(s, x[0]); }, {x});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Snapshot(s, x[0]); }, {x});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Pack(s, IdentityN(s, x)); }, {x, x});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return EnsureShape(s, x[0], {2, -1}); }, {x});
}

TEST(IdentityTest, NoGradients) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Const(s, 1.0f);
  EXPECT_FALSE(Gradients(s, {StopGradient(s, x)}, {x})[0]);
  EXPECT_TRUE(s.ok());
  Gradients(s, {PreventGradient(s, x, "because")}, {x});
  EXPECT_THAT(std::string(s.status().message()), ::testing::HasSubstr("Reason: because"));
}

TEST(NoOpTest, Runs) {
  EXPECT_TRUE(RunOp("NoOp", {}).ok());
  Graph graph;
  const Scope s = graph.root();
  const Output a = Const(s, 1), b = Const(s, 2);
  EXPECT_EQ(Group(s, {a, b}).node->control_inputs().size(), 2);
}

}  // namespace
}  // namespace thalweg
