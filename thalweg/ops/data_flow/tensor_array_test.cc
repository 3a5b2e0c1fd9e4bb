// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/tensor_array.h"

#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

class TensorArrayTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<Tensor>> Try(const std::vector<Output>& fetches) {
    if (!s_.ok()) return s_.status();
    return Evaluate(graph_, {}, fetches, TestDevice());
  }
  Tensor Run(Output output) {
    const auto values = Try({output});
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? (*values)[0] : Tensor();
  }
  std::string Error(const std::vector<Output>& outputs) { return Try(outputs).status().ToString(); }
  Output Int(int32_t value) { return Const(s_, value); }
  Output Ints(std::initializer_list<int32_t> values) { return Const(s_, Tensor::Vector<int32_t>(values)); }

  Graph graph_;
  Scope s_ = graph_.root();
};

TEST_F(TensorArrayTest, WritesAndReads) {
  const auto [handle, flow] = TensorArrayOf(s_, Int(3), kFloat, {.element_shape = {2}});
  const Output first = TensorArrayWrite(s_, handle, Int(0), Const(s_, {1.0f, 2.0f}), flow);
  const Output second = TensorArrayWrite(s_, handle, Int(2), Const(s_, {3.0f, 4.0f}), first);
  const Output read = TensorArrayRead(s_, handle, Int(2), second, kFloat);
  EXPECT_EQ(read.shape().ToString(), "[2]");
  ExpectTensor(Run(read), Tensor::Vector({3.0f, 4.0f}));
  const Output all = TensorArrayGather(s_, handle, Ints({2, 1, 0}), second, kFloat);
  EXPECT_EQ(all.shape().ToString(), "[3,2]");
  ExpectTensor(Run(all), Tensor::Of<float>({3, 2}, {3, 4, 0, 0, 1, 2}));
  ExpectTensor(Run(TensorArraySize(s_, handle, second)), Tensor::Scalar(3));
  EXPECT_THAT(Error({TensorArrayWrite(s_, handle, Int(0), Const(s_, {1.0f, 2.0f}), second)}),
              HasSubstr(": Could not write to TensorArray index 0 because it has already been written to."));
  EXPECT_THAT(Error({TensorArrayWrite(s_, handle, Int(3), Const(s_, {1.0f, 2.0f}), second)}),
              HasSubstr(": Tried to write to index 3 but array is not resizeable and size is: 3"));
  EXPECT_THAT(Error({TensorArrayRead(s_, handle, Int(-1), second, kFloat)}),
              HasSubstr("Tried to read from index -1 but array size is: 3"));
  EXPECT_THAT(Error({TensorArrayRead(s_, handle, Int(0), second, kInt32)}),
              HasSubstr("TensorArray dtype is float but Op requested dtype int32."));
}

TEST_F(TensorArrayTest, ScatterSplitConcat) {
  const auto [handle, flow] = TensorArrayOf(s_, Int(0), kInt32, {.dynamic_size = true});
  const Output written =
      TensorArrayScatter(s_, handle, Ints({2, 0, 1}), Const(s_, Tensor::Of<int32_t>({3, 2}, {1, 2, 3, 4, 5, 6})), flow);
  const auto [value, lengths] = TensorArrayConcat(s_, handle, written, kInt32);
  ExpectTensor(Run(value), Tensor::Vector({3, 4, 5, 6, 1, 2}));
  ExpectTensor(Run(lengths), Tensor::Vector<int64_t>({2, 2, 2}));
  const auto [parts, start] = TensorArrayOf(s_, Int(3), kString);
  const Output split = TensorArraySplit(s_, parts, Const(s_, Tensor::Vector<std::string>({"a", "b", "c"})),
                                        Const(s_, Tensor::Vector<int64_t>({1, 0, 2})), start);
  ExpectTensor(Run(TensorArrayRead(s_, parts, Int(2), split, kString)), Tensor::Vector<std::string>({"b", "c"}));
  ExpectTensor(Run(TensorArrayRead(s_, parts, Int(1), split, kString)), Tensor(kString, Shape({0})));
  EXPECT_THAT(Error({TensorArraySplit(s_, parts, Const(s_, Tensor::Vector<std::string>({"a"})),
                                      Const(s_, Tensor::Vector<int64_t>({2, -1, 0})), start)}),
              HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(Error({TensorArrayWrite(s_, handle, Int(2147483647), Const(s_, {1, 2}), flow)}),
              HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_THAT(Error({TensorArrayOf(s_, Int(2147483647), kInt32).handle}), HasSubstr("RESOURCE_EXHAUSTED"));
}

TEST_F(TensorArrayTest, ReadsOnceAndCloses) {
  const auto [handle, flow] = TensorArrayOf(s_, Int(1), kFloat);
  const Output w = TensorArrayWrite(s_, handle, Int(0), Const(s_, 1.0f), flow);
  EXPECT_THAT(Error({TensorArrayGather(s_, handle, Ints({0, 0}), w, kFloat)}),
              HasSubstr(": Could not read index 0 twice because it was cleared after a previous read"));
  const Output closed = TensorArrayClose(s_.WithControlDependencies({w}), handle);
  EXPECT_THAT(Error({TensorArraySize(s_.WithControlDependencies({closed}), handle, w)}),
              HasSubstr("has already been closed."));
  const Output read = TensorArrayRead(s_, handle, Int(0), w, kFloat);
  EXPECT_THAT(Error({TensorArrayWrite(s_.WithControlDependencies({read}), handle, Int(0), Const(s_, 1.0f), w)}),
              HasSubstr("because it has already been read."));
  EXPECT_THAT(Error({TensorArrayRead(s_, handle, Int(0), flow, kFloat)}),
              HasSubstr("Furthermore, the element shape is not fully defined: <unknown>"));
}

TEST_F(TensorArrayTest, GradientsGoBackAlongTheFlow) {
  const Tensor x = TestValues(kDouble, {3, 2}), y = TestValues(kDouble, {2}, -1, 1, 3);
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& xs) {
        const auto [handle, flow] = TensorArrayOf(s, Const(s, 4), kDouble, {.clear_after_read = false});
        Output f = TensorArrayScatter(s, handle, Const(s, {0, 3, 1}), xs[0], flow);
        f = TensorArrayWrite(s, handle, Const(s, 2), xs[1], f);
        const Output all = TensorArrayGather(s, handle, Const(s, {3, 2, 1}), f, kDouble);
        const Output one = TensorArrayRead(s, handle, Const(s, 1), f, kDouble);
        return Mul(s, Mul(s, all, all), one);
      },
      {x, y});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& xs) {
        const auto [handle, flow] = TensorArrayOf(s, Const(s, 2), kDouble);
        const Output f = TensorArraySplit(s, handle, xs[0], Const(s, Tensor::Vector<int64_t>({2, 1})), flow);
        const Output all = TensorArrayConcat(s, handle, f, kDouble).value;
        return Mul(s, all, all);
      },
      {x});
}

TEST_F(TensorArrayTest, TwoGradientsOfOneArrayDoNotMix) {
  const Output x = Const(s_, {2.0f, 3.0f});
  const auto [handle, flow] = TensorArrayOf(s_, Int(1), kFloat, {.clear_after_read = false});
  const Output f = TensorArrayWrite(s_, handle, Int(0), x, flow);
  const Output y = Square(s_, TensorArrayRead(s_, handle, Int(0), f, kFloat));
  const Output once = ToDense(s_, Gradients(s_, {y}, {x})[0]), again = ToDense(s_, Gradients(s_, {y}, {x})[0]);
  const auto values = Try({once, again});
  ASSERT_TRUE(values.ok()) << values.status();
  ExpectTensor((*values)[0], Tensor::Vector({4.0f, 6.0f}));
  ExpectTensor((*values)[1], Tensor::Vector({4.0f, 6.0f}));
}

TEST_F(TensorArrayTest, Stacks) {
  const Output stack = StackOf(s_, Int(2), kFloat);
  const Output one = StackPush(s_, stack, Const(s_, 1.0f));
  const Output two = StackPush(s_.WithControlDependencies({one}), stack, Const(s_, 2.0f));
  const Output top = StackPop(s_.WithControlDependencies({two}), stack, kFloat);
  const Output next = StackPop(s_.WithControlDependencies({top}), stack, kFloat);
  const auto values = Try({top, next});
  ASSERT_TRUE(values.ok()) << values.status();
  ExpectTensor((*values)[0], Tensor::Scalar(2.0f));
  ExpectTensor((*values)[1], Tensor::Scalar(1.0f));
  EXPECT_THAT(Error({StackPush(s_.WithControlDependencies({two}), stack, Const(s_, 3.0f))}),
              HasSubstr("overflowed its max_size (2)"));
  EXPECT_THAT(Error({StackPop(s_.WithControlDependencies({next}), stack, kFloat)}),
              HasSubstr("] is empty when calling Pop()."));
  EXPECT_THAT(Error({StackPush(s_, stack, Const(s_, 1))}), HasSubstr("Must have type float but got int32"));
  const Output closed = StackClose(s_.WithControlDependencies({one}), stack);
  EXPECT_THAT(Error({StackPop(s_.WithControlDependencies({closed}), stack, kFloat)}),
              HasSubstr("has already been closed."));
  EXPECT_THAT(Error({TensorArraySize(s_, stack, Const(s_, 0.0f))}), HasSubstr("using the wrong type"));
}

}  // namespace
}  // namespace thalweg
