// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/stateful_graph_testlib.h"
#include "thalweg/ops/array/strided_slice.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

class VariableSliceTest : public StatefulGraphTest {};

TEST_F(VariableSliceTest, Ref) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {4});
  const Output update =
      StridedSliceAssign(s_, v, Const(s_, {0}), Const(s_, {4}), Const(s_, {2}), Const(s_, {8.f, 9.f}));
  EXPECT_EQ(update.shape().ToString(), "[4]");
  EXPECT_THAT(Try(update).status().ToString(), ::testing::HasSubstr("Attempting to use uninitialized value v"));
  Run(Assign(s_, v, Const(s_, {1.f, 2.f, 3.f, 4.f})));
  const Tensor before = Run(Identity(s_, v));
  ExpectTensor(Run(update), FloatVector({8, 2, 9, 4}));
  ExpectTensor(Run(Identity(s_, v)), FloatVector({8, 2, 9, 4}));
  ExpectTensor(before, FloatVector({1, 2, 3, 4}));  // who has read it keeps what it read
}

TEST_F(VariableSliceTest, ResourceAndBroadcast) {
  const Output v = VarHandle(s_.WithOpName("v"), kInt32, {2, 2});
  Run(AssignVariable(s_, v, Const(s_, {{1, 2}, {3, 4}})));
  Run(StridedSliceAssign(s_, v, Const(s_, {0, 1}), Const(s_, {2, 2}), Const(s_, {1, 1}), Const(s_, 7),
                         {.shrink_axis_mask = 2}));
  ExpectTensor(Run(ReadVariable(s_, v, kInt32)), Tensor::Of<int32_t>({2, 2}, {1, 7, 3, 7}));
}

TEST_F(VariableSliceTest, BadValues) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {4});
  Run(Assign(s_, v, Const(s_, {1.f, 2.f, 3.f, 4.f})));
  const auto status = [&](Output value) {
    return Try(StridedSliceAssign(s_, v, Const(s_, {0}), Const(s_, {2}), Const(s_, {1}), value)).status();
  };
  ExpectInvalid(status(Const(s_, {1.f, 2.f, 3.f})), "value of shape [3] does not fit a slice of shape [2]");
  ExpectTensor(Run(Identity(s_, v)), FloatVector({1, 2, 3, 4}));
}

TEST_F(VariableSliceTest, ScatterNd) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {2, 2});
  Run(Assign(s_, v, Const(s_, {{1.f, 2.f}, {3.f, 4.f}})));
  const auto scatter = [&](const char* op, int row, int column, float value) {
    return Try(Output(s_.Add(op, {v, Const(s_, Tensor::Of<int32_t>({1, 2}, {row, column})), Const(s_, {value})})));
  };
  ExpectTensor(*scatter("ScatterNdAdd", 0, 1, 5), Tensor::Of<float>({2, 2}, {1, 7, 3, 4}));
  ExpectTensor(*scatter("ScatterNdSub", 1, 1, 5), Tensor::Of<float>({2, 2}, {1, 7, 3, -1}));
  ExpectTensor(*scatter("ScatterNdMax", 1, 1, 5), Tensor::Of<float>({2, 2}, {1, 7, 3, 5}));
  ExpectTensor(*scatter("ScatterNdMin", 0, 1, 0), Tensor::Of<float>({2, 2}, {1, 0, 3, 5}));
  ExpectTensor(*scatter("ScatterNdUpdate", 0, 0, 9), Tensor::Of<float>({2, 2}, {9, 0, 3, 5}));
  EXPECT_FALSE(scatter("ScatterNdUpdate", 2, 0, 9).ok());
  EXPECT_FALSE(scatter("ScatterNdUpdate", 0, -1, 9).ok());
}

}  // namespace
}  // namespace thalweg
