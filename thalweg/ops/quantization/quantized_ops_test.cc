// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

const Tensor kLow = Tensor::Scalar(-1.0f), kHigh = Tensor::Scalar(1.0f);

Tensor Quantized(DType dtype, const Tensor& t) { return t.Bitcast(dtype); }
const Tensor kBytes = Quantized(kQuint8, Tensor::Of<uint8_t>({2, 2}, {0, 128, 200, 255}));

TEST(QuantizedOpsTest, ProductsAndSumsStandForThoseOfFloats) {
  for (const char* op : {"QuantizedAdd", "QuantizedMul"}) {
    SCOPED_TRACE(op);
    const auto out = RunOp(op, {kBytes, kBytes, kLow, kHigh, kLow, kHigh}, {{"Toutput", kQint32}});
    ASSERT_TRUE(out.ok()) << out.status();
    const auto back = RunOp("Dequantize", {(*out)[0], (*out)[1], (*out)[2]}, {{"mode", "MIN_FIRST"}});
    ASSERT_TRUE(back.ok()) << back.status();
    const bool add = op[9] == 'A';
    ExpectTensor((*back)[0],
                 Tensor::Of<float>({2, 2}, add ? std::initializer_list<float>{-2, 0.008f, 1.137f, 2}
                                               : std::initializer_list<float>{1, 0, 0.323f, 1}),
                 0.02);
  }
}

TEST(QuantizedOpsTest, BadInputIsAnError) {
  const Tensor two = Tensor::Vector<float>({1, 2}), nan = Tensor::Scalar(NAN);
  EXPECT_FALSE(RunOp("QuantizedAdd", {kBytes, kBytes, two, kHigh, kLow, kHigh}, {{"Toutput", kQint32}}).ok());
  EXPECT_FALSE(RunOp("QuantizedAdd", {kBytes, kBytes, nan, kHigh, kLow, kHigh}, {{"Toutput", kQint32}}).ok());
  EXPECT_FALSE(RunOp("QuantizedMul", {kBytes, kBytes, kHigh, kLow, kLow, kHigh}, {{"Toutput", kQint32}}).ok());
  EXPECT_FALSE(RunOp("QuantizedRelu", {kBytes, two, kHigh}, {{"out_type", kQuint8}}).ok());
  EXPECT_FALSE(RunOp("Requantize", {kBytes, kLow, kHigh, kHigh, kHigh}, {{"out_type", kQint8}}).ok());
  EXPECT_FALSE(RunOp("QuantizedReshape", {kBytes, Tensor::Vector<int32_t>({3, -1}), kLow, kHigh}).ok());
  EXPECT_FALSE(RunOp("QuantizedReshape", {kBytes, Tensor::Vector<int32_t>({-1, -1}), kLow, kHigh}).ok());
  EXPECT_FALSE(RunOp("QuantizedInstanceNorm", {kBytes, kLow, kHigh}).ok());
}

TEST(QuantizedOpsTest, Shapes) {
  const std::pair<DType, PartialShape> end = {kFloat, PartialShape(Shape())};
  EXPECT_EQ(
      InferShape("QuantizedMatMul", {{kQuint8, {2, 3}}, {kQuint8, {-1, 4}}, end, end, end, end}, {{"Toutput", kQint32}})
          .value(),
      "[2,4]");
  EXPECT_EQ(InferShape("QuantizedConv2D", {{kQuint8, {2, 5, 5, 3}}, {kQuint8, {3, 3, 3, 7}}, end, end, end, end},
                       {{"out_type", kQint32}, {"strides", std::vector<int64_t>{1, 2, 2, 1}}, {"padding", "VALID"}})
                .value(),
            "[2,2,2,7]");
  EXPECT_EQ(InferShape("QuantizedAdd", {{kQuint8, {2, 3}}, {kQuint8, {3}}, end, end, end, end}, {{"Toutput", kQint32}})
                .value(),
            "[2,3]");
  EXPECT_FALSE(InferShape("RequantizationRange", {{kQuint8, {2}}, {kFloat, {2}}, end}).ok());
}

}  // namespace
}  // namespace thalweg
