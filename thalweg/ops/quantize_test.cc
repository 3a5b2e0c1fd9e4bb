#include "thalweg/ops/array_ops_testlib.h"

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

TEST(QuantizeTest, GradientsPassInsideTheRange) {
  Graph graph;
  const Scope s = graph.root();
  for (const char* op : {"FakeQuantWithMinMaxVars", "QuantizeAndDequantizeV4"}) {
    std::vector<Output> xs;
    for (const Tensor& t : {kX, Tensor::Scalar(-0.5f), Tensor::Scalar(1.0f)}) {
      xs.push_back(s.Add("Const", {}, {{"dtype", kFloat}, {"value", t}}));
    }
    const std::vector<Gradient> dx = Gradients(s, {Output(s.Add(op, {xs[0], xs[1], xs[2]}))}, xs);
    EXPECT_TRUE(s.ok()) << s.status();
    for (const Gradient& g : dx) EXPECT_TRUE(static_cast<bool>(g)) << op;
  }
  const auto grad = RunOp("FakeQuantWithMinMaxVarsGradient",
                          {Tensor::Vector<float>({1, 1, 1, 1, 1}), kX, Tensor::Scalar(-0.5f), Tensor::Scalar(1.0f)});
  ASSERT_TRUE(grad.ok());
  ExpectTensor((*grad)[0], Tensor::Vector<float>({0, 1, 1, 1, 0}));
  ExpectTensor((*grad)[1], Tensor::Scalar(1.0f));
  ExpectTensor((*grad)[2], Tensor::Scalar(1.0f));
}

}  // namespace
}  // namespace thalweg
