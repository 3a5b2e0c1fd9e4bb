// SPDX-License-Identifier: Apache-2.0
#include <cfloat>
#include <cmath>
#include <set>

#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/sampling_ops.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

const Tensor kTruth = Tensor::Of<int64_t>({2, 1}, {1, 6});

std::vector<AttrArg> Attrs(int num_sampled, bool unique, int range) {
  return {{"num_true", 1}, {"num_sampled", num_sampled}, {"unique", unique}, {"range_max", range}, {"seed", 3}};
}

TEST(CandidateSamplerTest, UniqueAndInRange) {
  for (const char* op : {"LogUniformCandidateSampler", "UniformCandidateSampler", "LearnedUnigramCandidateSampler",
                         "ThreadUnsafeUnigramCandidateSampler"}) {
    const absl::StatusOr<std::vector<Tensor>> y = RunOp(op, {kTruth}, Attrs(7, true, 7));
    ASSERT_TRUE(y.ok()) << op << y.status();
    const absl::Span<const int64_t> sampled = (*y)[0].flat<int64_t>();
    EXPECT_EQ(std::set<int64_t>(sampled.begin(), sampled.end()), (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6})) << op;
    EXPECT_EQ((*y)[1].shape(), Shape({2, 1}));
  }
}

TEST(CandidateSamplerTest, ExpectedCounts) {
  const absl::StatusOr<std::vector<Tensor>> y = RunOp("UniformCandidateSampler", {kTruth}, Attrs(3, false, 10));
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[1], Tensor::Of<float>({2, 1}, {0.3f, 0.3f}));
  ExpectTensor((*y)[2], Tensor::Vector<float>({0.3f, 0.3f, 0.3f}));
}

TEST(CandidateSamplerTest, BadInput) {
  EXPECT_FALSE(RunOp("LogUniformCandidateSampler", {kTruth}, Attrs(8, true, 7)).ok());
  EXPECT_FALSE(RunOp("LogUniformCandidateSampler", {kTruth}, Attrs(2, true, 5)).ok());
  EXPECT_FALSE(RunOp("UniformCandidateSampler", {Tensor::Of<int64_t>({1, 1}, {-1})}, Attrs(2, true, 5)).ok());
  EXPECT_FALSE(RunOp("UniformCandidateSampler", {Tensor::Of<int64_t>({1, 2}, {1, 1})}, Attrs(2, true, 5)).ok());
  std::vector<AttrArg> attrs = Attrs(3, true, 3);
  attrs.emplace_back("unigrams", std::vector<float>{1, 0, 0});
  const Tensor truth = Tensor::Of<int64_t>({1, 1}, {1});
  EXPECT_THAT(RunOp("FixedUnigramCandidateSampler", {truth}, attrs).status().message(), HasSubstr("too small"));
  attrs.back() = {"unigrams", std::vector<float>{1, 1}};
  EXPECT_THAT(RunOp("FixedUnigramCandidateSampler", {truth}, attrs).status().message(), HasSubstr("weights size"));
  for (const float weight : {-1.0f, INFINITY, NAN}) {
    attrs.back() = {"unigrams", std::vector<float>{1, weight, 1}};
    EXPECT_THAT(RunOp("FixedUnigramCandidateSampler", {truth}, attrs).status().message(), HasSubstr("class 1"));
  }
  attrs.emplace_back("num_reserved_ids", int64_t{1} << 60);
  EXPECT_FALSE(RunOp("FixedUnigramCandidateSampler", {truth}, attrs).ok());
  attrs.back() = {"vocab_file", "/nowhere/at/all"};
  EXPECT_FALSE(RunOp("FixedUnigramCandidateSampler", {truth}, attrs).ok());
  EXPECT_FALSE(RunOp("LearnedUnigramCandidateSampler", {truth},
                     {{"num_true", 1}, {"num_sampled", 1}, {"unique", true}, {"range_max", int64_t{1} << 60}})
                   .ok());
}

TEST(CandidateSamplerTest, AccidentalHitsResult) {
  const absl::StatusOr<std::vector<Tensor>> y =
      RunOp("ComputeAccidentalHits", {kTruth, Tensor::Vector<int64_t>({6, 0, 1})}, {{"num_true", 1}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Vector<int32_t>({0, 1}));
  ExpectTensor((*y)[1], Tensor::Vector<int64_t>({2, 0}));
  ExpectTensor((*y)[2], Tensor::Vector<float>({-FLT_MAX, -FLT_MAX}));
}

}  // namespace
}  // namespace thalweg
