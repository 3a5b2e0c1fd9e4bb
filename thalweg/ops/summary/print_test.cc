// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/summary/summarize.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(SummarizeTest, AsTensorFlowShowsThem) {
  EXPECT_EQ(SummarizeValue(Counting({5}), 3), "1 2 3...");
  EXPECT_EQ(SummarizeValue(Counting({2, 2}), 3), "[1 2][3...]...");
  EXPECT_EQ(SummarizeValue(Counting({2, 2}), -1), "[1 2][3 4]");
  EXPECT_EQ(SummarizeValue(Tensor::Scalar<float>(0.1f), 3), "0.1");
  EXPECT_EQ(SummarizeValue(Tensor::Scalar<double>(1.0 / 3), 3), "0.33333333333333331");
  EXPECT_EQ(SummarizeValue(Strings({"a\n", "b"}), 3), "a\\n b");
  EXPECT_EQ(SummarizeValue(Tensor::Vector<bool>({true, false}), 3), "1 0");
  EXPECT_EQ(SummarizeValue(FloatVector({}), 3), "");
  EXPECT_EQ(SummarizeNested(Counting({7}), 2), "[1 2 ... 6 7]");
  EXPECT_EQ(SummarizeNested(Counting({2, 2}), 3), "[[1 2]\n [3 4]]");
  EXPECT_EQ(SummarizeNested(Tensor::Scalar<std::string>("a"), 3), "\"a\"");
}

TEST(PrintTest, WritesAndPasses) {
  CaptureStderr();
  ExpectTensor(
      Result("Print", {FloatVector({7}), std::vector<Tensor>{Ints({1, 2}), Strings({"x"})}}, {{"message", "see: "}}),
      FloatVector({7}));
  EXPECT_EQ(GetCapturedStderr(), "see: [1 2][x]\n");
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) { return Print(s, x[0], {Const(s, 1)}, {.first_n = 0}); },
      {TestValues(kDouble, {2})});
}

TEST(PrintTest, V2) {
  CaptureStderr();
  EXPECT_TRUE(RunOp("PrintV2", {Tensor::Scalar<std::string>("hello")}).ok());
  EXPECT_EQ(GetCapturedStderr(), "hello\n");
  ExpectInvalid(KernelError("PrintV2", {Strings({"a"})}), "Input is expected to be scalar, but got [1]");
  ExpectInvalid(KernelError("PrintV2", {Tensor::Scalar<std::string>("a")}, {{"output_stream", "nowhere"}}),
                "Unknown output stream: nowhere");
}

TEST(AssertTest, ShowsData) {
  EXPECT_TRUE(RunOp("Assert", {Tensor::Scalar<bool>(true), std::vector<Tensor>{Ints({1})}}).ok());
  ExpectInvalid(KernelError("Assert", {Tensor::Scalar<bool>(false),
                                       std::vector<Tensor>{Strings({"x must be 1"}), Counting({5})}}),
                "assertion failed: [x must be 1] [1 2 3...]\n");
  ExpectInvalid(KernelError("Assert", {Tensor::Vector<bool>({true}), std::vector<Tensor>{Ints({1})}}),
                "In[0] should be a scalar: [1]");
}

}  // namespace
}  // namespace thalweg
