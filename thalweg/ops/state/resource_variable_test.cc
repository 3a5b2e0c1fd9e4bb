// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/stateful_graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

class ResourceVariableTest : public StatefulGraphTest {
 protected:
  // A variable "h" with a value.
  Output Handle(const Tensor& value) {
    const Output handle = VarHandle(s_, value.dtype(), PartialShape(value.shape()), {.shared_name = "h"});
    Run(AssignVariable(s_, handle, Const(s_, value)));
    return handle;
  }
};

TEST_F(ResourceVariableTest, AssignAndRead) {
  const Output handle = VarHandle(s_, kFloat, {2}, {.shared_name = "h"});
  const ResourceHandle named = Run(handle).scalar<ResourceHandle>();
  EXPECT_EQ(named.device, device_.name());
  EXPECT_EQ(named.container, "localhost");
  EXPECT_EQ(named.name, "h");
  const Output read = ReadVariable(s_, handle, kFloat), initialized = IsVariableInitialized(s_, handle);
  EXPECT_EQ(read.shape().ToString(), "[2]");
  ExpectTensor(Run(initialized), Tensor::Scalar(false));
  EXPECT_THAT(Error(read),
              HasSubstr("FAILED_PRECONDITION: Could not find variable h. This could mean that the variable has "
                        "been deleted. In TF1, it can also mean the variable is uninitialized. Debug info: "
                        "container=localhost, status error message=Resource localhost/h/N10tensorflow3VarE "
                        "does not exist."));
  Run(AssignVariable(s_, handle, Const(s_, {1.0f, 2.0f})));
  ExpectTensor(Run(initialized), Tensor::Scalar(true));
  ExpectTensor(Run(read), Tensor::Vector<float>({1, 2}));
  Run(AssignAddVariable(s_, handle, Const(s_, {10.0f, 10.0f})));
  Run(AssignSubVariable(s_, handle, Const(s_, {1.0f, 0.0f})));
  ExpectTensor(Run(read), Tensor::Vector<float>({10, 12}));
  ExpectTensor(Run(VariableShape(s_, handle)), Tensor::Vector<int32_t>({2}));
  ExpectTensor(Run(VariableShape(s_, handle, kInt64)), Tensor::Vector<int64_t>({2}));
}

TEST_F(ResourceVariableTest, IsNotTheRefVariableOfItsName) {
  Run(Assign(s_, RefVariable(s_.WithOpName("h"), kFloat, {1}), Const(s_, {1.0f})));
  EXPECT_FALSE(Try(ReadVariable(s_, VarHandle(s_, kFloat, {1}, {.shared_name = "h"}), kFloat)).ok());
}

TEST_F(ResourceVariableTest, WithoutSharedNameItHasTheNodes) {
  EXPECT_EQ(Run(VarHandle(s_.WithOpName("mine"), kFloat, {1})).scalar<ResourceHandle>().name, "mine");
}

TEST_F(ResourceVariableTest, ASnapshotStays) {
  const Output handle = Handle(Tensor::Vector<float>({1, 2}));
  const Output read = ReadVariable(s_, handle, kFloat);
  const Tensor before = Run(read);
  Run(AssignAddVariable(s_, handle, Const(s_, {1.0f, 1.0f})));
  Run(ScatterUpdate(s_, handle, Const(s_, {0}), Const(s_, {9.0f})));
  ExpectTensor(before, Tensor::Vector<float>({1, 2}));
  ExpectTensor(Run(read), Tensor::Vector<float>({9, 3}));
}

TEST_F(ResourceVariableTest, Destroy) {
  const Output handle = Handle(Tensor::Vector<float>({1}));
  Run(DestroyResource(s_, handle, {.ignore_lookup_error = false}));
  EXPECT_FALSE(Try(ReadVariable(s_, handle, kFloat)).ok());
  EXPECT_EQ(Try(DestroyResource(s_, handle, {.ignore_lookup_error = false})).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(Try(DestroyResource(s_, handle)).ok());
}

TEST_F(ResourceVariableTest, BadInput) {
  const Output handle = Handle(Tensor::Vector<float>({1, 2})),
               missing = VarHandle(s_, kFloat, {2}, {.shared_name = "none"});
  const Output x = Arg(kFloat), h = Arg(kResource), i = Arg(kInt32);
  const Tensor three = Tensor::Vector<float>({1, 2, 3});
  EXPECT_THAT(Error(AssignAddVariable(s_, handle, x), {{x, three}}),
              HasSubstr("Cannot update variable with shape [2] using a Tensor with shape [3], shapes must be equal."));
  EXPECT_THAT(Error(Output(s_.Add("AssignVariableOp", {handle, x}, {{"validate_shape", true}})), {{x, three}}),
              HasSubstr("Trying to assign to variable with tensor with wrong shape. Expected [2] got [3]"));
  EXPECT_THAT(Error(AssignAddVariable(s_, missing, x), {{x, three}}),
              HasSubstr("NOT_FOUND: Resource localhost/none/N10tensorflow3VarE does not exist."));
  EXPECT_FALSE(Try(VariableShape(s_, missing)).ok());
  // Handles that come from elsewhere.
  const Output read = ReadVariable(s_, h, kFloat), read_int = ReadVariable(s_, h, kInt32);
  const ResourceHandle here{.device = device_.name(), .container = "localhost", .name = "h"};
  ResourceHandle there = here;
  there.device = "/job:ps/replica:0/task:0/device:CPU:0";
  ExpectTensor(Run(read, {{h, Tensor::Scalar(here)}}), Tensor::Vector<float>({1, 2}));
  EXPECT_THAT(Error(read, {{h, Tensor::Scalar(there)}}), HasSubstr("INVALID_ARGUMENT: Trying to access resource h"));
  EXPECT_THAT(Error(read_int, {{h, Tensor::Scalar(here)}}),
              HasSubstr("Trying to read variable with wrong dtype. Expected int32 got float"));
  EXPECT_THAT(
      Error(Output(s_.Add("AssignVariableOp", {h, i})), {{h, Tensor::Scalar(here)}, {i, Tensor::Scalar<int32_t>(1)}}),
      HasSubstr("wrong dtype"));
  EXPECT_FALSE(Try(read, {{h, Tensor::Of<ResourceHandle>({2}, {here, here})}}).ok());
  ReadVariable(s_, handle, kInt32);
  EXPECT_THAT(s_.status().ToString(), HasSubstr("Trying to read variable with wrong dtype. Expected float got int32"));
}

TEST_F(ResourceVariableTest, Gather) {
  const Output handle = Handle(Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  const Output rows = ResourceGather(s_, handle, Const(s_, {{2, 0}, {1, 1}}), kFloat);
  EXPECT_EQ(rows.shape().ToString(), "[2,2,2]");
  ExpectTensor(Run(rows), Tensor::Of<float>({2, 2, 2}, {5, 6, 1, 2, 3, 4, 3, 4}));
  const Output i = Arg(kInt64);
  const Output any = ResourceGather(s_, handle, i, kFloat);
  ExpectTensor(Run(any, {{i, Tensor::Scalar<int64_t>(1)}}), Tensor::Vector<float>({3, 4}));
  ExpectTensor(Run(any, {{i, Tensor::Zeros(kInt64, {0})}}), Tensor::Zeros(kFloat, {0, 2}));
  EXPECT_THAT(Error(any, {{i, Tensor::Of<int64_t>({1, 2}, {1, 5})}}), HasSubstr("indices[0,1] = 5 is not in [0, 3)"));
}

TEST_F(ResourceVariableTest, GatherInBatches) {
  const Output handle = Handle(Tensor::Of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Output rows =
      s_.Add("ResourceGather", {handle, Const(s_, {{0, 2}, {1, 1}})}, {{"dtype", kInt32}, {"batch_dims", 1}});
  ExpectTensor(Run(rows), Tensor::Of<int32_t>({2, 2}, {1, 3, 5, 5}));
  const Output bad = s_.Add("ResourceGather", {handle, Const(s_, {0})}, {{"dtype", kInt32}, {"batch_dims", 2}});
  EXPECT_THAT(Error(bad), HasSubstr("batch_dims (2)"));
}

TEST_F(ResourceVariableTest, Gradients) {
  const Output handle = Handle(Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  const Output y = ReduceSum(s_, Square(s_, ReadVariable(s_, handle, kFloat)));
  const std::vector<Gradient> dense = thalweg::Gradients(s_, {y}, {handle});
  ASSERT_TRUE(s_.ok()) << s_.status();
  ExpectTensor(Run(dense[0].values), Tensor::Of<float>({3, 2}, {2, 4, 6, 8, 10, 12}));

  const Output z = ReduceSum(s_, Square(s_, ResourceGather(s_, handle, Const(s_, {{2}, {0}}), kFloat)));
  const std::vector<Gradient> sparse = thalweg::Gradients(s_, {z}, {handle});
  ASSERT_TRUE(s_.ok() && sparse[0].sparse()) << s_.status();
  ExpectTensor(Run(sparse[0].indices), Tensor::Vector<int32_t>({2, 0}));
  ExpectTensor(Run(sparse[0].values), Tensor::Of<float>({2, 2}, {10, 12, 2, 4}));
  ExpectTensor(Run(ToDense(s_, sparse[0])), Tensor::Of<float>({3, 2}, {2, 4, 0, 0, 10, 12}));
}

TEST_F(ResourceVariableTest, CountUpTo) {
  const Output handle = Handle(Tensor::Scalar<int32_t>(1));
  const Output count = CountUpTo(s_, handle, 2);
  ExpectTensor(Run(count), Tensor::Scalar<int32_t>(1));
  EXPECT_EQ(Try(count).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace thalweg
