// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::vector<Tensor>> Einsum(const char* equation, std::vector<Tensor> inputs) {
  return RunOp("Einsum", {OpArg(std::move(inputs))}, {{"equation", equation}});
}

const Tensor kTwoByTwo = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});

TEST(EinsumTest, Values) {
  ExpectTensor((*Einsum("ij,jk->ik", {kTwoByTwo, kTwoByTwo}))[0], Tensor::Of<float>({2, 2}, {7, 10, 15, 22}));
  ExpectTensor((*Einsum("ii->", {kTwoByTwo}))[0], Tensor::Scalar<float>(5));
  ExpectTensor((*Einsum("ij->ji", {kTwoByTwo}))[0], Tensor::Of<float>({2, 2}, {1, 3, 2, 4}));
  ExpectTensor((*Einsum("...j,jk->...k", {Tensor::Vector<float>({1, 10}), kTwoByTwo}))[0],
               Tensor::Vector<float>({31, 42}));
  EXPECT_EQ((*Einsum("ij,jk->ik", {Tensor(kFloat, {0, 2}), kTwoByTwo}))[0].shape(), Shape({0, 2}));
  ExpectTensor((*Einsum("ij,jk->ik", {Tensor(kFloat, {2, 0}), Tensor(kFloat, {0, 2})}))[0],
               Tensor::Zeros(kFloat, {2, 2}));
}

TEST(EinsumTest, BadEquations) {
  for (const char* equation :
       {"", "ij", "ij->ik", "i->i", "ij,jk->ik", "i1->i", "......ij->ij", "ij->ii", "->", "ij->ij->ij"}) {
    EXPECT_FALSE(Einsum(equation, {kTwoByTwo}).ok()) << equation;
  }
  EXPECT_FALSE(Einsum("ij,jk,kl->il", {kTwoByTwo, kTwoByTwo, kTwoByTwo}).ok());
  EXPECT_FALSE(Einsum("ij,jk->ik", {kTwoByTwo, Tensor(kFloat, {3, 2})}).ok());
}

TEST(DistributionsTest, BadInput) {
  const Tensor shape = Tensor::Vector<int32_t>({2}), one = Tensor::Scalar(1.0f), two = Tensor::Scalar(2.0f);
  EXPECT_FALSE(RunOp("ParameterizedTruncatedNormal", {shape, one, one, two, one}).ok());
  EXPECT_FALSE(RunOp("ParameterizedTruncatedNormal", {shape, one, Tensor::Scalar(-1.0f), one, two}).ok());
  EXPECT_FALSE(RunOp("ParameterizedTruncatedNormal", {Tensor(kInt32, {0}), one, one, one, two}).ok());
  EXPECT_FALSE(RunOp("RandomGamma", {Tensor::Vector<int32_t>({-2}), one}).ok());
  EXPECT_FALSE(RunOp("StatelessRandomPoisson", {shape, shape, one}, {{"dtype", kInt32}}).ok());
  // Rates and shapes of gamma that make no sense end all the same.
  for (const float bad : {-1.0f, NAN, INFINITY, 1e30f}) {
    EXPECT_TRUE(RunOp("RandomPoissonV2", {shape, Tensor::Scalar(bad)}, {{"dtype", kInt32}}).ok());
    EXPECT_TRUE(RunOp("RandomGamma", {shape, Tensor::Scalar(bad)}).ok());
  }
}

TEST(EinsumTest, Gradient) {
  const auto check = [](const char* equation, std::vector<Tensor> xs) {
    SCOPED_TRACE(equation);
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& x) {
          return Output(s.Add("Einsum", {OpInput(x)}, {{"equation", equation}}));
        },
        xs);
  };
  check("ij,jk->ik", {TestValues(kDouble, {2, 3}), TestValues(kDouble, {3, 4})});
  check("bij,bjk->bki", {TestValues(kDouble, {2, 3, 2}), TestValues(kDouble, {2, 2, 3})});
  check("ijl,jk->k", {TestValues(kDouble, {2, 3, 2}), TestValues(kDouble, {3, 4})});
  check("ijk->k", {TestValues(kDouble, {2, 3, 2})});
  Graph graph;
  const Scope s = graph.root();
  const Output x = s.Add("Const", {}, {{"dtype", kDouble}, {"value", TestValues(kDouble, {2, 2})}});
  Gradients(s, {Output(s.Add("Einsum", {OpInput(std::vector<Output>{x})}, {{"equation", "ii->i"}}))}, {x});
  EXPECT_TRUE(absl::IsUnimplemented(s.status())) << s.status();
}

}  // namespace
}  // namespace thalweg
