// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

TEST(DecodeLibsvmTest, LabelsAndFeatures) {
  const auto out = RunOp("DecodeLibsvm", {Tensor::Of<std::string>({2, 1}, {" 1 1:3.5\t4:0.25 ", "-2"})},
                         {{"num_features", 6}, {"dtype", kDouble}, {"label_dtype", kInt32}});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensor((*out)[0], Tensor::Of<int32_t>({2, 1}, {1, -2}));
  ExpectTensor((*out)[1], Tensor::Of<int64_t>({2, 3}, {0, 0, 1, 0, 0, 4}));
  ExpectTensor((*out)[2], Tensor::Vector<double>({3.5, 0.25}));
  ExpectTensor((*out)[3], Tensor::Vector<int64_t>({2, 1, 6}));
  const auto scalar = RunOp("DecodeLibsvm", {Tensor::Scalar<std::string>("7 2:1")}, {{"num_features", 3}});
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  ExpectTensor((*scalar)[1], Tensor::Of<int64_t>({1, 1}, {2}));
}

TEST(DecodeLibsvmTest, BadInputIsAnError) {
  const auto error = [](std::string line) {
    return RunOp("DecodeLibsvm", {Tensor::Vector<std::string>({std::move(line)})}, {{"num_features", 3}})
        .status()
        .ToString();
  };
  EXPECT_THAT(error(" "), HasSubstr("No label found for input[0]: \" \""));
  EXPECT_THAT(error("x"), HasSubstr("Label format incorrect: x"));
  EXPECT_THAT(error("1 2"), HasSubstr("Invalid feature \"2\""));
  EXPECT_THAT(error("1 x:2"), HasSubstr("Feature format incorrect: x:2"));
  EXPECT_THAT(error("1 2:x"), HasSubstr("Feature format incorrect: 2:x"));
  EXPECT_THAT(error("1 -2:1"), HasSubstr("Feature index should be >= 0, got -2"));
}

}  // namespace
}  // namespace thalweg
