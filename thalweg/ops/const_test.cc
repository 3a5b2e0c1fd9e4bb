#include "thalweg/ops/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(ConstTest, FromValues) {
  Graph graph;
  const Scope s = graph.root();
  const std::vector<Tensor> v =
      Values(s, {Const(s, 3), Const(s, 2.5f), Const(s, 2.5), Const(s, int64_t{7}), Const(s, true), Const(s, "text"),
                 Const(s, {1, 2, 3}), Const(s, {{1.f, 2.f}, {3.f, 4.f}}), Const(s, {"a", "b"}), Const(s, Ints({4}))});
  ExpectTensor(v[0], Int(3));
  ExpectTensor(v[1], Tensor::Scalar<float>(2.5));
  ExpectTensor(v[2], Tensor::Scalar<double>(2.5));
  ExpectTensor(v[3], Tensor::Scalar<int64_t>(7));
  ExpectTensor(v[4], Tensor::Scalar<bool>(true));
  ExpectTensor(v[5], Tensor::Scalar<std::string>("text"));
  ExpectTensor(v[6], Ints({1, 2, 3}));
  ExpectTensor(v[7], Tensor::Of<float>({2, 2}, {1, 2, 3, 4}));
  ExpectTensor(v[8], Strings({"a", "b"}));
  ExpectTensor(v[9], Ints({4}));
}

TEST(ConstTest, Shape) {
  Graph graph;
  const Scope s = graph.root();
  EXPECT_EQ(Const(s, {{1, 2, 3}, {4, 5, 6}}).shape().ToString(), "[2,3]");
  EXPECT_EQ(Const(s, 1).shape().ToString(), "[]");
}

TEST(ConstTest, NoValue) {
  Graph graph;
  const Scope s = graph.root();
  EXPECT_FALSE(Const(s, Tensor()));
  EXPECT_FALSE(s.ok());
}

TEST(ConstTest, TypesDiffer) {
  ExpectInvalid(KernelError("Const", {}, {{"dtype", kInt32}, {"value", Floats({1})}}), "Type mismatch");
}

}  // namespace
}  // namespace thalweg
