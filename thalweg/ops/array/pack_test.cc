// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(PackTest, Values) {
  const std::vector<Tensor> rows = {FloatVector({1, 2}), FloatVector({3, 4}), FloatVector({5, 6})};
  ExpectTensor(Result("Pack", {rows}), Counting({3, 2}));
  ExpectTensor(Result("Pack", {rows}, {{"axis", 1}}), Tensor::Of<float>({2, 3}, {1, 3, 5, 2, 4, 6}));
  ExpectTensor(Result("Pack", {rows}, {{"axis", -1}}), Tensor::Of<float>({2, 3}, {1, 3, 5, 2, 4, 6}));
  ExpectTensor(Result("Pack", {std::vector<Tensor>{Int(1), Int(2)}}), Ints({1, 2}));
  ExpectTensor(Result("Pack", {std::vector<Tensor>{Strings({"a"})}}), Tensor::Of<std::string>({1, 1}, {"a"}));
  ExpectTensor(Result("Pack", {std::vector<Tensor>{Ints({}), Ints({})}}), Tensor(kInt32, {2, 0}));
}

TEST(PackTest, BadInput) {
  ExpectInvalid(KernelError("Pack", {std::vector<Tensor>{Ints({1}), Ints({1, 2})}}),
                "Shapes of all inputs must match: values[0].shape = [1] != values[1].shape = [2]");
  ExpectInvalid(KernelError("Pack", {std::vector<Tensor>{Ints({1})}}, {{"axis", 2}}), "axis = 2 not in [-2, 2)");
}

TEST(UnpackTest, Values) {
  for (const int64_t width : {2, 100}) {  // copied, shared
    const Tensor x = TestValues(kFloat, {3, width});
    const auto rows = RunOp("Unpack", {x}, {{"num", 3}});
    ASSERT_TRUE(rows.ok()) << rows.status();
    for (int i = 0; i < 3; ++i) ExpectTensor((*rows)[i], x.Rows(i, i + 1).WithShape({width}));
  }
  const auto columns = RunOp("Unpack", {Counting({2, 2})}, {{"num", 2}, {"axis", -1}});
  ASSERT_TRUE(columns.ok()) << columns.status();
  ExpectTensor((*columns)[0], FloatVector({1, 3}));
  ExpectTensor((*columns)[1], FloatVector({2, 4}));
}

TEST(UnpackTest, BadInput) {
  ExpectInvalid(KernelError("Unpack", {Counting({2, 3})}, {{"num", 3}}),
                "Input shape axis 0 must equal 3, got shape [2,3]");
  ExpectInvalid(KernelError("Unpack", {Counting({2, 3})}, {{"num", 3}, {"axis", 2}}), "axis = 2 not in [-2, 2)");
}

TEST(PackTest, InferredShapes) {
  EXPECT_EQ(*InferShape("Unpack", {{kFloat, {3, -1}}}, {{"num", 3}}), "[?]");
  EXPECT_FALSE(InferShape("Unpack", {{kFloat, {3, -1}}}, {{"num", 2}}).ok());
  Graph graph;
  const Scope s = graph.root();
  const Output a = Placeholder(s, kFloat, {-1, 2}), b = Placeholder(s, kFloat, {3, -1});
  EXPECT_EQ(Pack(s, {a, b}, 1).shape().ToString(), "[3,2,2]");
}

TEST(PackTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 3});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Pack(s, x, 1); }, {x, x, x});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Unpack(s, x[0], 3, 1)[1]; }, {x});
}

}  // namespace
}  // namespace thalweg
