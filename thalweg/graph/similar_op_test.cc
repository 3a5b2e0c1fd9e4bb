// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/similar_op.h"

#include <gtest/gtest.h>

namespace thalweg {
namespace {

TEST(SimilarOpTest, FewestChangesOfALetter) {
  const std::vector<std::string> names = {"SparseCross", "SparseConcat", "Sum"};
  EXPECT_EQ(MostSimilarName("SparseCros", names), "SparseCross");
  EXPECT_EQ(MostSimilarName("SparseConkat", names), "SparseConcat");
  EXPECT_EQ(MostSimilarName("Transmogrify", names), "");
  EXPECT_EQ(MostSimilarName("", names), "");
  EXPECT_EQ(MostSimilarName("Sum", {}), "");
}

TEST(SimilarOpTest, OtherVersionsComeFirst) {
  const std::vector<std::string> names = {"BatchDatasetV1x", "BatchDataset", "ExperimentalScanDataset", "V2"};
  EXPECT_EQ(MostSimilarName("BatchDatasetV12", names), "BatchDataset");
  EXPECT_EQ(MostSimilarName("ScanDataset", names), "ExperimentalScanDataset");
}

TEST(SimilarOpTest, LongNamesOfClientsCostNothing) {
  EXPECT_EQ(MostSimilarName(std::string(1 << 20, 'x'), {"Sum"}), "");
}

}  // namespace
}  // namespace thalweg
