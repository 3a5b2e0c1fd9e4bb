// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/match.h"
#include "thalweg/kernel/stateful_graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

class RefVariableTest : public StatefulGraphTest {};

TEST_F(RefVariableTest, AssignAndRead) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {2});
  EXPECT_EQ(v.dtype(), MakeRef(kFloat));
  EXPECT_EQ(v.shape().ToString(), "[2]");
  const Output initialized = IsVariableInitialized(s_, v);
  ExpectTensor(Run(initialized), Tensor::Scalar(false));
  EXPECT_THAT(Error(Identity(s_, v)), HasSubstr("FAILED_PRECONDITION: Attempting to use uninitialized value v"));
  // The output of Assign is the variable.
  ExpectTensor(Run(Assign(s_, v, Const(s_, {1.0f, 2.0f}))), Tensor::Vector<float>({1, 2}));
  ExpectTensor(Run(initialized), Tensor::Scalar(true));
  ExpectTensor(Run(Identity(s_, v)), Tensor::Vector<float>({1, 2}));
}

TEST_F(RefVariableTest, NodesOfOneSharedNameShareIt) {
  const Output a = RefVariable(s_, kInt32, {1}, {.shared_name = "x"}),
               b = RefVariable(s_, kInt32, {1}, {.shared_name = "x"});
  const Output other = RefVariable(s_, kInt32, {1}, {.container = "elsewhere", .shared_name = "x"});
  Run(Assign(s_, a, Const(s_, {7})));
  ExpectTensor(Run(Identity(s_, b)), Tensor::Vector<int32_t>({7}));
  EXPECT_FALSE(Try(Identity(s_, other)).ok());
  device_.resources().Clear("");
  EXPECT_FALSE(Try(Identity(s_, a)).ok());
}

TEST_F(RefVariableTest, SharedNameOfAnotherType) {
  Run(Assign(s_, RefVariable(s_, kInt32, {1}, {.shared_name = "x"}), Const(s_, {7})));
  EXPECT_THAT(Error(RefVariable(s_, kFloat, {1}, {.shared_name = "x"})), HasSubstr("is of type int32"));
}

TEST_F(RefVariableTest, AssignChecksShapes) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {2}), x = Arg(kFloat);
  const Tensor three = Tensor::Vector<float>({1, 2, 3});
  const Output checked = Assign(s_, v, x), unchecked = Assign(s_, v, x, {.validate_shape = false});
  EXPECT_THAT(
      Error(checked, {{x, three}}),
      HasSubstr("INVALID_ARGUMENT: Assign requires shapes of both tensors to match. lhs shape= [2] rhs shape= [3]"));
  ExpectTensor(Run(unchecked, {{x, three}}), three);
  // Now three is what it has.
  EXPECT_TRUE(Try(checked, {{x, three}}).ok());
  EXPECT_FALSE(Try(checked, {{x, Tensor::Vector<float>({1, 2})}}).ok());
}

TEST_F(RefVariableTest, AssignSharesUntilWritten) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {2}), x = Arg(kFloat);
  const Tensor value = Tensor::Vector<float>({1, 2});
  EXPECT_TRUE(Run(Assign(s_, v, x), {{x, value}}).SharesBufferWith(value));
  Run(AssignAdd(s_, v, x), {{x, Tensor::Vector<float>({10, 20})}});
  ExpectTensor(value, Tensor::Vector<float>({1, 2}));
  ExpectTensor(Run(Identity(s_, v)), Tensor::Vector<float>({11, 22}));
}

TEST_F(RefVariableTest, AddAndSubtractInEveryNumberType) {
  for (const DType dtype : {kFloat, kDouble, kHalf, kBfloat16, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32,
                            kUint64, kComplex64, kComplex128}) {
    const Output v = RefVariable(s_, dtype, {3}), x = Arg(dtype);
    const absl::Status status = Dispatch(NumberTypes(), dtype, [&]<typename T>() {
      const auto number = [](float n) { return static_cast<T>(n); };
      Run(Assign(s_, v, x), {{x, Tensor::Vector<T>({number(5), number(6), number(7)})}});
      const Tensor update = Tensor::Vector<T>({number(1), number(2), number(3)});
      ExpectTensor(Run(AssignAdd(s_, v, x), {{x, update}}), Tensor::Vector<T>({number(6), number(8), number(10)}));
      Run(AssignSub(s_, v, x), {{x, update}});
      ExpectTensor(Run(AssignSub(s_, v, x), {{x, update}}), Tensor::Vector<T>({number(4), number(4), number(4)}));
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(RefVariableTest, UpdatesOfWrongShapes) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {2}), x = Arg(kFloat);
  EXPECT_THAT(Error(AssignAdd(s_, v, x), {{x, Tensor::Vector<float>({1, 2})}}), HasSubstr("uninitialized value v"));
  Run(Assign(s_, v, x), {{x, Tensor::Vector<float>({1, 2})}});
  EXPECT_THAT(Error(AssignAdd(s_, v, x), {{x, Tensor::Vector<float>({1})}}),
              HasSubstr("Parameters and update must be the same size"));
  AssignSub(s_, v, Const(s_, {1.0f}));
  EXPECT_EQ(s_.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RefVariableTest, CountUpTo) {
  const Output v = RefVariable(s_, kInt64, PartialShape(Shape()));
  Run(Assign(s_, v, Const(s_, int64_t{3})));
  const Output count = CountUpTo(s_, v, 5);
  ExpectTensor(Run(count), Tensor::Scalar<int64_t>(3));
  ExpectTensor(Run(count), Tensor::Scalar<int64_t>(4));
  EXPECT_THAT(Error(count), HasSubstr("OUT_OF_RANGE: Reached limit of 5"));
  ExpectTensor(Run(Identity(s_, v)), Tensor::Scalar<int64_t>(5));
}

TEST_F(RefVariableTest, TemporaryVariable) {
  const Output v = TemporaryVariable(s_, kFloat, {2}, "t");
  const Output sum = AssignAdd(s_, Assign(s_, v, Const(s_, {1.0f, 2.0f})), Const(s_, {1.0f, 1.0f}));
  const Output value = DestroyTemporaryVariable(s_, sum, "t");
  EXPECT_EQ(value.dtype(), kFloat);
  ExpectTensor(Run(value), Tensor::Vector<float>({2, 3}));
  ExpectTensor(Run(value), Tensor::Vector<float>({2, 3}));  // every step has its own
  const Output other = RefVariable(s_, kFloat, {1});
  EXPECT_EQ(Try(DestroyTemporaryVariable(s_, Assign(s_, other, Const(s_, {1.0f})), "u")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(RefVariableTest, ScatterOps) {
  const auto scatter = [&](absl::string_view op, Tensor rows, Tensor updates) {
    const Output v = RefVariable(s_, kFloat, {3, 2});
    Run(Assign(s_, v, Const(s_, {{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}})));
    const Output r = Arg(rows.dtype()), u = Arg(kFloat);
    return Run(s_.Add(op, {v, r, u}), {{r, rows}, {u, updates}});
  };
  const Tensor rows = Tensor::Vector<int32_t>({2, 0, 2}), wide = Tensor::Vector<int64_t>({2, 0, 2});
  const Tensor updates = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 10, 20});
  const auto expect = [&](absl::string_view op, std::initializer_list<float> expected) {
    ExpectTensor(scatter(op, rows, updates), Tensor::Of<float>({3, 2}, expected));
    ExpectTensor(scatter(op, wide, updates), Tensor::Of<float>({3, 2}, expected));
  };
  expect("ScatterUpdate", {3, 4, 3, 4, 10, 20});
  expect("ScatterAdd", {4, 6, 3, 4, 16, 28});
  expect("ScatterSub", {-2, -2, 3, 4, -6, -16});
  expect("ScatterMul", {3, 8, 3, 4, 50, 240});
  expect("ScatterDiv", {1.f / 3, 0.5, 3, 4, 0.5, 6. / 40});
  expect("ScatterMin", {1, 2, 3, 4, 1, 2});
  expect("ScatterMax", {3, 4, 3, 4, 10, 20});
  // One number for all; indices of any rank.
  ExpectTensor(scatter("ScatterAdd", Tensor::Of<int32_t>({1, 2}, {0, 2}), Tensor::Scalar(1.0f)),
               Tensor::Of<float>({3, 2}, {2, 3, 3, 4, 6, 7}));
  ExpectTensor(scatter("ScatterUpdate", Tensor::Scalar<int32_t>(1), Tensor::Vector<float>({8, 9})),
               Tensor::Of<float>({3, 2}, {1, 2, 8, 9, 5, 6}));
  ExpectTensor(scatter("ScatterAdd", Tensor::Zeros(kInt32, {0}), Tensor::Zeros(kFloat, {0, 2})),
               Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
}

TEST_F(RefVariableTest, ScatterOfOtherTypes) {
  const Output v = RefVariable(s_, kString, {2}), r = Arg(kInt32), u = Arg(kString);
  Run(Assign(s_, v, Const(s_, {"a", "b"})));
  ExpectTensor(
      Run(ScatterUpdate(s_, v, r, u), {{r, Tensor::Vector<int32_t>({1})}, {u, Tensor::Vector<std::string>({"c"})}}),
      Tensor::Vector<std::string>({"a", "c"}));
  const Output i = RefVariable(s_, kInt32, {2}), iu = Arg(kInt32);
  Run(Assign(s_, i, Const(s_, {6, std::numeric_limits<int32_t>::min()})));
  const Output divide = ScatterDiv(s_, i, r, iu);
  EXPECT_THAT(Error(divide, {{r, Tensor::Vector<int32_t>({1})}, {iu, Tensor::Vector<int32_t>({0})}}),
              HasSubstr("division by zero"));
  ExpectTensor(Run(divide, {{r, Tensor::Vector<int32_t>({0, 1})}, {iu, Tensor::Vector<int32_t>({-1, -1})}}),
               Tensor::Vector<int32_t>({-6, std::numeric_limits<int32_t>::min()}));
}

TEST_F(RefVariableTest, ScatterBadInput) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {2}), scalar = RefVariable(s_, kFloat, PartialShape());
  const Output r = Arg(kInt32), u = Arg(kFloat);
  const Output add = ScatterAdd(s_, v, r, u), to_scalar = ScatterAdd(s_, scalar, r, u);
  const Tensor two = Tensor::Of<float>({1, 2}, {1, 2});
  EXPECT_THAT(Error(add, {{r, Tensor::Of<int32_t>({1, 2}, {0, 1})}, {u, two}}), HasSubstr("uninitialized value v"));
  Run(Assign(s_, v, Const(s_, {1.0f, 2.0f})));
  Run(Assign(s_, scalar, Const(s_, 1.0f)));
  EXPECT_THAT(Error(add, {{r, Tensor::Of<int32_t>({1, 2}, {0, 7})}, {u, two}}),
              HasSubstr("indices[0,1] = 7 is not in [0, 2)"));
  EXPECT_THAT(Error(add, {{r, Tensor::Of<int32_t>({1, 2}, {-1, 0})}, {u, two}}),
              HasSubstr("indices[0,0] = -1 is not in [0, 2)"));
  EXPECT_THAT(
      Error(add, {{r, Tensor::Vector<int32_t>({0, 1})}, {u, two}}),
      HasSubstr("Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape "
                "[1,2], indices.shape [2], params.shape [2]"));
  EXPECT_THAT(Error(to_scalar, {{r, Tensor::Vector<int32_t>({0})}, {u, Tensor::Vector<float>({1})}}),
              HasSubstr("params must be at least 1-D, got shape []"));
  ExpectTensor(Run(Identity(s_, v)), Tensor::Vector<float>({1, 2}));  // nothing was written
}

TEST_F(RefVariableTest, ZeroInitializerWorksOnce) {
  const Output v = RefVariable(s_.WithOpName("v"), kFloat, {2});
  const Output zeros = s_.Add("ZeroInitializer", {v});
  ExpectTensor(Run(zeros), Tensor::Vector<float>({0, 0}));
  ExpectTensor(Run(Identity(s_, v)), Tensor::Vector<float>({0, 0}));
  EXPECT_THAT(Error(zeros), HasSubstr("INVALID_ARGUMENT: input is already initialized"));
  const Output unknown = RefVariable(s_.WithOpName("w"), kFloat, PartialShape());
  EXPECT_THAT(Error(s_.Add("ZeroInitializer", {unknown})), HasSubstr("not fully defined"));
}

TEST_F(RefVariableTest, ZeroVarInitializerWorksOnce) {
  const Output v = VarHandle(s_.WithOpName("v"), kInt32, {2});
  const Output zeros = s_.Add("ZeroVarInitializer", {v}, {{"dtype", kInt32}, {"shape", PartialShape({2})}});
  EXPECT_EQ(Run(zeros).dtype(), kResource);
  ExpectTensor(Run(ReadVariable(s_, v, kInt32)), Tensor::Vector<int32_t>({0, 0}));
  EXPECT_THAT(Error(zeros), HasSubstr("INVALID_ARGUMENT: input is already initialized"));
  EXPECT_FALSE(Try(s_.Add("ZeroVarInitializer", {v}, {{"dtype", kFloat}, {"shape", PartialShape({2})}})).ok());
}

TEST_F(RefVariableTest, ObtainNextGoesRound) {
  const Output v = RefVariable(s_.WithOpName("v"), kInt64, {}), x = Arg(kString);
  const Output next = s_.Add("ObtainNext", {x, v});
  const Tensor list = Tensor::Vector<std::string>({"a", "b"});
  EXPECT_THAT(Error(next, {{x, list}}), HasSubstr("uninitialized value v"));
  Run(Assign(s_, v, Const(s_, int64_t{-1})));
  for (const char* expected : {"a", "b", "a"}) EXPECT_EQ(Run(next, {{x, list}}).scalar<std::string>(), expected);
  EXPECT_THAT(Error(next, {{x, Tensor(kString, {0})}}), HasSubstr("list is empty"));
}

}  // namespace
}  // namespace thalweg
