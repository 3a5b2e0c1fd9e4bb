// SPDX-License-Identifier: Apache-2.0
// Errors of the ops that only TensorFlow's optimizer makes. python/tests/compare_test.py has values.
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(FusedTest, AnUnknownCombinationIsUnimplemented) {
  const Tensor a = Tensor::Of<float>({1, 1}, {1}), bias = Tensor::Vector<float>({1});
  for (const std::vector<std::string>& ops : {std::vector<std::string>{},
                                              {"Relu"},
                                              {"BiasAdd", "Sqrt"},
                                              {"BiasAdd", "Relu", "Relu"},
                                              {"FusedBatchNorm", "Add"}}) {
    const absl::Status status =
        RunOp("_FusedMatMul", {a, a, std::vector<Tensor>{bias}}, {{"num_args", 1}, {"fused_ops", ops}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  }
}

TEST(FusedTest, ArgumentsFitTheResult) {
  const Tensor a = Tensor::Of<float>({1, 2}, {1, 2}), b = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  const std::vector<std::string> ops = {"BiasAdd"};
  const auto run = [&](const Tensor& bias, const std::vector<std::string>& fused) {
    return RunOp("_FusedMatMul", {a, b, std::vector<Tensor>{bias}}, {{"num_args", 1}, {"fused_ops", fused}});
  };
  ExpectTensor((*run(Tensor::Vector<float>({1, -20}), {"BiasAdd", "Relu"}))[0], Tensor::Of<float>({1, 2}, {8, 0}));
  ExpectInvalid(run(Tensor::Vector<float>({1}), ops).status(),
                "fused argument 0 must be a vector of 2 elements, got shape [1]");
  ExpectInvalid(run(Tensor::Vector<float>({1}), {"FusedBatchNorm"}).status(),
                "[FusedBatchNorm] takes 4 arguments, got num_args = 1");
}

TEST(FusedTest, UnaryCompositionsKnowTheirOps) {
  const Tensor x = Tensor::Vector<float>({-1, 4});
  ExpectTensor((*RunOp("_UnaryOpsComposition", {x}, {{"op_names", std::vector<std::string>{"Abs", "Sqrt"}}}))[0],
               Tensor::Vector<float>({1, 2}));
  EXPECT_EQ(RunOp("_UnaryOpsComposition", {x}, {{"op_names", std::vector<std::string>{"MatMul"}}}).status().code(),
            absl::StatusCode::kUnimplemented);
}

// It writes to its input, which must be memory that nobody else reads.
TEST(FusedTest, AParallelConcatChangesOnlyItsOwnTensor) {
  const Tensor value = Tensor::Of<float>({2, 1}, {1, 2}), row = Tensor::Of<float>({1, 1}, {5});
  ExpectInvalid(KernelError("_ParallelConcatUpdate", {value, row}, {{"loc", 1}}),
                "_ParallelConcatUpdate changes only the result of a _ParallelConcatStart");
  ExpectTensor(value, Tensor::Of<float>({2, 1}, {1, 2}));
}

}  // namespace
}  // namespace thalweg
