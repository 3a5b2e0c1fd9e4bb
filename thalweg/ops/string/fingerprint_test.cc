// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(FingerprintTest, TellsRowsApart) {
  const Tensor y = Result("Fingerprint", {Strings({"a", "b", "a"}), Tensor::Scalar<std::string>("farmhash64")});
  EXPECT_EQ(y.shape(), Shape({3, 8}));
  ExpectTensor(y.Rows(0, 1), y.Rows(2, 3));
  EXPECT_NE(y.Rows(0, 1).ToString(8), y.Rows(1, 2).ToString(8));
}

}  // namespace
}  // namespace thalweg
