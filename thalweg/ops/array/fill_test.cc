// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/string_memory.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(FillTest, Values) {
  ExpectTensor(Result("Fill", {Ints({2, 2}), Tensor::Scalar<float>(7)}), Tensor::Of<float>({2, 2}, {7, 7, 7, 7}));
  ExpectTensor(Result("Fill", {Longs({}), Int(3)}), Int(3));
  ExpectTensor(Result("Fill", {Ints({2}), Tensor::Scalar<std::string>("x")}), Strings({"x", "x"}));
  ExpectTensor(Result("Fill", {Ints({0}), Int(3)}), Ints({}));
  const Tensor large = Result("Fill", {Ints({1 << 20}), Int(3)});
  EXPECT_THAT(large.flat<int32_t>(), ::testing::Each(3));
}

TEST(FillTest, BadInput) {
  ExpectInvalid(KernelError("Fill", {Ints({2, -3}), Int(1)}), "");
  ExpectInvalid(KernelError("Fill", {Ints({2}), Ints({1, 2})}), "value must represent a scalar, got shape [2]");
  ExpectInvalid(KernelError("Fill", {Tensor::Of<int32_t>({1, 1}, {2}), Int(1)}), "dims must represent a vector");
  ExpectInvalid(KernelError("Fill", {Longs({int64_t{1} << 40, int64_t{1} << 40}), Int(1)}), "");
}

TEST(FillTest, TooLarge) {
  const absl::Status status = KernelError("Fill", {Longs({int64_t{1} << 50}), Int(1)});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

// Strings have their characters elsewhere than tensors their elements. Each op here would make 100 MB of a few KB.
TEST(CopiesOfStrings, EndBeforeTheyTakeTheMemoryOfTheMachine) {
  const std::string text(100'000, 'x');
  const Tensor one = Tensor::Scalar(text), row = Strings({text}), column = Tensor::Of<std::string>({1, 1}, {text});
  const Tensor zeros = Result("Fill", {Ints({1000}), Int(0)});
  const std::vector<Tensor> rows(1000, row), scalars(1000, one);
  LimitStringMemory(1);
  for (const absl::Status& status :
       {KernelError("Fill", {Ints({1000}), one}), KernelError("Tile", {row, Ints({1000})}),
        KernelError("BroadcastTo", {row, Ints({1000})}), KernelError("Tile", {column, Ints({20, 50})}),
        KernelError("GatherV2", {row, zeros, Int(0)}), KernelError("Pack", {scalars}, {{"N", 1000}}),
        KernelError("ConcatV2", {rows, Int(0)}, {{"N", 1000}}), KernelError("StringJoin", {scalars}, {{"N", 1000}})}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("no memory for a string of")) << status;
  }
  LimitStringMemory(0);
  EXPECT_EQ(Result("Tile", {row, Ints({2})}).num_elements(), 2);
}

TEST(FillTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  EXPECT_EQ(Fill(s, Const(s, {2, 3}), Const(s, 0)).shape().ToString(), "[2,3]");
  EXPECT_EQ(Fill(s, ShapeOf(s, Placeholder(s, kFloat, {-1, 3})), Const(s, 0)).shape().ToString(), "[?,3]");
}

TEST(FillTest, Gradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Fill(s, Const(s, {2, 3}), x[0]);
      },
      {TestValues(kDouble, {})});
}

TEST(ZerosLikeTest, Values) {
  ExpectTensor(Result("ZerosLike", {Counting({2})}), FloatVector({0, 0}));
  ExpectTensor(Result("ZerosLike", {Strings({"a"})}), Strings({""}));
  ExpectTensor(Result("ZerosLike", {Tensor::Vector<bool>({true})}), Tensor::Vector<bool>({false}));
  ExpectTensor(Result("OnesLike", {Counting({2})}), FloatVector({1, 1}));
  ExpectTensor(Result("OnesLike", {Tensor::Vector<Half>({Half(3)})}), Tensor::Vector<Half>({Half(1)}));
  ExpectTensor(Result("OnesLike", {Tensor::Vector<std::complex<double>>({{3, 4}})}),
               Tensor::Vector<std::complex<double>>({{1, 0}}));
  EXPECT_EQ(*InferShape("OnesLike", {{kFloat, {2, -1}}}), "[2,?]");
}

}  // namespace
}  // namespace thalweg
