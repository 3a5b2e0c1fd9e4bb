// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

const std::vector<int64_t> kOnes(4, 1);

std::string Error(absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs) {
  return std::string(RunOp(op, std::move(inputs), std::move(attrs)).status().message());
}

TEST(ConvTest, Values) {
  const Tensor x = Tensor::Of<float>({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const Tensor w = Tensor::Of<float>({2, 2, 1, 1}, {1, 10, 100, 1000});
  ExpectTensor(Result("Conv2D", {x, w}, {{"strides", kOnes}, {"padding", "VALID"}}),
               Tensor::Of<float>({1, 1, 2, 1}, {5421, 6532}));
  ExpectTensor(Result("Conv2D", {x, w}, {{"strides", std::vector<int64_t>{1, 2, 2, 1}}, {"padding", "SAME"}}),
               Tensor::Of<float>({1, 1, 2, 1}, {5421, 603}));
  ExpectTensor(Result("Conv2D", {x, w},
                      {{"strides", kOnes},
                       {"padding", "EXPLICIT"},
                       {"explicit_paddings", std::vector<int64_t>{0, 0, 1, 0, 0, 0, 0, 0}}}),
               Tensor::Of<float>({1, 2, 2, 1}, {2100, 3200, 5421, 6532}));
}

// oneDNN and patches of doubles agree, over settings that take different ways.
TEST(ConvTest, FloatAndDouble) {
  struct Case {
    Shape input, filter;
    std::vector<int64_t> strides, dilations;
    const char* padding;
  };
  const Case cases[] = {{{5, 9, 8, 3}, {5, 5, 3, 16}, {1, 1, 1, 1}, {1, 1, 1, 1}, "SAME"},
                        {{3, 9, 8, 8}, {3, 3, 8, 8}, {1, 2, 2, 1}, {1, 1, 1, 1}, "SAME"},
                        {{2, 9, 9, 5}, {3, 2, 5, 7}, {1, 1, 1, 1}, {1, 2, 3, 1}, "VALID"},
                        {{2, 6, 6, 4}, {1, 1, 4, 3}, {1, 3, 3, 1}, {1, 1, 1, 1}, "VALID"},
                        {{2, 6, 6, 8}, {3, 3, 4, 16}, {1, 1, 1, 1}, {1, 1, 1, 1}, "SAME"}};
  for (const Case& c : cases) {
    const std::vector<AttrArg> attrs{{"strides", c.strides}, {"dilations", c.dilations}, {"padding", c.padding}};
    const auto cast = [](const Tensor& t) { return RunOp("Cast", {t}, {{"DstT", kFloat}}).value()[0]; };
    const Tensor x = TestValues(kDouble, c.input), w = TestValues(kDouble, c.filter, -1, 1, 2);
    const Tensor y = Result("Conv2D", {x, w}, attrs);
    ExpectTensor(Result("Conv2D", {cast(x), cast(w)}, attrs), cast(y), 1e-4);
    if (c.input.dim(3) != c.filter.dim(2)) continue;  // groups have no gradients
    const Tensor dy = TestValues(kDouble, y.shape(), -1, 1, 3);
    ExpectTensor(Result("Conv2DBackpropInputV2", {cast(x), cast(w), cast(dy)}, attrs),
                 cast(Result("Conv2DBackpropInputV2", {x, w, dy}, attrs)), 1e-4);
    ExpectTensor(Result("Conv2DBackpropFilterV2", {cast(x), cast(w), cast(dy)}, attrs),
                 cast(Result("Conv2DBackpropFilterV2", {x, w, dy}, attrs)), 1e-4);
  }
}

TEST(ConvTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 5, 4, 2}), w = TestValues(kDouble, {3, 2, 2, 3}, -1, 1, 2);
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return Conv2D(s, v[0], v[1], {1, 2, 1, 1}, Padding::kSame);
      },
      {x, w});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return Conv2D(s, v[0], v[1], kOnes, Padding::kValid, {.dilations = {1, 2, 2, 1}});
      },
      {x, w.Rows(0, 2)});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return DepthwiseConv2dNative(s, v[0], v[1], {1, 1, 2, 1}, Padding::kSame);
      },
      {x, w});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return Conv3D(s, v[0], v[1], {1, 1, 2, 1, 1}, Padding::kSame);
      },
      {TestValues(kDouble, {1, 3, 4, 3, 2}), TestValues(kDouble, {2, 3, 2, 2, 2}, -1, 1, 2)});
}

TEST(ConvTest, SecondGradients) {
  const Tensor sizes = Tensor::Vector<int32_t>({2, 4, 4, 2}), filter_sizes = Tensor::Vector<int32_t>({2, 3, 2, 3});
  const Tensor x = TestValues(kDouble, {2, 4, 4, 2}), w = TestValues(kDouble, {2, 3, 2, 3}, -1, 1, 2);
  const Tensor dy = TestValues(kDouble, {2, 4, 4, 3}, -1, 1, 3);
  ExpectGradient(
      [&](const Scope& s, const std::vector<Output>& v) {
        return Conv2DBackpropInput(s, s.Add("Const", {}, {{"value", sizes}, {"dtype", kInt32}}), v[0], v[1], kOnes,
                                   Padding::kSame);
      },
      {w, dy});
  ExpectGradient(
      [&](const Scope& s, const std::vector<Output>& v) {
        return Conv2DBackpropFilter(s, v[0], s.Add("Const", {}, {{"value", filter_sizes}, {"dtype", kInt32}}), v[1],
                                    kOnes, Padding::kSame);
      },
      {x, dy});
}

// The same as the ops that it stands for.
TEST(ConvTest, FusedWithPad) {
  const Tensor image = TestValues(kFloat, {2, 4, 5, 3}), filter = TestValues(kFloat, {3, 2, 3, 4}, -1, 1, 2);
  const Tensor pads = Tensor::Of<int32_t>({4, 2}, {0, 0, 1, 2, 3, 0, 0, 0}), size = Tensor::Vector<int32_t>({6, 7});
  const auto one = [](absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs) {
    const auto y = RunOp(op, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(y.ok()) << op << ": " << y.status();
    return y.ok() ? (*y)[0] : Tensor();
  };
  for (const char* mode : {"REFLECT", "SYMMETRIC"}) {
    for (const char* padding : {"SAME", "VALID"}) {
      const std::vector<AttrArg> conv = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", padding}};
      std::vector<AttrArg> fused = conv;
      fused.emplace_back("mode", mode);
      const auto expected = [&](const Tensor& x) {
        return one("Conv2D", {one("MirrorPad", {x, pads}, {{"mode", mode}}), filter}, conv);
      };
      ExpectTensor(one("FusedPadConv2D", {image, pads, filter}, fused), expected(image));
      for (const bool align : {false, true}) {
        std::vector<AttrArg> attrs = fused;
        attrs.emplace_back("resize_align_corners", align);
        ExpectTensor(one("FusedResizeAndPadConv2D", {image, size, pads, filter}, attrs),
                     expected(one("ResizeBilinear", {image, size}, {{"align_corners", align}})));
      }
    }
  }
  const std::vector<AttrArg> attrs = {
      {"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}, {"mode", "REFLECT"}};
  const auto code = [&](const Tensor& x, const Tensor& p, const Tensor& f) {
    return RunOp("FusedPadConv2D", {x, p, f}, attrs).status().code();
  };
  using Code = absl::StatusCode;
  EXPECT_EQ(code(Tensor::Zeros(kFloat, {0, 4, 5, 3}), pads, filter), Code::kInvalidArgument);
  EXPECT_EQ(code(image, pads, TestValues(kFloat, {3, 2, 2, 4})), Code::kInvalidArgument);
  EXPECT_EQ(code(image, pads, Tensor::Zeros(kFloat, {3, 0, 3, 4})), Code::kInvalidArgument);
  for (const std::vector<int32_t>& bad : {std::vector<int32_t>{0, 0, -1, 0, 0, 0, 0, 0},
                                          {0, 0, 4, 0, 0, 0, 0, 0},
                                          {1, 0, 0, 0, 0, 0, 0, 0},
                                          {0, 0, 0, 0, 0, 0, 0, 1}}) {
    EXPECT_EQ(code(image, Tensor::Of<int32_t>({4, 2}, absl::MakeConstSpan(bad)), filter), Code::kInvalidArgument);
  }
  EXPECT_EQ(code(image, Tensor::Zeros(kInt32, {3, 2}), filter), Code::kInvalidArgument);
  EXPECT_EQ(
      InferShape("FusedPadConv2D", {{kFloat, {2, 4, 5, 3}}, {kInt32, {4, 2}}, {kFloat, {3, 2, 3, 4}}}, attrs).value(),
      "[?,?,?,4]");
}

TEST(ConvTest, Empty) {
  const std::vector<AttrArg> attrs{{"strides", kOnes}, {"padding", "SAME"}};
  EXPECT_EQ(Result("Conv2D", {Tensor(kFloat, {0, 4, 4, 2}), Tensor::Zeros(kFloat, {3, 3, 2, 5})}, attrs).shape(),
            Shape({0, 4, 4, 5}));
  ExpectTensor(
      Result("Conv2DBackpropFilterV2",
             {Tensor(kFloat, {0, 4, 4, 2}), Tensor::Zeros(kFloat, {1, 1, 2, 1}), Tensor(kFloat, {0, 4, 4, 1})}, attrs),
      Tensor::Zeros(kFloat, {1, 1, 2, 1}));
}

TEST(ConvTest, BadInput) {
  const Tensor x = TestValues(kFloat, {1, 4, 4, 3}), w = TestValues(kFloat, {2, 2, 3, 2});
  const auto attrs = [](std::vector<int64_t> strides, const char* padding, std::vector<int64_t> dilations = kOnes) {
    return std::vector<AttrArg>{{"strides", strides}, {"padding", padding}, {"dilations", dilations}};
  };
  EXPECT_THAT(Error("Conv2D", {x, TestValues(kFloat, {2, 2, 2, 2})}, attrs(kOnes, "SAME")), HasSubstr("multiple"));
  EXPECT_THAT(Error("Conv2D", {x, w}, attrs({1, 0, 1, 1}, "SAME")), HasSubstr("larger than 0"));
  EXPECT_THAT(Error("Conv2D", {x, w}, attrs({1, 1, 1}, "SAME")), HasSubstr("must specify 4 dimensions"));
  EXPECT_THAT(Error("Conv2D", {x, w}, attrs({2, 1, 1, 1}, "SAME")), HasSubstr("batch and depth"));
  EXPECT_THAT(Error("Conv2D", {x, w}, attrs({1, 1LL << 40, 1, 1}, "SAME")), HasSubstr("out of range"));
  EXPECT_THAT(Error("Conv2D", {x, w}, attrs(kOnes, "VALID", {1, 2000000000, 1, 1})), HasSubstr("negative"));
  EXPECT_THAT(Error("Conv2D", {x, TestValues(kFloat, {6, 2, 3, 2})}, attrs(kOnes, "VALID")), HasSubstr("negative"));
  std::vector<AttrArg> explicit_attrs = attrs(kOnes, "EXPLICIT");
  explicit_attrs.emplace_back("explicit_paddings", std::vector<int64_t>{0, 0, 2000000000, 2000000000, 0, 0, 0, 0});
  EXPECT_FALSE(RunOp("Conv2D", {x, w}, explicit_attrs).ok());  // too much memory
  explicit_attrs.back() = {"explicit_paddings", std::vector<int64_t>{0, 0, -1, 0, 0, 0, 0, 0}};
  EXPECT_THAT(Error("Conv2D", {x, w}, explicit_attrs), HasSubstr("nonnegative"));
  const Tensor dy = TestValues(kFloat, {1, 2, 2, 2});
  EXPECT_THAT(Error("Conv2DBackpropInput", {Tensor::Vector<int32_t>({1, 4, 4, 3}), w, dy}, attrs(kOnes, "SAME")),
              HasSubstr("Size of out_backprop doesn't match computed"));
  EXPECT_FALSE(
      RunOp("Conv2DBackpropInput", {Tensor::Vector<int32_t>({1, -4, 4, 3}), w, dy}, attrs(kOnes, "SAME")).ok());
  EXPECT_FALSE(RunOp("Conv2DBackpropFilter", {x, Tensor::Vector<int32_t>({2, 2}), dy}, attrs(kOnes, "SAME")).ok());
  EXPECT_FALSE(
      RunOp("DepthwiseConv2dNativeBackpropFilter", {x, Tensor::Vector<int32_t>({2, 2, 3, 1}), dy}, attrs(kOnes, "SAME"))
          .ok());
}

TEST(ConvTest, Shapes) {
  EXPECT_EQ(InferShape("Conv2D", {{kFloat, {-1, 24, -1, 3}}, {kFloat, {5, 5, 3, 64}}},
                       {{"strides", kOnes}, {"padding", "VALID"}})
                .value(),
            "[?,20,?,64]");
  EXPECT_EQ(InferShape("DepthwiseConv2dNative", {{kFloat, {8, 24, 24, -1}}, {kFloat, {5, 5, 3, 2}}},
                       {{"strides", kOnes}, {"padding", "SAME"}})
                .value(),
            "[8,24,24,6]");
}

}  // namespace
}  // namespace thalweg
