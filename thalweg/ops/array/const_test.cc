// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/unusable_node.h"
#include "thalweg/ops/support/array_ops_testlib.h"

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

// Shape functions read the values of constants when a graph is imported. A node whose
// shape cannot be inferred fails the steps that need it.
TEST(ConstTest, TypesDiffer) {
  const auto import = [](DType dtype, const Tensor& value) -> absl::Status {
    tensorflow::GraphDef def;
    tensorflow::NodeDef* sizes = def.add_node();
    sizes->set_name("sizes");
    sizes->set_op("Const");
    SetAttr(*sizes, "dtype", dtype);
    SetAttr(*sizes, "value", value);
    tensorflow::NodeDef* range = def.add_node();
    range->set_name("range");
    range->set_op("Range");
    for (int i = 0; i < 3; ++i) range->add_input("sizes");
    SetAttr(*range, "Tidx", dtype);
    Graph graph;
    RETURN_IF_ERROR(graph.Import(def));
    return CheckShapes(graph);
  };
  EXPECT_TRUE(import(kInt32, Int(1)).ok());
  const absl::Status status = import(kInt32, Tensor::Scalar<int8_t>(1));
  ExpectInvalid(status, "Type mismatch between value (int8) and dtype (int32)");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("'sizes'"));
  ExpectInvalid(import(kInt64, Tensor::Scalar<std::string>("")), "Type mismatch between value (string)");
  ExpectInvalid(import(kInt32, FloatVector({1})), "Type mismatch between value (float)");
}

}  // namespace
}  // namespace thalweg
