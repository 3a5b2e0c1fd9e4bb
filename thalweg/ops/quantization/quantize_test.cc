// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

const Tensor kX = Tensor::Vector<float>({-1, -0.3f, 0, 0.4f, 2});

TEST(QuantizeTest, ThereAndBack) {
  const Tensor low = Tensor::Scalar(-1.0f), high = Tensor::Scalar(2.0f);
  for (const char* mode : {"MIN_COMBINED", "MIN_FIRST", "SCALED"}) {
    SCOPED_TRACE(mode);
    const auto there = RunOp("QuantizeV2", {kX, low, high}, {{"T", kQint16}, {"mode", mode}});
    ASSERT_TRUE(there.ok()) << there.status();
    const auto back = RunOp("Dequantize", {(*there)[0], (*there)[1], (*there)[2]}, {{"mode", mode}});
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectTensor((*back)[0], kX, 1e-4);
  }
}

TEST(QuantizeTest, BadInputIsAnError) {
  const Tensor one = Tensor::Scalar(1.0f), two = Tensor::Vector<float>({1, 2});
  EXPECT_FALSE(RunOp("QuantizeV2", {kX, two, two}, {{"T", kQint8}}).ok());
  EXPECT_FALSE(RunOp("QuantizeV2", {kX, one, Tensor::Scalar(0.0f)}, {{"T", kQint8}}).ok());
  EXPECT_FALSE(RunOp("QuantizeV2", {kX, one, one}, {{"T", kQint8}, {"axis", 1}}).ok());
  EXPECT_FALSE(RunOp("QuantizeV2", {kX, one, one}, {{"T", kQint8}, {"axis", -2}}).ok());
  EXPECT_FALSE(RunOp("QuantizeV2", {kX, two, two}, {{"T", kQint8}, {"axis", 0}}).ok());
  const auto both = [&](std::vector<AttrArg> attrs, const Tensor& min = Tensor::Scalar(0.0f)) {
    return RunOp("QuantizeAndDequantizeV2", {kX, min, Tensor::Scalar(1.0f)}, std::move(attrs)).ok();
  };
  EXPECT_TRUE(both({}));
  EXPECT_FALSE(both({{"num_bits", 64}}));
  EXPECT_FALSE(both({{"axis", 3}}));
  EXPECT_FALSE(both({{"range_given", true}}, two));
  EXPECT_FALSE(both({{"range_given", true}}, Tensor::Scalar(2.0f)));
  EXPECT_FALSE(RunOp("FakeQuantWithMinMaxVars", {kX, two, two}).ok());
  EXPECT_FALSE(RunOp("FakeQuantWithMinMaxVarsPerChannel", {kX, two, two}).ok());
  EXPECT_FALSE(RunOp("FakeQuantWithMinMaxVarsPerChannel", {one, two, two}).ok());
  EXPECT_FALSE(RunOp("FakeQuantWithMinMaxVarsGradient", {two, kX, one, one}).ok());
}

// TensorFlow's results for weights 1 to 6; nothing where it has no gradient.
TEST(QuantizeTest, GradientsAreTensorFlows) {
  const Tensor x = Tensor::Of<float>({2, 3}, {-7, -1.1f, -0.3f, 0.04f, 1.6f, 6.5f});
  const Tensor weights = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor low = Tensor::Scalar(-1.f), high = Tensor::Scalar(1.5f);
  const Tensor lows = Tensor::Vector<float>({-1, -1, -0.25f}), highs = Tensor::Vector<float>({1, 1.5f, 7});
  const auto expect = [&](const char* op, const std::vector<Tensor>& inputs, const std::vector<AttrArg>& attrs,
                          const std::vector<Tensor>& expected) {
    SCOPED_TRACE(op);
    Graph graph;
    const Scope s = graph.root();
    std::vector<Output> xs;
    std::vector<OpInput> arguments;
    for (const Tensor& t : inputs) {
      xs.push_back(Const(s, t));
      arguments.emplace_back(xs.back());
    }
    const std::vector<Gradient> dx = Gradients(s, {Output(s.Add(op, arguments, attrs))}, xs, {Const(s, weights)});
    ASSERT_TRUE(s.ok()) << s.status();
    for (size_t i = 0; i < dx.size(); ++i) {
      ASSERT_EQ(static_cast<bool>(dx[i]), i < expected.size()) << i;
      if (i >= expected.size()) continue;
      const auto values = Evaluate(graph, {}, {dx[i].values}, TestDevice());
      ASSERT_TRUE(values.ok()) << values.status();
      ExpectTensor((*values)[0], expected[i]);
    }
  };
  const auto of_x = [](std::initializer_list<float> values) { return Tensor::Of<float>({2, 3}, values); };
  const Tensor inside = of_x({0, 0, 3, 4, 0, 0}), none = Tensor::Scalar(0.f), nones = Tensor::Vector<float>({0, 0, 0});
  expect("FakeQuantWithMinMaxArgs", {x}, {{"min", -1.f}, {"max", 1.5f}, {"num_bits", 4}}, {inside});
  expect("FakeQuantWithMinMaxVars", {x, low, high}, {{"num_bits", 4}},
         {inside, Tensor::Scalar(3.f), Tensor::Scalar(11.f)});
  expect("FakeQuantWithMinMaxVarsPerChannel", {x, lows, highs}, {{"num_bits", 4}},
         {of_x({0, 0, 3, 4, 0, 6}), Tensor::Vector<float>({1, 2, 0}), Tensor::Vector<float>({0, 5, 0})});
  expect("QuantizeAndDequantize", {x}, {{"range_given", true}, {"input_min", -1.f}, {"input_max", 1.5f}}, {weights});
  expect("QuantizeAndDequantizeV2", {x, low, high}, {{"range_given", true}}, {weights});
  expect("QuantizeAndDequantizeV3", {x, low, high, Tensor::Scalar<int32_t>(8)}, {}, {weights});
  expect("QuantizeAndDequantizeV4", {x, low, high}, {{"range_given", true}}, {inside, none, none});
  expect("QuantizeAndDequantizeV4", {x, lows, highs}, {{"range_given", true}, {"axis", 1}},
         {of_x({0, 0, 0, 4, 0, 6}), nones, nones});
}

}  // namespace
}  // namespace thalweg
