// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

// x[begin:end:strides] with masks.
Tensor Sliced(const Tensor& x, std::initializer_list<int32_t> begin, std::initializer_list<int32_t> end,
              std::initializer_list<int32_t> strides, std::vector<AttrArg> masks = {}) {
  return Result("StridedSlice", {x, Ints(begin), Ints(end), Ints(strides)}, std::move(masks));
}

TEST(StridedSliceTest, Ranges) {
  const Tensor x = Counting({3, 4});
  ExpectTensor(Sliced(x, {1}, {2}, {1}), Tensor::Of<float>({1, 4}, {5, 6, 7, 8}));
  ExpectTensor(Sliced(x, {0, 1}, {3, 4}, {2, 2}), Tensor::Of<float>({2, 2}, {2, 4, 10, 12}));
  ExpectTensor(Sliced(x, {-1, -1}, {0, -4}, {-1, -2}), Tensor::Of<float>({2, 2}, {12, 10, 8, 6}));
  ExpectTensor(Sliced(x, {5}, {9}, {1}), Tensor(kFloat, {0, 4}));
  ExpectTensor(Sliced(x, {-100}, {100}, {1}), x);
  ExpectTensor(Sliced(x, {}, {}, {}), x);
}

TEST(StridedSliceTest, Masks) {
  const Tensor x = Counting({2, 3});
  ExpectTensor(Sliced(x, {9, 1}, {9, 9}, {1, 1}, {{"begin_mask", 1}, {"end_mask", 3}}),
               Tensor::Of<float>({2, 2}, {2, 3, 5, 6}));
  ExpectTensor(Sliced(x, {0, 0}, {0, 0}, {-1, -1}, {{"begin_mask", 3}, {"end_mask", 3}}),
               Tensor::Of<float>({2, 3}, {6, 5, 4, 3, 2, 1}));
  ExpectTensor(Sliced(x, {-1}, {0}, {1}, {{"shrink_axis_mask", 1}}), FloatVector({4, 5, 6}));
  ExpectTensor(Sliced(x, {1, 2}, {2, 3}, {1, 1}, {{"shrink_axis_mask", 3}}), Tensor::Scalar<float>(6));
  ExpectTensor(Sliced(x, {0, 1}, {0, 2}, {1, 1}, {{"ellipsis_mask", 1}}), Tensor::Of<float>({2, 1}, {2, 5}));
  ExpectTensor(Sliced(x, {0, 1}, {0, 2}, {1, 1}, {{"new_axis_mask", 1}}), Tensor::Of<float>({1, 1, 3}, {4, 5, 6}));
  ExpectTensor(
      Sliced(x, {0, 0, 1}, {0, 0, 2}, {1, 1, 1}, {{"ellipsis_mask", 1}, {"new_axis_mask", 2}, {"shrink_axis_mask", 4}}),
      Tensor::Of<float>({2, 1}, {2, 5}));
}

TEST(StridedSliceTest, TypesAndSharing) {
  ExpectTensor(Sliced(Strings({"a", "b", "c"}), {0}, {3}, {2}), Strings({"a", "c"}));
  ExpectTensor(Result("StridedSlice", {Ints({5, 6, 7}), Longs({1}), Longs({2}), Longs({1})}, {{"shrink_axis_mask", 1}}),
               Int(6));
  const Tensor x = TestValues(kFloat, {100, 100});
  const Tensor row = Sliced(x, {7}, {8}, {1}, {{"shrink_axis_mask", 1}});
  ExpectTensor(row, x.Rows(7, 8).WithShape({100}));
  EXPECT_TRUE(row.SharesBufferWith(x));
}

TEST(StridedSliceTest, BadInput) {
  const Tensor x = Counting({2, 3});
  const auto error = [&](Tensor begin, Tensor end, Tensor strides, std::vector<AttrArg> masks = {}) {
    return KernelError("StridedSlice", {x, begin, end, strides}, std::move(masks));
  };
  ExpectInvalid(error(Ints({0}), Ints({1}), Ints({0})), "strides[0] must be non-zero");
  ExpectInvalid(error(Ints({2}), Ints({3}), Ints({1}), {{"shrink_axis_mask", 1}}),
                "slice index 2 of dimension 0 out of bounds.");
  ExpectInvalid(error(Ints({0}), Ints({1}), Ints({-1}), {{"shrink_axis_mask", 1}}),
                "only stride 1 allowed on non-range indexing.");
  ExpectInvalid(error(Ints({0, 0, 0}), Ints({1, 1, 1}), Ints({1, 1, 1})),
                "Index out of range using input dim 2; input has only 2 dims");
  ExpectInvalid(error(Ints({0, 0}), Ints({1, 1}), Ints({1, 1}), {{"ellipsis_mask", 3}}), "Multiple ellipses");
  ExpectInvalid(error(Ints({0, 0}), Ints({1}), Ints({1})), "Expected begin, end, and strides to be 1D equal size");
}

TEST(StridedSliceTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 5, 6});
  const auto at = [&](std::initializer_list<int32_t> v) { return Const(s, v); };
  EXPECT_EQ(StridedSlice(s, x, at({0, 1}), at({1, 4}), at({1, 1})).shape().ToString(), "[?,3,6]");
  EXPECT_EQ(StridedSlice(s, x, at({0}), at({1}), at({1}), {.shrink_axis_mask = 1}).shape().ToString(), "[5,6]");
  EXPECT_EQ(StridedSlice(s, x, Placeholder(s, kInt32, {1}), at({1}), at({1})).shape().ToString(), "[?,5,6]");
  EXPECT_EQ(
      StridedSlice(s, x, Placeholder(s, kInt32), Placeholder(s, kInt32), Placeholder(s, kInt32)).shape().ToString(),
      "<unknown>");
}

TEST(StridedSliceTest, Gradients) {
  const Tensor x = TestValues(kDouble, {4, 3});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return StridedSlice(s, x[0], Const(s, {3, 0}), Const(s, {0, 1}), Const(s, {-2, 1}), {.shrink_axis_mask = 2});
      },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Output(s.Add("StridedSliceGrad", {Const(s, {4, 5}), Const(s, {0}), Const(s, {4}), Const(s, {2}), x[0]}));
      },
      {TestValues(kDouble, {2, 5})});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Output(s.Add("TensorStridedSliceUpdate", {x[0], Const(s, {1}), Const(s, {3}), Const(s, {1}), x[1]}));
      },
      {x, TestValues(kDouble, {2, 3}, -1, 1, 3)});
}

TEST(StridedSliceGradTest, Values) {
  ExpectTensor(Result("StridedSliceGrad", {Ints({2, 3}), Ints({1, 0}), Ints({2, 3}), Ints({1, 2}), FloatVector({7, 8})},
                      {{"shrink_axis_mask", 1}}),
               Tensor::Of<float>({2, 3}, {0, 0, 0, 7, 0, 8}));
  ExpectInvalid(KernelError("StridedSliceGrad", {Ints({4}), Ints({0}), Ints({2}), Ints({1}), FloatVector({1, 2, 3})}),
                "shape of dy was [3] instead of [2]");
}

TEST(TensorStridedSliceUpdateTest, Values) {
  ExpectTensor(Result("TensorStridedSliceUpdate", {Ints({1, 2, 3, 4}), Ints({0}), Ints({4}), Ints({2}), Ints({8, 9})}),
               Ints({8, 2, 9, 4}));
  ExpectTensor(Result("TensorStridedSliceUpdate", {Ints({1, 2, 3, 4}), Ints({1}), Ints({3}), Ints({1}), Int(7)}),
               Ints({1, 7, 7, 4}));
}

}  // namespace
}  // namespace thalweg
