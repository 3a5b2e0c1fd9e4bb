// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(PlaceholderTest, NotFed) {
  ExpectInvalid(KernelError("Placeholder", {}, {{"dtype", kFloat}, {"shape", PartialShape({-1, 784})}}),
                "You must feed a value for placeholder tensor 'Placeholder' with dtype float and shape [?,784]\n");
  ExpectInvalid(KernelError("Placeholder", {}, {{"dtype", kString}}),
                "You must feed a value for placeholder tensor 'Placeholder' with dtype string\n");
  ExpectInvalid(KernelError("PlaceholderV2", {}, {{"dtype", kFloat}, {"shape", PartialShape({})}}),
                "You must feed a value for placeholder tensor 'PlaceholderV2' with dtype float\n");
}

TEST(PlaceholderTest, Fed) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 2});
  EXPECT_EQ(x.shape().ToString(), "[?,2]");
  const Output y = Identity(s, x);
  const auto value = Evaluate(graph, {{x, Counting({1, 2})}}, {y}, TestDevice());
  ASSERT_TRUE(value.ok()) << value.status();
  ExpectTensor((*value)[0], Counting({1, 2}));
}

TEST(PlaceholderTest, BracesAreDimensions) {
  Graph graph;
  const Scope s = graph.root();
  EXPECT_EQ(Placeholder(s, kFloat).shape().ToString(), "<unknown>");
  EXPECT_EQ(Placeholder(s, kFloat, PartialShape()).shape().ToString(), "<unknown>");
  EXPECT_EQ(Placeholder(s, kFloat, {}).shape().ToString(), "[]");
  EXPECT_EQ(Placeholder(s, kFloat, Shape({3})).shape().ToString(), "[3]");
  EXPECT_TRUE(s.ok()) << s.status();
}

TEST(PlaceholderTest, WithDefault) {
  ExpectTensor(Result("PlaceholderWithDefault", {FloatVector({1, 2})}, {{"shape", PartialShape({-1})}}),
               FloatVector({1, 2}));
  EXPECT_EQ(*InferShape("PlaceholderWithDefault", {{kFloat, {2, 3}}}, {{"shape", PartialShape({-1, 3})}}), "[?,3]");
  EXPECT_FALSE(InferShape("PlaceholderWithDefault", {{kFloat, {2, 3}}}, {{"shape", PartialShape({-1, 4})}}).ok());
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return PlaceholderWithDefault(s, x[0], {-1}); },
                 {TestValues(kDouble, {3})});
}

}  // namespace
}  // namespace thalweg
